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
"""What makes an executor: called with the store and `ExecutorParameters`, it returns a
`harness.PhaseExecutor`. How sealed what it runs is, is the plugin's own promise."""


class UnknownExecutor(HarnessError, kind=ErrorKind.USAGE):
    """There is no executor of that name; nothing was run."""

    message = """there is no executor {executor!r}; there are {known:,}. Nothing was run; name one
    of them, or install the package that adds it."""
    executor: str
    known: Sequence[str]


@frozen(kw_only=True)
class ExecutorParameters:
    """What an executor is made with.

    Attributes:
        policy: Limits of what runs in the sandbox; the sandbox's default if None.
        jail: What commands in a jail may use and see; the jail's default if None.
        tools: Functions of the host that code may call, where the executor offers any; the list
            may grow until the first execution.
    """

    policy: ExecutionPolicy | None = None
    jail: JailPolicy | None = None
    tools: Sequence[Callable[..., Any]] = ()


def make_executor(name: str, store: LocalSessions, settings: ExecutorParameters) -> PhaseExecutor:
    """Make the executor of a name; nothing runs yet.

    Raises:
        UnknownExecutor: There is none.
        PluginUnusable: The package that adds it is broken.
    """
    found = EXECUTORS.find(name)
    if found is None:
        raise UnknownExecutor(name, EXECUTORS.names())
    made: PhaseExecutor = found.load()(store, settings)
    return made
