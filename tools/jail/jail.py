"""A jail: any command in its own namespaces, with one writable folder.

The module is long because it is one class, which finds what to show where it runs a command.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from attrs import evolve

from ..base.cancellation import check_cancelled, current_token, is_cancelled
from ..base.event_log import get_logger
from ..base.tracing import Attribute, Traced, traced
from .bubblewrap import filter_program, find_bubblewrap, in_memory, refusal_of
from .command_line import (
    HOME,
    SYSTEM_FILES,
    Bind,
    GivenFile,
    JailPlan,
    bubblewrap_arguments,
)
from .command_programs import SHIMS, MissingProgram, missing_name, started_by
from .errors import FolderForbidden, InvalidJail
from .jailed_process import Channels, JailedProcess
from .mounts import make_mount_points, with_caches
from .policy import JailPolicy, JailResult, StopReason
from .toolchain import Toolchain, find_program, shown_path, toolchain_of
from .walls.control_group import ControlGroup, make_group
from .walls.forbidden_folders import PrivatePlaces, private_places
from .walls.kept_etc import kept_etc
from .walls.system_folders import WORKSPACE, SystemView, is_in_etc, system_view
from .watch import Watch

_MAX_WORDS: Final = 100_000
_MAX_RESOLVER_BYTES: Final = 1 << 16
_UNKNOWN: Final = ""

_log = get_logger("agentforge.jail")


class Jail:
    """Runs commands, each in its own jail; may be used from any thread.

    A command sees the workspace at `WORKSPACE`, which it may write, the system's programs, the
    toolchains of its programs, and what the policy names, all read-only; scratch folders in memory
    (`/tmp`, `/dev/shm`, its home); and nothing else of the host. docs/security.md lists what is
    guaranteed and what is not.
    """

    def __init__(
        self,
        policy: JailPolicy | None = None,
        *,
        programs: Sequence[str] = (),
        bubblewrap: Path | None = None,
        control_groups: bool = True,
    ) -> None:
        """Examine the machine; nothing runs yet.

        Args:
            policy: What commands may use and see; the defaults if None.
            programs: Programs that commands start besides their own, searched for like those.
            bubblewrap: The program; found if None.
            control_groups: Whether to ask the kernel for control groups; a jail without one is
                watched.

        Raises:
            JailUnavailable: There is no bubblewrap, or no filter for this processor.
            FolderForbidden: The policy names a folder that is never shown.
            CommandMissing: One of the programs is missing.
        """
        self._policy = policy if policy is not None else JailPolicy()
        self._bubblewrap = bubblewrap if bubblewrap is not None else find_bubblewrap()
        self._filter = filter_program()
        self._control_groups = control_groups
        self._view: SystemView = system_view()
        self._places: PrivatePlaces = private_places(self._policy.private)
        self._programs = tuple(programs)
        self._search = os.pathsep.join(
            [*shown_path(self._policy), os.environ.get("PATH", os.defpath)]
        )
        self._toolchains: dict[tuple[str, ...], Toolchain] = {}
        self._etc: str | None = _UNKNOWN
        self._started: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._read = tuple(self._bind(path, path) for path in self._policy.read)
        self._mounts = tuple(
            self._bind(mount.source, Path(WORKSPACE, mount.target)) for mount in self._policy.mounts
        )
        self._toolchain(self._programs)

    @property
    def policy(self) -> JailPolicy:
        """The limits and visible paths of commands."""
        return self._policy

    def check(self) -> None:
        """Make a jail, with all that this one shows, and run `true` in it.

        Raises:
            JailUnavailable: It can't be made; the error has the kind of refusal and the remedy.
        """
        with tempfile.TemporaryDirectory(prefix="agentforge-jail-") as folder:
            result = self.run(["true"], workspace=Path(folder), deadline_s=60.0)
        if not result.success:
            raise refusal_of(result.stderr.decode("utf-8", "replace"))

    def require(self, command: Sequence[str]) -> None:
        """Find what a command's program needs.

        Raises:
            InvalidJail: It is no command.
            CommandMissing: The host has no such program.
        """
        require_command(command)
        self._toolchain(self._names(command))

    def show(self, programs: Sequence[str]) -> None:
        """Show further programs that commands may start, if they exist and may be shown.

        Args:
            programs: Their names or absolute paths.
        """
        self._programs += tuple(one for one in programs if self._can_show(one))

    def sees(self, workspace: Path) -> str:  # noqa: ARG002 (it is the same for each)
        """Return the path that a workspace has for a command."""
        return WORKSPACE

    def missing(self, result: JailResult, command: Sequence[str] = ()) -> MissingProgram | None:
        """Return the program that a command did not find in its jail, and what would show it.

        Args:
            result: The command's result.
            command: The command, which may itself be a stand-in for a program.

        Returns:
            None if the command ended for another reason than a missing program.
        """
        name = missing_name(result.exit_code, (result.stderr, result.stdout))
        if name is None:
            return None
        found = shutil.which(name, path=self._search) if name else None
        for word in (*command[:1], *started_by(command)) if found is None and command else ():
            shim = shutil.which(word, path=self._search)
            if shim is not None and os.path.basename(os.path.dirname(shim)) == SHIMS:
                return MissingProgram(name=os.path.basename(word), found=Path(shim), shim=True)
        if found is None or not os.path.isabs(found):
            return MissingProgram(name=name or None)
        toolchain = toolchain_of([Path(found)], self._view, shows=self._shows)
        return MissingProgram(
            name=name,
            found=Path(found),
            read=toolchain.folders,
            refused=not all(map(self._shows, toolchain.folders)),
        )

    def run(
        self,
        command: Sequence[str],
        *,
        workspace: Path,
        files: Mapping[str, bytes] | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> JailResult:
        """Run a command; no process of it is left on return.

        Args:
            command: The program and its arguments. A program with a relative path that has a slash
                is one of the workspace.
            workspace: The folder that it may write, at `WORKSPACE`.
            files: Files for it, by absolute path in the jail, executable and read-only.
            stdin: Its input.
            environment: Further variables.
            deadline_s: Its deadline in seconds; the policy's if None.
            cancelled: Ends it when true; checked twenty times a second, in this thread, as is the
                cancellation of the thread's own operation.

        Raises:
            InvalidJail: The command, a variable or the deadline is invalid.
            CommandMissing: The host has no such program.
            FolderForbidden: The workspace is a home, or contains a private place.
            MountPointUnusable: A link or file of the workspace is where a mount belongs.
            JailUnavailable: No jail can be made here.
            JailNotEnded: It was killed and the kernel holds it.
            OperationCancelled: The thread's own operation was cancelled (`cancellation`).
        """
        with traced(Traced.EXECUTION, {Attribute.EXECUTOR: "jail"}, detail="jail") as span:
            require_command(command)
            check_cancelled()
            policy = self._policy
            if environment:
                policy = evolve(policy, environment={**policy.environment, **environment})
            if deadline_s is not None:
                policy = evolve(policy, limits=evolve(policy.limits, deadline_s=deadline_s))
            result = self._run(command, workspace, files or {}, stdin, policy, cancelled)
            span.set(Attribute.EXIT_CODE, result.exit_code)
            span.set(Attribute.TRAPPED, None if result.stopped is None else result.stopped.value)
            return result

    def _run(
        self,
        command: Sequence[str],
        workspace: Path,
        files: Mapping[str, bytes],
        stdin: bytes,
        policy: JailPolicy,
        cancelled: Callable[[], bool] | None,
    ) -> JailResult:
        limits = policy.limits
        where = self._places.require_workspace(workspace)
        own = command[0] in files
        toolchain = self._toolchain(self._programs if own else self._names(command))
        make_mount_points(where, (mount.target for mount in policy.mounts))
        with ExitStack() as held:
            channels = Channels()
            held.callback(channels.close)
            memory = _Memory(held)
            read = (*self._toolchain_binds(toolchain), *self._read)
            etc = self._kept_etc([*(bind.target for bind in read), *files])
            mounts = tuple(with_caches(one, self._bubblewrap, held) for one in self._mounts)
            system = memory.system_files(self._view.copies, network=policy.network)
            plan = JailPlan(
                view=self._view,
                etc=etc,
                read=read,
                workspace=str(where),
                mounts=mounts,
                files=(*(system if etc is None else ()), *memory.own_files(files)),
                environment=self._environment(toolchain, policy.environment),
                scratch_bytes=limits.scratch_bytes,
                network=policy.network,
                seccomp_fd=memory.file("seccomp", self._filter),
                status_fd=channels.status[1],
                block_fd=channels.block[0],
            )
            words = "\0".join([*bubblewrap_arguments(plan), ""])
            arguments = memory.file("arguments", os.fsencode(words))
            argv = [str(self._bubblewrap), "--args", str(arguments), "--", *command]
            with JailedProcess(
                argv,
                channels,
                memory.fds,
                limits=limits,
                stdin=stdin,
                cancelled=_either(cancelled),
            ) as process:
                # Bubblewrap makes namespaces meanwhile.
                group = self._group(held, limits.memory_bytes, limits.processes)
                taken = process.make_ready(group)
                watch = Watch(limits, where, group if taken else None, scratch=_scratch(mounts))
                result = process.run(watch)
        result = evolve(result, sealed=not policy.network)
        _log.info(
            "jail_command_ended",
            exit_code=result.exit_code,
            stopped=None if result.stopped is None else result.stopped.value,
            sealed=result.sealed,
            seconds=round(result.usage.seconds, 3),
        )
        if result.stopped is StopReason.CANCELLED:
            check_cancelled()
        return result

    # ------------------------------------------------------------------------------------ its parts

    def _group(self, held: ExitStack, memory_bytes: int, processes: int) -> ControlGroup | None:
        group = make_group(memory_bytes, processes) if self._control_groups else None
        if group is not None:
            held.callback(group.remove)
        return group

    def _kept_etc(self, targets: Sequence[str]) -> str | None:
        """Return the folder to mount as `/etc`; None if this jail needs one of its own."""
        if self._policy.network or any(map(is_in_etc, targets)):
            return None
        if self._etc is _UNKNOWN or (self._etc and not os.path.isdir(self._etc)):
            found = kept_etc(self._view, {**self._view.copies, **SYSTEM_FILES})
            self._etc = None if found is None else str(found)
        return self._etc

    def _bind(self, source: Path, target: Path) -> Bind:
        return Bind(source=str(self._places.require_allowed(source)), target=str(target))

    def _shows(self, path: Path) -> bool:
        try:
            self._places.require_allowed(path)
        except FolderForbidden:
            return False
        return True

    def _names(self, command: Sequence[str]) -> tuple[str, ...]:
        """Return the programs that a command needs: its own, and those that its words start."""
        started = started_by(command)
        if started not in self._started:
            self._started[started] = tuple(one for one in started if self._can_show(one))
        return (*self._programs, command[0], *self._started[started])

    def _can_show(self, name: str) -> bool:
        """Return whether a program that a command may start exists and can be shown completely."""
        found = shutil.which(name, path=self._search)
        if found is None or not os.path.isabs(found):
            return False
        toolchain = toolchain_of([Path(found)], self._view, shows=self._shows)
        return all(map(self._shows, toolchain.folders))

    def _toolchain(self, names: tuple[str, ...]) -> Toolchain:
        found = self._toolchains.get(names)
        if found is None:
            programs = [
                find_program(name, self._search)
                for name in names
                if "/" not in name or os.path.isabs(name)
            ]
            programs += self._pythons_of_mounts()
            found = toolchain_of(programs, self._view, shows=self._shows)
            self._toolchains[names] = found
        return found

    def _toolchain_binds(self, toolchain: Toolchain) -> Iterator[Bind]:
        for folder in toolchain.folders:
            yield self._bind(folder, folder)
        for mount in self._policy.mounts:
            yield self._bind(mount.source, mount.source)

    def _pythons_of_mounts(self) -> Iterator[Path]:
        for mount in self._policy.mounts:
            python = mount.source / "bin" / "python"
            if (mount.source / "pyvenv.cfg").is_file() and python.exists():
                yield python

    def _environment(self, toolchain: Toolchain, given: Mapping[str, str]) -> dict[str, str]:
        path = dict.fromkeys([*shown_path(self._policy), *toolchain.path])
        return {
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            **given,
            "HOME": HOME,
            "TMPDIR": "/tmp",  # noqa: S108 (the jail's)
            "PATH": os.pathsep.join(path),
        }


class _Memory:
    """Files in memory for one command; closing this closes their descriptors."""

    def __init__(self, held: ExitStack) -> None:
        self.fds: list[int] = []
        held.callback(self._close)

    def _close(self) -> None:
        for fd in self.fds:
            os.close(fd)

    def file(self, name: str, content: bytes) -> int:
        fd = in_memory(name, content)
        self.fds.append(fd)
        return fd

    def system_files(self, copies: Mapping[str, bytes], *, network: bool) -> Iterator[GivenFile]:
        for target, content in {**copies, **SYSTEM_FILES}.items():
            yield GivenFile(fd=self.file("system", content), target=target)
        if network:
            target = "/etc/resolv.conf"
            yield GivenFile(fd=self.file("system", _resolver(Path(target))), target=target)

    def own_files(self, files: Mapping[str, bytes]) -> Iterator[GivenFile]:
        for target, content in files.items():
            yield GivenFile(fd=self.file("given", content), target=target, mode=0o555)


def _scratch(mounts: Iterable[Bind]) -> list[str]:
    """Return the scratch folders in mounts, relative to the jail's root."""
    return [f"{bind.target}/{name}".lstrip("/") for bind in mounts for name in bind.scratch]


def _resolver(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_RESOLVER_BYTES)
    except OSError:
        return b""


def _either(cancelled: Callable[[], bool] | None) -> Callable[[], bool] | None:
    """Return a test whether the caller or the thread's own token ends a command."""
    if current_token() is None:
        return cancelled
    if cancelled is None:
        return is_cancelled
    return lambda: cancelled() or is_cancelled()


def require_command(command: Sequence[Any]) -> None:
    """Raise `InvalidJail` if it is no command."""
    faults = []
    if isinstance(command, str) or not command:
        faults.append("the command must be a sequence of words, with the program first")
    elif len(command) > _MAX_WORDS:
        faults.append(f"the command has {len(command)} words, {_MAX_WORDS} are allowed")
    elif not all(isinstance(word, str) and "\0" not in word for word in command):
        faults.append("the command has a word that is no text, or has a NUL character")
    elif not command[0]:
        faults.append("the program's name is empty")
    if faults:
        raise InvalidJail(faults)
