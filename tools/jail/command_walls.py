"""Commands in a jail, or without walls if a person said so; the one place that decides which.

Agents that edit in place and gates by command run their commands through `command_walls`.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from attrs import evolve

from ..base.program_run import Ended, ProgramRun, run_program
from ..base.tracing import Attribute, Traced, traced
from .command_programs import NOT_EXECUTABLE, NOT_FOUND, MissingProgram, missing_name
from .jail import Jail, require_command
from .mounts import make_mount_points
from .policy import JailPolicy, JailResult, JailUsage, Means, StopReason
from .toolchain import find_program, shown_path

_OWN: Final = ("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LC_ALL", "LC_CTYPE")
"""The variables of this process that a command without walls gets besides `PATH`."""
_STOPS: Final = {"time": StopReason.DEADLINE, "output": StopReason.OUTPUT}


class NoWalls:
    """Runs commands as this process's user: they can do all that this user can.

    Of a jail's guarantees these are left: the deadline, the bound of the output, an environment of
    named variables, and the end of the command's process group. A process that leaves the group
    may live on. Memory, processes and the disk are not limited. A mount of the policy is a link
    in the workspace while a command runs.
    """

    def __init__(self, policy: JailPolicy, *, programs: Sequence[str] = ()) -> None:
        """Look the programs up; nothing runs yet.

        Raises:
            CommandMissing: One of the programs is missing.
        """
        self._policy = policy
        here = os.environ.get("PATH", os.defpath)
        self._path = os.pathsep.join([*shown_path(policy), here])
        for program in programs:
            self.require([program])

    def check(self) -> None:
        """Do nothing: every machine runs commands without walls."""

    def require(self, command: Sequence[str]) -> None:
        """Raise `CommandMissing` if the host has no such program."""
        if "/" not in command[0] or os.path.isabs(command[0]):
            find_program(command[0], self._path)

    def sees(self, workspace: Path) -> str:
        """Return the workspace's own path."""
        return str(workspace)

    def run(
        self,
        command: Sequence[str],
        *,
        workspace: Path,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
    ) -> JailResult:
        """Run a command; see the class for what bounds it.

        Raises:
            InvalidJail: The command or a variable is invalid.
            MountPointUnusable: A link or file of the workspace is where a mount belongs.
            OperationCancelled: The thread's own operation was cancelled.
        """
        require_command(command)
        limits = self._policy.limits
        own = {name: os.environ[name] for name in _OWN if name in os.environ}
        named = {**self._policy.environment, **(environment or {})}
        policy = evolve(self._policy, environment=named)
        run = ProgramRun(
            command,
            {"PYTHONDONTWRITEBYTECODE": "1", **policy.environment, **own, "PATH": self._path},
            stdin=stdin,
            timeout_s=limits.deadline_s if deadline_s is None else deadline_s,
            max_output=limits.output_bytes,
            directory=workspace,
        )
        began = time.monotonic()
        about = {Attribute.EXECUTOR: "no walls"}
        with traced(Traced.EXECUTION, about, detail="no walls") as span, self._linked(workspace):
            try:
                ended = run_program(run)
            except OSError as error:
                code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
                ended = Ended(code, b"", f"{command[0]}: {error.strerror}\n".encode())
            code = ended.exit_code
            span.set(Attribute.EXIT_CODE, code)
        return JailResult(
            exit_code=None if ended.cut_short else 128 - code if code < 0 else code,
            stopped=_STOPS.get(ended.cut_short or ""),
            stdout=ended.stdout[: limits.output_bytes],
            stderr=ended.stderr,
            usage=JailUsage(seconds=time.monotonic() - began, held_by=Means.NONE),
            sealed=False,
        )

    @contextmanager
    def _linked(self, workspace: Path) -> Iterator[None]:
        """Link the mounts into a workspace meanwhile, but where it has files itself.

        As with a jail's mount points, no link of the workspace is followed.
        """
        make_mount_points(workspace, (mount.target for mount in self._policy.mounts))
        linked = []
        try:
            for mount in self._policy.mounts:
                place = workspace / mount.target
                with suppress(OSError):
                    place.rmdir()
                    place.symlink_to(mount.source)
                    linked.append(place)
            yield
        finally:
            for place in linked:
                with suppress(OSError):
                    place.unlink()
                    place.mkdir()

    def missing(self, result: JailResult, command: Sequence[str] = ()) -> MissingProgram | None:
        """Return the program that a command did not find; None if it ended for another reason."""
        del command
        name = missing_name(result.exit_code, (result.stderr, result.stdout))
        found = None if not name else shutil.which(name, path=self._path)
        return None if name is None or found else MissingProgram(name=name or None)


CommandWalls: TypeAlias = Jail | NoWalls
"""What runs commands in a workspace: a jail, or nothing around them."""


def command_walls(policy: JailPolicy, *, programs: Sequence[str] = ()) -> CommandWalls:
    """Return what runs commands: a jail, unless the policy says that they have no walls.

    Raises:
        JailError: As for `Jail`; without walls only `CommandMissing`.
    """
    return Jail(policy, programs=programs) if policy.walls else NoWalls(policy, programs=programs)
