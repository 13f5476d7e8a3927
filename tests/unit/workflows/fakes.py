"""A phase executor of few words, a disk that dies, and an observer that remembers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.harness import PhaseResult, SessionManager, SessionStore, TokenBudget
from agentforge_sessions.workflows import (
    Job,
    Phase,
    RunObserver,
    Verdict,
    WorkflowRunner,
)


class Killed(BaseException):
    """The process is gone."""


class Tick:
    """A clock that goes on by a second at each look."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


class FakeExecutor:
    """Keeps the contract of a phase executor: code never raises here and sees one workspace.

    The code is a list of words, a line each: `write PATH TEXT`, `append PATH TEXT`, `remove PATH`,
    `link PATH TARGET`, `mkdir PATH`, `fifo PATH`, `say TEXT`, `exit N`, `trap LIMIT`, and
    `fails-first`, which exits with 1 unless the session on disk knows of a failure.
    """

    def __init__(self, store: SessionStore, *, step: Callable[[], None] = lambda: None) -> None:
        self.store = store
        self.step = step
        self.before: Callable[[str], None] = lambda session_id: None
        self.codes: list[str] = []
        self.limits: list[tuple[float | None, int | None]] = []

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        self.before(session_id)
        self.step()
        self.codes.append(code)
        self.limits.append((deadline_s, fuel))
        root = self.store.workspace_path(session_id)
        root.mkdir(mode=0o700, exist_ok=True)
        was = _look(root)
        exit_code: int | None = 0
        trapped = None
        said = []
        lost: list[str] = []
        for line in code.splitlines():
            word, *rest = line.split(" ", 2)
            self.step()
            if word == "exit":
                exit_code = int(rest[0])
                break
            if word == "trap":
                exit_code, trapped = None, rest[0]
                break
            if word == "fails-first":
                exit_code = int(not self._has_failed(session_id))
                break
            if word == "lose":
                lost.append(f"{rest[0]} (ENOSPC)")
            elif word == "say":
                said.append(" ".join(rest))
            else:
                _act(root, word, rest)
        now = _look(root)
        self.step()
        return PhaseResult(
            success=exit_code == 0 and not lost,
            exit_code=exit_code,
            trapped=trapped,
            stdout="\n".join(said),
            files_created=sorted(now.keys() - was.keys()),
            files_modified=sorted(
                name for name in now.keys() & was.keys() if now[name] != was[name]
            ),
            files_deleted=sorted(was.keys() - now.keys()),
            workspace=root,
            lost_writes=lost,
        )

    def _has_failed(self, session_id: str) -> bool:
        session = SessionStore(self.store.base_path).load(session_id)
        assert session is not None
        return any(entry.action == "phase_failed" for entry in session.history)


def _act(root: Path, word: str, rest: list[str]) -> None:
    path = root / rest[0] if rest else root
    if word in {"write", "append"}:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if word == "append" else "w") as file:
            file.write(rest[1])
    elif word == "remove":
        with suppress(FileNotFoundError):
            path.unlink()
    elif word == "link":
        with suppress(FileExistsError):
            path.symlink_to(rest[1])
    elif word == "mkdir":
        path.mkdir(parents=True, exist_ok=True)
    elif word == "fifo":
        os.mkfifo(path)


def _look(root: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(root)): (path.lstat().st_mtime_ns, path.lstat().st_size)
        for path in root.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


class DyingFileSystem(OsFileSystem):
    """A disk whose process dies at one of its changes, after which nothing more happens on it.

    Death comes before the change or, for changes that are one step for the system, after it.
    Closing goes on, as the kernel closes what a dead process had open.
    """

    def __init__(self, *, die_at: int | None = None, after: bool = False) -> None:
        self.die_at = die_at
        self.after = after
        self.changes = 0
        self.dead = False

    def step(self) -> None:
        self._live()
        if self.changes == self.die_at:
            self.dead = True
            raise Killed
        self.changes += 1

    def _live(self) -> None:
        if self.dead:
            raise Killed

    def _change(self, act: Callable[[], object]) -> object:
        self._live()
        if self.changes == self.die_at:
            self.dead = True
            if self.after:
                act()
            raise Killed
        self.changes += 1
        return act()

    def open(self, path: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:  # type: ignore[override]
        if not flags & os.O_CREAT:
            self._live()
            return os.open(path, flags, mode, dir_fd=dir_fd)
        if self.after and self.changes == self.die_at:
            self._change(lambda: os.close(os.open(path, flags, mode, dir_fd=dir_fd)))
        return self._change(lambda: os.open(path, flags, mode, dir_fd=dir_fd))  # type: ignore[return-value]

    def writev(self, fd: int, buffers: Sequence[bytes | bytearray | memoryview]) -> int:  # type: ignore[override]
        return self._change(lambda: os.writev(fd, buffers))  # type: ignore[return-value]

    def fsync(self, fd: int) -> None:  # type: ignore[override]
        self._change(lambda: None)

    def rename(  # type: ignore[override]
        self, source: str, target: str, *, src_dir_fd: int | None, dst_dir_fd: int | None
    ) -> None:
        self._change(
            lambda: os.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        )

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:  # type: ignore[override]
        self._change(lambda: os.unlink(path, dir_fd=dir_fd))

    def rmdir(self, path: str, *, dir_fd: int | None = None) -> None:  # type: ignore[override]
        self._change(lambda: os.rmdir(path, dir_fd=dir_fd))

    def mkdir(self, path: str, mode: int = 0o700, *, dir_fd: int | None = None) -> None:  # type: ignore[override]
        self._change(lambda: os.mkdir(path, mode, dir_fd=dir_fd))


class Diary(RunObserver):
    """Writes down what a run tells."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.session_id = ""

    def run_started(self, session_id: str, job: Job, *, resumed: bool) -> None:
        self.session_id = session_id
        self.lines.append(f"{'resumed' if resumed else 'started'} {job.workflow.name}")

    def phase_started(
        self, phase: Phase, *, attempt: int, round_number: int, position: int, total: int
    ) -> None:
        self.lines.append(f"{phase.name} {position}/{total} attempt {attempt}")

    def phase_finished(self, phase: Phase, verdict: Verdict, result: PhaseResult | None) -> None:
        assert result is not None
        assert result.success is verdict.passed
        self.lines.append(f"{phase.name}: {'done' if verdict.passed else verdict.summary}")

    def budget(self, budget: TokenBudget) -> None:
        self.lines.append(f"budget {budget.tokens_used}/{budget.total_budget}")

    def paused(self, reason: str) -> None:
        self.lines.append(f"paused: {reason}")

    def completed(self) -> None:
        self.lines.append("completed")


class Ground:
    """A base directory, and workers that come and go on it."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.diary = Diary()
        self.executor = FakeExecutor(SessionStore(base))
        self.clock = Tick()

    def worker(
        self, *, fs: DyingFileSystem | None = None, observer: RunObserver | None = None
    ) -> WorkflowRunner:
        """A new process, as far as the session can tell."""
        disk = fs if fs is not None else DyingFileSystem()
        store = SessionStore(self.base, fs=disk)
        self.executor.store = store
        self.executor.step = disk.step
        self.manager = SessionManager(store, executor=self.executor, clock=self.clock)
        return WorkflowRunner(
            self.manager, observer=observer or self.diary, fs=disk, lock_timeout_s=0
        )

    def actions(self, session_id: str) -> list[tuple[str, str | None]]:
        session = SessionStore(self.base).load(session_id)
        assert session is not None
        return [(entry.action, entry.phase) for entry in session.history]

    def raw(self, session_id: str) -> bytes:
        return SessionStore(self.base).session_path(session_id).read_bytes()

    def workspace(self, session_id: str) -> Path:
        return SessionStore(self.base).workspace_path(session_id)

    def only_session(self) -> str | None:
        ids = SessionStore(self.base).list_sessions()
        assert len(ids) <= 1
        return ids[0] if ids else None

    def wipe(self) -> None:
        shutil.rmtree(self.base, ignore_errors=True)
