"""The processes that are killed, or that race: forked on request, so that a campaign is cheap.

Run as `python -m tests.crash._workers PIPE`. It imports everything once, then reads requests from
its standard input, a JSON object a line, and answers each with one line: "fork" starts a task in a
child and gives its process id, "wait" waits for a child and gives its exit code (negative: the
signal). The children write what they have to tell as JSON lines to the descriptor PIPE, each line
in one write and shorter than PIPE_BUF, so that lines never mix and none is torn.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.harness import (
    HarnessError,
    SessionConflict,
    SessionInUse,
    SessionManager,
    SessionStore,
    UnreadableSession,
)
from agentforge_sessions.prune import (
    Disposal,
    PruneEnvironment,
    RetentionPolicy,
    TarArchiver,
    prune,
)
from agentforge_sessions.sandbox import SandboxTarget, WorkspaceError, create_session_sandbox
from agentforge_sessions.sandbox.live.snapshot_file import ProgramSnapshot
from agentforge_sessions.sandbox.workspaces.workspace_lock import claim
from tests.crash import _guest_tasks, _program_tasks, _question_tasks, _story, _told_tasks

Tell = Callable[..., None]


class DyingFileSystem:
    """The real file system, until the call that is the last: `SIGKILL` before, in or after it.

    "in" is for a write: half of the bytes are written.
    """

    def __init__(self, last: int | None = None, moment: str = "before") -> None:
        self._real = OsFileSystem()
        self._last = last
        self._moment = moment
        self.calls: list[str] = []
        self._numbers = itertools.count(1)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        real = getattr(self._real, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            number = next(self._numbers)  # one step: of two threads' calls neither is passed over
            self.calls.append(name)
            if number != self._last:
                return real(*args, **kwargs)
            try:
                if self._moment == "in":
                    self._write_half(*args)
                elif self._moment == "after":
                    real(*args, **kwargs)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)

        return call

    def _write_half(self, fd: int, buffers: list[bytes]) -> None:
        content = b"".join(bytes(buffer) for buffer in buffers)
        self._real.writev(fd, [content[: len(content) // 2]])


# -------------------------------------------------------------------------------- tasks of children


def one_operation(
    tell: Tell, *, base: str, operation: str, last: int | None, moment: str = "before"
) -> None:
    """Do one thing to the session `_story.VICTIM` and die at one of its system calls."""
    fs = DyingFileSystem(last, moment)
    store = SessionStore(base, fs=fs)
    if operation == "create":
        store.save(_story.begin(_story.VICTIM), attachments={"plan.yaml": b"a plan\n" * 100})
    elif operation == "save":
        session = SessionStore(base).load(_story.VICTIM)
        assert session is not None
        _story.go_on(session)
        store.save(session)
    else:
        assert store.delete(_story.VICTIM)
    tell(calls=fs.calls)


def save_snapshot(
    tell: Tell, *, place: str, source: str, last: int | None, moment: str = "before"
) -> None:
    """Save a program's snapshot and die at one of the system calls."""
    fs = DyingFileSystem(last, moment)
    snapshot = ProgramSnapshot(Path(source).read_bytes())
    snapshot.save(Path(place), fs=fs)  # type: ignore[arg-type]
    tell(calls=fs.calls)


def change_and_tell(
    tell: Tell, *, base: str, operation: str, last: int | None, moment: str = "before"
) -> None:
    """Change a session and tell three receivers of it, and die at one of the system calls."""
    fs = DyingFileSystem(last, moment)
    _told_tasks.change_and_tell(Path(base), fs, operation)  # type: ignore[arg-type]
    tell(calls=fs.calls)


def save_until_killed(tell: Tell, *, base: str, seed: int, ids: list[str]) -> None:
    """Create, change and delete sessions for ever; say what is done after it is done."""
    rng = random.Random(seed)
    store = SessionStore(base)
    sessions = {found: session for found in ids if (session := store.load(found)) is not None}
    tell(did="began")
    while True:
        chosen = rng.choice(ids)
        session = sessions.get(chosen)
        if session is not None and rng.random() < 0.12:
            tell(did="deleting", id=chosen)
            store.delete(chosen)
            del sessions[chosen]
            tell(did="deleted", id=chosen)
            continue
        if session is None:
            session = sessions[chosen] = _story.begin(chosen)
        else:
            _story.go_on(session)
        store.save(session)
        tell(did="saved", id=chosen, revision=session.revision, entries=len(session.history))


def add_artifacts(
    tell: Tell, *, base: str, here: str, workers: int, worker: int, count: int
) -> None:
    """Add artifacts to one session, loading it anew whenever somebody was quicker."""
    store = _patient_store(base)
    rng = random.Random(worker)
    conflicts = 0
    Path(here, str(worker)).touch()
    _wait_until(lambda: len(os.listdir(here)) == workers)
    for number in range(count):
        while True:
            session = store.load(_story.SHARED)
            assert session is not None
            session.add_artifact(f"out/{worker}/{number}.txt", "created")
            try:
                store.save(session)
                break
            except SessionConflict:
                conflicts += 1
                time.sleep(rng.uniform(0, 0.004))
    tell(conflicts=conflicts)


def create_sessions(tell: Tell, *, base: str, start: float, worker: int, count: int) -> None:
    """Create sessions, each with an id of its own."""
    store = _patient_store(base)
    _sleep_until(start)
    for number in range(count):
        store.save(
            _story.begin(_story.id_of(1_000 * worker + number)), attachments={"plan.yaml": b"plan"}
        )
    tell(created=count)


def create_the_same_session(tell: Tell, *, base: str, start: float, count: int) -> None:
    """Create sessions that others create too; only one can be the first."""
    store = _patient_store(base)
    _sleep_until(start)
    first = []
    for number in range(count):
        try:
            store.save(_story.begin(_story.id_of(number)))
        except SessionConflict:
            continue
        first.append(number)
    tell(first=first)


def save_what_is_there(tell: Tell, *, base: str, start: float, worker: int, stop: str) -> None:
    """Change whatever session there is, until the file `stop` appears."""
    store = _patient_store(base)
    rng = random.Random(worker)
    acknowledged: dict[str, int] = {}
    conflicts = 0
    wrong: list[str] = []
    _sleep_until(start)
    while not os.path.exists(stop):
        names = store.list_sessions()
        session = store.load(rng.choice(names)) if names else None
        if session is None:  # it was deleted since it was listed
            continue
        wrong += _story.problems(session)
        _story.go_on(session)
        try:
            store.save(session)
        except SessionConflict:
            conflicts += 1
            continue
        if not acknowledged:
            Path(f"{stop}.saved").touch()
        known = acknowledged.get(session.session_id, 0)
        acknowledged[session.session_id] = max(known, session.revision)
    tell(acknowledged=acknowledged, conflicts=conflicts, wrong=wrong[:5])


def create_and_delete(tell: Tell, *, base: str, start: float, count: int, stop: str) -> None:
    """Create a session and delete it at a revision that was seen, again and again.

    The first one stays until another worker has saved it and `watch` has seen it.
    """
    store = _patient_store(base)
    deleted: dict[str, int] = {}
    refused = 0
    _sleep_until(start)
    for number in range(count):
        name = _story.id_of(number)
        store.save(_story.begin(name))
        _wait_until(lambda: os.path.exists(f"{stop}.saved") and os.path.exists(f"{stop}.seen"))
        time.sleep(0.03)
        while True:
            session = store.load(name)
            assert session is not None
            try:
                assert store.delete(name, expected_revision=session.revision)
            except (SessionConflict, SessionInUse):
                refused += 1
                continue
            deleted[name] = session.revision
            break
    Path(stop).touch()
    tell(deleted=deleted, refused=refused)


def watch(tell: Tell, *, base: str, start: float, stop: str) -> None:
    """List all sessions until the file `stop` appears; say what no listing may show."""
    store = SessionStore(base)
    wrong: list[str] = []
    listings = 0
    seen: set[str] = set()
    _sleep_until(start)
    while not os.path.exists(stop):
        for found in store.summaries():
            if isinstance(found, UnreadableSession):
                wrong.append(str(found.error))
            seen.add(found.session_id)
        for name in store.list_sessions():
            session = store.load(name)
            if session is not None:
                wrong += _story.problems(session)
                if store.read_attachment(name, "plan.yaml") not in {b"plan", None}:
                    wrong.append(f"{name} has half an attachment")
        if seen:
            Path(f"{stop}.seen").touch()
        listings += 1
    tell(listings=listings, seen=len(seen), wrong=wrong[:5])


def prune_root(
    tell: Tell,
    *,
    root: str,
    grace_s: float | None = None,
    archives: str | None = None,
    last: int | None = None,
    moment: str = "before",
    file_clock_ns: int | None = None,
) -> None:
    """Prune a root of old workspaces; may die at one of its system calls, or be killed."""
    fs = DyingFileSystem(last, moment)
    archiver = None if archives is None else TarArchiver(directory=Path(archives))
    disposal = Disposal(
        grace=None if grace_s is None else timedelta(seconds=grace_s),
        archiver=archiver,
        batch=10,
    )
    tell(did="began")
    result = prune(
        SandboxTarget(Path(root)),
        RetentionPolicy(max_age_hours=24),
        disposal=disposal,
        outside=PruneEnvironment(
            fs=fs, file_clock=time.time_ns if file_clock_ns is None else lambda: file_clock_ns
        ),
    )
    tell(did="ended", calls=len(fs.calls), deleted=len(result.deleted_sessions))


def prune_until_stopped(tell: Tell, *, root: str, start: float, stop: str) -> None:
    """Prune all workspaces that nobody uses, again and again."""
    deleted: list[str] = []
    _sleep_until(start)
    while not os.path.exists(stop):
        result = prune(SandboxTarget(Path(root)), RetentionPolicy(max_age_hours=0))
        assert dict(result.errors) == {}, result.errors
        if result.deleted_sessions and not deleted:
            tell(met="prune")
        deleted += result.deleted_sessions
    tell(deleted=len(deleted), twice=len(deleted) - len(set(deleted)))


def work_in_workspaces(tell: Tell, *, root: str, start: float, worker: int, stop: str) -> None:
    """Hold new workspaces as executions do, and see that what is held stays where it is."""
    held = lost = waits = 0
    wrong: list[str] = []
    _sleep_until(start)
    while not os.path.exists(stop):
        try:
            session_id, sandbox = create_session_sandbox(workspace_root=root)
        except WorkspaceError:  # pruned before it was opened
            continue
        try:
            for number in range(4):
                with claim(sandbox.workspace, timeout_s=60) as fd:
                    assert fd is not None
                    held += 1
                    name = f"{worker}-{number}.txt"
                    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=fd))
                    for _ in range(4):
                        time.sleep(0.001)
                        here = os.stat(sandbox.workspace, follow_symlinks=False)
                        if not os.path.samestat(here, os.fstat(fd)) or name not in os.listdir(fd):
                            wrong.append(f"{session_id} was touched while it was held")
                waits += 1
                time.sleep(0.001)
        except WorkspaceError:  # pruned between two executions
            lost += 1
            if lost == 1:
                tell(met="work")
            assert not sandbox.workspace.exists()
        sandbox.close()
    tell(held=held, lost=lost, kept=waits, wrong=wrong[:5])


def manage_sessions(tell: Tell, *, base: str, start: float, worker: int, stop: str) -> None:
    """Lead sessions to their end, saving all the way, while others clean up."""
    manager = SessionManager(SessionStore(base))
    ended = gone = 0
    wrong: list[str] = []
    _sleep_until(start)
    while not os.path.exists(stop):
        session = manager.create("spec", "first")
        for number in range(5):
            manager.add_history("step", f"{worker}: {number}")
        found = manager.store.load(session.session_id)
        if found is None or len(found.history) < 6:
            wrong.append(f"{session.session_id} is not as it was saved, and it is active")
        manager.pause()
        if manager.store.load(session.session_id) is None:
            wrong.append(f"{session.session_id} is gone, and it is paused")
        manager.resume()
        manager.complete()
        ended += 1
        manager.release()
        try:
            last = manager.load(session.session_id)
        except HarnessError as error:
            wrong.append(str(error))
        else:
            gone += last is None
            if ended == 11:
                tell(met="work")
            manager.release()
    tell(ended=ended, gone=gone, wrong=wrong[:5])


def clean_up_until_stopped(tell: Tell, *, base: str, start: float, stop: str) -> None:
    """Clean up every session that ended, again and again."""
    manager = SessionManager(SessionStore(base))
    deleted: list[str] = []
    _sleep_until(start)
    while not os.path.exists(stop):
        gone = manager.cleanup_old_sessions(0)
        if gone and not deleted:
            tell(met="prune")
        deleted += gone
    tell(deleted=len(deleted), twice=len(deleted) - len(set(deleted)))


def one_question_operation(
    tell: Tell,
    *,
    base: str,
    operation: str,
    session_id: str,
    last: int | None,
    moment: str = "before",
) -> None:
    """Do one thing to a question session and die at one of its system calls."""
    fs = DyingFileSystem(last, moment)
    _question_tasks.change_question(
        tell, base=base, operation=operation, session_id=session_id, fs=fs
    )
    tell(calls=len(fs.calls))


TASKS: dict[str, Callable[..., None]] = (
    _question_tasks.TASKS
    | _guest_tasks.TASKS
    | _program_tasks.TASKS
    | {
        task.__name__: task
        for task in (
            one_operation,
            save_until_killed,
            add_artifacts,
            create_sessions,
            create_the_same_session,
            save_what_is_there,
            create_and_delete,
            watch,
            one_question_operation,
            prune_root,
            prune_until_stopped,
            work_in_workspaces,
            manage_sessions,
            clean_up_until_stopped,
            change_and_tell,
            save_snapshot,
        )
    }
)


def _patient_store(base: str) -> SessionStore:
    """A store for a crowd: on a busy machine its turn may come late."""
    return SessionStore(base, lock_timeout_s=60)


def _wait_until(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not holds() and time.monotonic() < until:
        time.sleep(0.001)


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


# ------------------------------------------------------------------------------------- the nursery


def _run(pipe: int, task: str, args: dict[str, Any]) -> int:
    def tell(**told: Any) -> None:
        line = json.dumps({"pid": os.getpid(), **told}).encode() + b"\n"
        assert len(line) <= 4096, "a longer line could be torn"
        os.write(pipe, line)

    try:
        TASKS[task](tell, **args)
    except BaseException:
        tell(failed=traceback.format_exc()[-2000:])
        return 1
    return 0


def main() -> None:
    """Serve requests until the standard input ends."""
    pipe = int(sys.argv[1])
    answers = os.dup(1)
    os.dup2(2, 1)  # what is logged must not look like an answer
    while request := sys.stdin.readline():
        asked = json.loads(request)
        if asked["do"] == "fork":
            pid = os.fork()
            if pid == 0:
                os._exit(_run(pipe, asked["task"], asked["args"]))
            answer = {"pid": pid}
        else:
            _, status = os.waitpid(asked["pid"], 0)
            answer = {"exit": os.waitstatus_to_exitcode(status)}
        os.write(answers, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    main()
