"""The options of a sandbox, checked before anything is created."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypedDict, Unpack

from ..base.errors import shown
from .errors import InvalidPolicy, SandboxError
from .executor import Isolation, SandboxSettings
from .policy import seconds_fault


class RuntimeType(StrEnum):
    """The supported languages of code."""

    PYTHON = "python"


class UnsupportedRuntime(SandboxError, ValueError):
    """A sandbox was requested for a language that has no interpreter."""

    message = "the runtime {runtime!r} is not supported; nothing was made. Use one of: {known}"
    runtime: object

    @property
    def known(self) -> str:
        """The supported languages."""
        return ", ".join(repr(str(known)) for known in RuntimeType)


class SandboxOptions(TypedDict, total=False):
    """The options of `create_sandbox` besides workspace, policy and logger; see there."""

    stateful: bool
    idle_s: float
    busy_timeout_s: float | None
    tools: Sequence[Any]
    gate: Callable[..., Any] | None
    isolation: Isolation | None


def checked_settings(runtime: object, **options: Unpack[SandboxOptions]) -> SandboxSettings:
    """Return a sandbox's settings from its options.

    Raises:
        UnsupportedRuntime: The runtime is not Python.
        InvalidPolicy: A number of seconds or the isolation is refused; `.faults` names each.
        InvalidExecution: A tool cannot be offered; `.faults` names each.
    """
    if runtime != RuntimeType.PYTHON:
        raise UnsupportedRuntime(runtime)
    given = SandboxSettings(**options)
    found = [
        seconds_fault("idle_s", given.idle_s),
        None
        if given.busy_timeout_s is None
        else seconds_fault("busy_timeout_s", given.busy_timeout_s),
    ]
    faults = [fault for fault in found if fault is not None]
    if given.isolation not in (None, "process"):
        faults.append(f"isolation must be None or 'process', not {shown(given.isolation)}")
    elif given.isolation is not None and given.tools:
        faults.append("tools cannot be called from a process apart; use no isolation")
    if faults:
        raise InvalidPolicy(faults)
    if not given.tools and given.gate is None:
        return given._replace(tools=())
    from .guest.host_functions import check_tools  # needed only with tools

    return given._replace(tools=check_tools(given.tools, given.gate))
