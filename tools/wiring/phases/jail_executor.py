"""The harness's phases, executed in a jail: scripts of any language, natively."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import define, evolve, field

from ...base.cancellation import check_cancelled, is_cancelled
from ...base.files import OsFileSystem
from ...harness import PhaseResult
from ...harness.session_ports import LocalSessions
from .executors import changes_between, jail_phase_result, session_workspace

if TYPE_CHECKING:
    from ...jail import Jail, JailPolicy
    from .executors import ExecutorParameters

SCRIPT: Final = "/run/agentforge/script"
"""The path of a phase's script in the jail."""
_BUSY_S: Final = 60.0


@define(eq=False)
class JailPhaseExecutor:
    """Runs phases in a jail in which only the session's workspace is writable.

    Implements `harness.PhaseExecutor`. A script that begins with `#!` is run by the program in that
    line; any other is run by `python`. Programs that a shell script starts are shown in the jail,
    too, if its text names them plainly. Phases in one workspace run one after another. May be used
    from any thread.

    Args:
        store: Locates a session's workspace; the store's directory is never shown to a script.
        policy: Limits and visible paths of scripts; the jail's default if None.
    """

    _store: LocalSessions
    _policy: JailPolicy | None = None
    _jails: dict[tuple[str, ...], Jail] = field(factory=dict, init=False)

    def check(self) -> None:
        """Check that a jail can be created here.

        Raises:
            JailUnavailable: It can't be; the error says what to change.
        """
        self._jail(sys.executable).check()

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        """Run a script in the session's workspace, which is created (mode 0700) if missing.

        Raises:
            InvalidSessionId: The id is malformed. As with every other error, nothing ran.
            SessionNotFound: The session does not exist.
            InvalidJail: The jail does not support a limit; fuel is one, as nothing counts it.
            CommandMissing: The program in the script's first line does not exist.
            WorkspaceError: The workspace can't be used.
            WorkspaceBusy: The workspace was in use for too long.
            WriteError: A file could not be put into the workspace.
            JailUnavailable: No jail can be created on this machine.
        """
        from ...jail import InvalidJail
        from ...sandbox.workspaces.workspace_lock import claim
        from ...sandbox.workspaces.workspace_tree import take_snapshot
        from ...workflows.prompts.workspace_files import WorkspaceFiles

        if fuel is not None:
            raise InvalidJail(["fuel is counted in the sandbox only; give the phase a deadline_s"])
        workspace = session_workspace(self._store, session_id)
        program, command = self._command(code)
        jail = self._jail(program, *_started(program, code))
        with claim(workspace, timeout_s=_BUSY_S, given_up=is_cancelled) as root:
            check_cancelled()
            assert root is not None  # noqa: S101 (else the wait was given up)
            WorkspaceFiles(fs=OsFileSystem(), fd=root, root=workspace).apply(
                {path: _as_bytes(content) for path, content in (files or {}).items()}, (), there={}
            )
            before = take_snapshot(root)
            result = jail.run(
                command,
                workspace=workspace,
                files={SCRIPT: code.encode("utf-8", "surrogatepass")},
                deadline_s=deadline_s,
            )
            after = take_snapshot(root)
        done = jail_phase_result(result, changes_between(before, after), workspace)
        missing = jail.missing(result)
        if missing is not None:
            done = evolve(done, stderr=f"{done.stderr}agentforge: {missing.hint}\n")
        return done

    def _command(self, code: str) -> tuple[str, list[str]]:
        """Return the program that a script needs, and the command line that runs it."""
        first = code.partition("\n")[0]
        if not first.startswith("#!"):
            return sys.executable, [sys.executable, SCRIPT]
        words = first[2:].split()
        named = words[0] if words else ""
        if os.path.basename(named) == "env":
            named = next((word for word in words[1:] if not word.startswith("-")), "")
        return named or sys.executable, [SCRIPT]

    def _jail(self, *programs: str) -> Jail:
        """Return the jail for scripts of some programs; their folders are looked up once."""
        from ...jail import Jail, JailPolicy

        if programs not in self._jails:
            policy = self._policy if self._policy is not None else JailPolicy()
            private = (*policy.private, Path(os.path.abspath(self._store.base_path)))
            first, *started = programs
            made = Jail(evolve(policy, private=private), programs=(first,))
            made.show(started)
            self._jails[programs] = made
        return self._jails[programs]


def _started(program: str, code: str) -> tuple[str, ...]:
    """Return the programs that a shell script starts."""
    from ...jail import is_shell, started_by_text

    return started_by_text(code) if is_shell(program) else ()


def _as_bytes(content: bytes | str) -> bytes:
    return content.encode() if isinstance(content, str) else content


def make_executor(store: LocalSessions, settings: ExecutorParameters) -> JailPhaseExecutor:
    """Create an executor from its parameters."""
    return JailPhaseExecutor(store, settings.jail)
