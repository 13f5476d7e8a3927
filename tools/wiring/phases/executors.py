"""The executors of phases by name: the sandbox, the jail, and those of installed plugins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from ...base.errors import ErrorKind
from ...base.plugins import Register
from ...harness import HarnessError, PhaseExecutor
from ...harness.session_ports import LocalSessions

if TYPE_CHECKING:
    from ...jail import JailPolicy
    from ...sandbox import ExecutionPolicy

EXECUTORS: Final = Register(
    "executors",
    {
        "sandbox": f"{__package__}.sandbox_executor:make_executor",
        "jail": f"{__package__}.jail_executor:make_executor",
    },
)
"""Factories of executors: called with the store and `ExecutorParameters`, each returns a
`harness.PhaseExecutor`. A plugin is itself responsible for how well its executor seals code."""


class UnknownExecutor(HarnessError, kind=ErrorKind.USAGE):
    """There is no executor of that name; nothing was run."""

    message = """there is no executor {executor!r}; there are {known:,}. Nothing was run; name one
    of them, or install the package that adds it."""
    executor: str
    known: Sequence[str]


@frozen(kw_only=True)
class ExecutorParameters:
    """The parameters of a new executor.

    Attributes:
        policy: Limits of what runs in the sandbox; the sandbox's default if None.
        jail: Limits and visible paths of jailed commands; the jail's default if None.
        tools: Host functions that code may call, if the executor offers them; the list may grow
            may grow until the first execution.
    """

    policy: ExecutionPolicy | None = None
    jail: JailPolicy | None = None
    tools: Sequence[Callable[..., Any]] = ()


def make_executor(name: str, store: LocalSessions, settings: ExecutorParameters) -> PhaseExecutor:
    """Create the executor of a name; nothing runs yet.

    Raises:
        UnknownExecutor: There is no executor of this name.
        PluginUnusable: The plugin's package is broken.
    """
    found = EXECUTORS.find(name)
    if found is None:
        raise UnknownExecutor(name, EXECUTORS.names())
    made: PhaseExecutor = found.load()(store, settings)
    return made
