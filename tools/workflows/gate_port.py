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
    """Where code that a sandbox runs finds what it was given, as the code sees it.

    Attributes:
        workspace: The directory of the files, absolute; None: the one that the code starts in.
        kit: The directory of pytest and what it needs, put on the path for the code; None: pytest
            can be imported as it is.
        scratch: A directory for temporary files, absolute; None: the one that Python's `tempfile`
            finds.
        packages: The directory of the packages that gates asked for, put on the path for the code;
            None: they can be imported as it is, or none was asked for.
    """

    workspace: str | None = None
    kit: str | None = None
    scratch: str | None = None
    packages: str | None = None


@frozen(kw_only=True)
class GateExecution:
    """What became of a gate's code.

    Attributes:
        result: Its end, as of any phase work; files made are named relative to its own workspace.
        report: The file that it was asked to leave, or None if it left none.
    """

    result: PhaseResult
    report: bytes | None = field(default=None, repr=False)


@runtime_checkable
class GateSandbox(Protocol):
    """Runs a gate's code on files alone.

    Asked of every implementation: the code sees the given files in a fresh workspace and nothing
    else, whatever it does reaches neither the session's workspace nor another gate, what it does
    never raises here, and the call returns within `deadline_s` plus a short grace. How it does that
    is its own affair: a sandbox of another make, a container or a machine elsewhere will do.
    """

    @property
    def places(self) -> GatePlaces:
        """Where the code finds its files, the test kit and room for temporary files."""
        ...

    def prepare(self, *, kit: bool) -> None:
        """Have ready what gates need, so that no agent is asked for work that can't be judged.

        Args:
            kit: Whether pytest has to be there.

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
        """Run code in a fresh workspace that holds these files and is removed afterwards.

        Args:
            code: Python source.
            files: What is in the workspace, by relative path.
            report: Which file to give back; one of this name is never among `files`.
            deadline_s: Wall-clock limit in seconds; the sandbox's default if None.
            kit: Whether pytest has to be there, where `places` says.

        Raises:
            GateUnavailable: The gate can't run on this machine.
        """
        ...


@runtime_checkable
class PackagedSandbox(Protocol):
    """A gate sandbox that can have packages besides the standard library."""

    def with_packages(self, packages: Sequence[str]) -> GateSandbox:
        """Return the sandbox with packages, for code to import.

        Args:
            packages: Names of installed packages, or paths of wheels.

        Raises:
            GateUnavailable: One of them can't be had there.
        """
        ...


def sandbox_with(sandbox: GateSandbox, packages: Sequence[str]) -> GateSandbox:
    """Return a sandbox with packages; the sandbox itself for none.

    Raises:
        GateUnavailable: It can't have them.
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
    """A project's tests, to be run by a command.

    Attributes:
        command: The command line, split into words as a shell splits them; no shell runs.
        report: "junit", "tap" or "exit-code".
        report_path: Where the command leaves its JUnit report, relative to the workspace; `*`
            stands for any part of a name, `**` for any folders. None: in the file that the variable
            AGENTFORGE_REPORT names. A TAP report is taken from standard output.
        deadline_s: Wall-clock limit in seconds.
        import_root: The folder that imports of a Python component begin in, relative, "" for the
            workspace; None where nothing is known of it.
    """

    command: str
    report: str
    report_path: str | None = None
    deadline_s: float | None = None
    import_root: str | None = None


@frozen(kw_only=True)
class CommandExecution:
    """What became of a command.

    Attributes:
        result: Its end, as of any phase work.
        reports: The reports that this run left, by path; none that was there before.
        sealed: Whether it was cut off from every network.
        missing: Why a program that it needs was not found there, and what to do; None where it did
            not end for that.
    """

    result: PhaseResult
    reports: Mapping[str, bytes] = field(factory=dict, repr=False)
    sealed: bool = True
    missing: str | None = None


@runtime_checkable
class GateCommands(Protocol):
    """Runs a project's own command on files alone.

    Asked of every implementation: the command sees a fresh copy of the files, what it does reaches
    neither the session's workspace nor another gate, it never raises here, it ends within its
    deadline plus a short grace, and no report that was among the files is taken for its own.
    """

    def prepare(self, requests: Iterable[CommandRequest]) -> None:
        """See that commands can be run, before an agent is asked for work that can't be judged.

        Raises:
            GateUnavailable: They can't be run on this machine.
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
        """Run a command in a fresh workspace that holds these files and is removed afterwards.

        Args:
            request: The command.
            files: What is in the workspace, by relative path.
            folder: A folder whose files are in it besides, byte for byte and as runnable as they
                are, but for what a `.git` holds; `files` take the place of those of their names.
            left_out: Files of that folder that are not in it.

        Raises:
            GateUnavailable: The command can't be run on this machine.
        """
        ...


class GateUnavailable(HarnessError, kind=ErrorKind.SANDBOX):
    """A gate can't run on this machine; nothing was judged."""

    message = "the gate can't run: {problem}"
    problem: str
    """What is missing, and what to do."""
