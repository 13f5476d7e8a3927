"""The port through which gates reach a sandbox."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from attrs import field, frozen

from ..base.errors import ErrorKind
from ..harness import HarnessError, PhaseResult


@frozen(kw_only=True)
class GatePlaces:
    """Paths that code in a sandbox uses, as the code sees them.

    Attributes:
        workspace: The directory of the files, absolute; None: the code's working directory.
        kit: The directory of pytest and its requirements, put on the code's path; None: pytest can
            be imported without it.
        scratch: A directory for temporary files, absolute; None: the one that Python's `tempfile`
            finds.
        packages: The directory of the gates' packages, put on the code's path; None: they can be
            imported without it, or there are none.
    """

    workspace: str | None = None
    kit: str | None = None
    scratch: str | None = None
    packages: str | None = None


@frozen(kw_only=True)
class GateExecution:
    """The result of a gate's code.

    Attributes:
        result: How it ended, as for any phase; paths are relative to its own workspace.
        report: The content of its report file, or None if there is none.
    """

    result: PhaseResult
    report: bytes | None = field(default=None, repr=False)


@runtime_checkable
class GateSandbox(Protocol):
    """Runs a gate's code on given files only.

    Every implementation guarantees: the code sees the given files in a fresh workspace and nothing
    else, affects neither the session's workspace nor another gate, never raises here, and the call
    returns within `deadline_s` plus a short grace. The implementation is free: another sandbox, a
    container or another machine.
    """

    @property
    def places(self) -> GatePlaces:
        """The paths of the code's files, the test kit and temporary files."""
        ...

    def prepare(self, *, kit: bool) -> None:
        """Prepare what gates need, before an agent does work that can't be judged.

        Args:
            kit: Whether pytest is needed.

        Raises:
            GateUnavailable: Gates can't run on this machine.
        """
        ...

    def run(
        self,
        code: str,
        *,
        files: Mapping[str, bytes],
        report: str,
        deadline_s: float | None = None,
        kit: bool = False,
    ) -> GateExecution:
        """Run code in a fresh workspace with these files; the workspace is removed afterwards.

        Args:
            code: Python source.
            files: The files of the workspace, by relative path.
            report: The file to return; `files` never contains one of this name.
            deadline_s: Wall-clock limit in seconds; the sandbox's default if None.
            kit: Whether pytest is needed, at the path in `places`.

        Raises:
            GateUnavailable: The gate can't run on this machine.
        """
        ...


@runtime_checkable
class PackagedSandbox(Protocol):
    """A gate sandbox that can provide packages besides the standard library."""

    def with_packages(self, packages: Sequence[str]) -> GateSandbox:
        """Return the sandbox with packages that code can import.

        Args:
            packages: Names of installed packages, or paths of wheels.

        Raises:
            GateUnavailable: A package is not available there.
        """
        ...


def sandbox_with(sandbox: GateSandbox, packages: Sequence[str]) -> GateSandbox:
    """Return a sandbox with packages; without packages, the sandbox itself.

    Raises:
        GateUnavailable: The sandbox can't provide them.
    """
    if not packages:
        return sandbox
    if not isinstance(sandbox, PackagedSandbox):
        raise GateUnavailable(
            f"it needs the packages {', '.join(packages)}, and this runner's gates can't have any"
        )
    return sandbox.with_packages(packages)


@frozen(kw_only=True)
class CommandRequest:
    """A request to run a project's tests with a command.

    Attributes:
        command: The command line, split into words as a shell splits them; no shell runs.
        report: "junit", "tap" or "exit-code".
        report_path: The path of the command's JUnit report, relative to the workspace; `*`
            matches any part of a name, `**` any folders. None: the file named by the variable
            AGENTFORGE_REPORT. A TAP report is read from standard output.
        deadline_s: Wall-clock limit in seconds.
        import_root: The folder where a Python component's imports begin, relative, "" for the
            workspace; None if unknown.
    """

    command: str
    report: str
    report_path: str | None = None
    deadline_s: float | None = None
    import_root: str | None = None


@frozen(kw_only=True)
class CommandExecution:
    """The result of a command.

    Attributes:
        result: How it ended, as for any phase.
        reports: The reports that this run wrote, by path; older ones are not included.
        sealed: Whether it was cut off from every network.
        missing: Why a program that it needs was not found there, and what to do; None if that was
            not why it ended.
    """

    result: PhaseResult
    reports: Mapping[str, bytes] = field(factory=dict, repr=False)
    sealed: bool = True
    missing: str | None = None


@runtime_checkable
class GateCommands(Protocol):
    """Runs a project's own command on given files only.

    Every implementation guarantees: the command sees a fresh copy of the files, affects neither the
    session's workspace nor another gate, never raises here, ends within its deadline plus a short
    grace, and no report from among the files counts as its own.
    """

    def prepare(self, requests: Iterable[CommandRequest]) -> None:
        """Check that commands can run, before an agent does work that can't be judged.

        Raises:
            GateUnavailable: They can't run on this machine.
        """
        ...

    def run(
        self,
        request: CommandRequest,
        *,
        files: Mapping[str, bytes],
        folder: Path | None = None,
        left_out: Collection[str] = (),
    ) -> CommandExecution:
        """Run a command in a fresh workspace with these files; the workspace is removed afterwards.

        Args:
            request: The command.
            files: The files of the workspace, by relative path.
            folder: A folder whose files are copied into it, with their content and executable bits,
                except the contents of a `.git`; `files` replace files of the same name.
            left_out: Files of that folder that are not copied.

        Raises:
            GateUnavailable: The command can't run on this machine.
        """
        ...


class GateUnavailable(HarnessError, kind=ErrorKind.SANDBOX):
    """A gate can't run on this machine; nothing was judged."""

    message = "the gate can't run: {problem}"
    problem: str
    """What is missing, and what to do."""
