"""Making and deleting sessions where things go wrong; nothing here runs a guest."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.base.files import DurableError
from agentforge_sessions.sandbox import (
    InvalidExecution,
    InvalidPolicy,
    SessionSandbox,
    WorkspaceBusy,
    WorkspaceError,
    create_session_sandbox,
    delete_session_workspace,
    get_session_sandbox,
    list_session_files,
    read_session_metadata,
)
from agentforge_sessions.sandbox.sandbox_logging import SandboxLogger
from agentforge_sessions.sandbox.session_workspaces.session_deletion import (
    EVERY_S,
    sweep_now_and_then,
)
from agentforge_sessions.sandbox.session_workspaces.session_directory import OsSessionFileSystem
from agentforge_sessions.sandbox.workspaces.workspace_lock import claim
from tests.support.listing import names_in
from tests.support.recorder import Recorder

NAME = ".metadata.json"
NOW = datetime(2025, 11, 22, 14, 22, 18, 987654, tzinfo=UTC)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


def test_a_session_sandbox_tells_what_it_is(root: Path) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=root)
    assert isinstance(sandbox, SessionSandbox)
    assert sandbox.session_id == session_id
    assert session_id in repr(sandbox)
    assert not sandbox.stateful
    assert not sandbox.closed
    with sandbox:
        pass
    assert sandbox.closed


def test_options_reach_the_sandbox(root: Path) -> None:
    session_id, sandbox = create_session_sandbox(workspace_root=root, stateful=True, idle_s=5.0)
    assert sandbox.stateful
    again = get_session_sandbox(session_id, workspace_root=root, stateful=True)
    assert again.stateful


def test_a_refused_option_makes_no_session(root: Path) -> None:
    recorder = Recorder()
    for wrong in ({"idle_s": -1}, {"tools": [5]}):
        options: Any = {"workspace_root": root, "logger": recorder, **wrong}
        with pytest.raises((InvalidPolicy, InvalidExecution)):
            create_session_sandbox(**options)
        with pytest.raises((InvalidPolicy, InvalidExecution)):
            get_session_sandbox("abc-123", **options)
    assert not root.exists()
    assert recorder.told == []
    (root / "abc-123").mkdir(parents=True)
    with pytest.raises(InvalidPolicy):
        get_session_sandbox("abc-123", workspace_root=root, idle_s=-1)
    assert names_in(root) == ["abc-123"]  # it was there before


def test_what_is_made_belongs_to_this_user_alone(root: Path) -> None:
    _, sandbox = create_session_sandbox(workspace_root=root)
    for path, mode in (
        (root, 0o700),
        (sandbox.workspace, 0o700),
        (sandbox.workspace / NAME, 0o600),
    ):
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_an_id_that_is_taken_is_passed_over(root: Path) -> None:
    (root / "taken").mkdir(parents=True)
    (root / "file").write_text("x")
    (root / "link").symlink_to("nowhere")
    ids = iter(["taken", "file", "link", "free"])
    session_id, _ = create_session_sandbox(workspace_root=root, new_id=lambda: next(ids))
    assert session_id == "free"
    assert os.listdir(root / "taken") == []
    assert names_in(root) == ["file", "free", "link", "taken"]


def test_a_source_of_taken_ids_does_not_go_on_for_ever(root: Path) -> None:
    (root / "taken").mkdir(parents=True)
    with pytest.raises(WorkspaceError, match="in a row were taken"):
        create_session_sandbox(workspace_root=root, new_id=lambda: "taken")
    assert names_in(root) == ["taken"]


def test_a_session_that_is_missing_is_made_whole_by_getting_it(root: Path) -> None:
    recorder = Recorder()
    sandbox = get_session_sandbox(
        "abc-123", workspace_root=root, logger=recorder, clock=lambda: NOW
    )
    assert os.listdir(sandbox.workspace) == [NAME]
    assert list_session_files("abc-123", root) == []
    metadata = read_session_metadata("abc-123", root)
    assert metadata is not None
    assert metadata.created_at == metadata.updated_at == NOW
    assert [event for _, event, _ in recorder.told] == [
        "session.created",
        "session.metadata.created",
        "session.retrieved",
    ]


def test_many_that_get_a_missing_session_at_once_get_the_same(root: Path) -> None:
    def race(name: str) -> None:
        recorder = Recorder()
        barrier = threading.Barrier(4)
        found: list[Path] = []

        def get() -> None:
            barrier.wait()
            found.append(get_session_sandbox(name, workspace_root=root, logger=recorder).workspace)

        with ThreadPoolExecutor(4) as pool:
            [done.result() for done in [pool.submit(get) for _ in range(4)]]
        assert found == [root / name] * 4
        told = [event for _, event, _ in recorder.told]
        assert told.count("session.created") == 1
        assert os.listdir(root / name) == [NAME]

    names = [f"s{n}" for n in range(20)]
    for name in names:
        race(name)
    assert names_in(root) == sorted(names)


class Watching(OsSessionFileSystem):
    """A file system that notes what stood under a name whenever something was renamed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: list[bool] = []

    def rename(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:  # type: ignore[override]
        self.seen.append(self.path.exists())
        os.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        assert (self.path / NAME).exists()


def test_a_workspace_appears_with_its_metadata(root: Path) -> None:
    fs = Watching(root / "abc-123")
    create_session_sandbox(workspace_root=root, new_id=lambda: "abc-123", fs=fs)
    assert fs.seen == [False]


class Failing(OsSessionFileSystem):
    """A file system on which one call fails."""

    def __init__(self, call: str, number: int) -> None:
        def fail(*args: Any, **kw: Any) -> Any:
            raise OSError(number, os.strerror(number), "name")

        setattr(self, call, fail)


@pytest.mark.parametrize("call", ["mkdir", "rename", "open"])
def test_a_workspace_that_cannot_be_made_is_an_error_and_leaves_nothing(
    root: Path, call: str
) -> None:
    recorder = Recorder()
    with pytest.raises(WorkspaceError, match="No space left"):
        create_session_sandbox(workspace_root=root, logger=recorder, fs=Failing(call, errno.ENOSPC))
    assert names_in(root) == []
    assert recorder.told == []


def test_a_root_that_is_a_file_is_refused(root: Path) -> None:
    root.write_text("x")
    with pytest.raises(WorkspaceError):
        create_session_sandbox(workspace_root=root)
    with pytest.raises(DurableError):
        delete_session_workspace("abc-123", root)
    assert root.read_text() == "x"


# ---------------------------------------------------------------- deletion


def test_a_deletion_follows_no_link(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    _, sandbox = create_session_sandbox(workspace_root=root, new_id=lambda: "abc-123")
    (sandbox.workspace / "sub").mkdir()
    (sandbox.workspace / "sub" / "link").symlink_to(outside)
    (sandbox.workspace / "file-link").symlink_to(outside / "precious")
    (sandbox.workspace / "up").symlink_to("..")
    delete_session_workspace("abc-123", root)
    assert names_in(root) == []
    assert (outside / "precious").read_text() == "x"


def test_a_file_in_place_of_a_workspace_is_not_deleted(root: Path) -> None:
    root.mkdir()
    (root / "abc-123").write_text("x")
    recorder = Recorder()
    with pytest.raises(NotADirectoryError):
        delete_session_workspace("abc-123", root, recorder)
    assert (root / "abc-123").read_text() == "x"
    assert recorder.told == []


@pytest.mark.parametrize(("call", "left"), [("rename", ["abc-123"]), ("unlink", None)])
def test_a_deletion_that_fails_keeps_all_or_hides_what_is_left(
    root: Path, call: str, left: list[str] | None
) -> None:
    create_session_sandbox(workspace_root=root, new_id=lambda: "abc-123")
    recorder = Recorder()
    with pytest.raises(DurableError):
        delete_session_workspace("abc-123", root, recorder, fs=Failing(call, errno.EACCES))
    assert recorder.told == []
    if left is None:
        assert [name[:11] for name in names_in(root)] == [".discarded-"]
        delete_session_workspace("abc-123", root)  # finishes it
        assert names_in(root) == []
    else:
        assert names_in(root) == left


def test_a_deletion_sweeps_away_what_dead_processes_left(root: Path) -> None:
    old = (NOW - timedelta(days=2)).timestamp()
    young = (NOW - timedelta(minutes=30)).timestamp()
    create_session_sandbox(workspace_root=root, new_id=lambda: "kept")
    for name, age in ((".incoming-old", old), (".incoming-young", young), (".other", old)):
        (root / name).mkdir()
        (root / name / "f").write_text("x")
        os.utime(root / name, (age, age))
    (root / ".incoming-old-file").write_text("x")
    os.utime(root / ".incoming-old-file", (old, old))
    (root / ".discarded-1").mkdir()
    delete_session_workspace("abc-123", root, clock=lambda: NOW)
    assert names_in(root) == [".incoming-young", ".other", "kept"]


def test_a_deletion_tells_what_it_sweeps(root: Path) -> None:
    recorder = Recorder()
    (root / ".discarded-1" / "deep").mkdir(parents=True)
    delete_session_workspace("abc-123", root, logger=recorder)
    swept = {"workspace_root": str(root), "count": 1, "names": [".discarded-1"]}
    assert recorder.told == [("info", "session.swept", swept)]


def test_updates_sweep_a_root_now_and_then_and_tell_it(root: Path) -> None:
    recorder = Recorder()
    times = [0.0]

    def sweep() -> list[str]:
        name = f".discarded-{len(recorder.told)}"
        (root / name / "deep").mkdir(parents=True, exist_ok=True)
        sweep_now_and_then(
            root,
            clock=lambda: NOW,
            log=SandboxLogger(recorder),
            monotonic=lambda: times[0],
        )
        return names_in(root)

    assert sweep() == []
    assert [event for _, event, _ in recorder.told] == ["session.swept"]
    assert sweep() == [".discarded-1"]
    times[0] = EVERY_S
    held = os.open(root, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert sweep() == [".discarded-1"]
    os.close(held)
    times[0] = 2 * EVERY_S
    assert sweep() == []


def test_deletions_at_the_same_time_all_succeed(root: Path) -> None:
    for n in range(12):
        create_session_sandbox(workspace_root=root, new_id=lambda n=n: f"s{n}")
    recorder = Recorder()
    with ThreadPoolExecutor(24) as pool:
        list(pool.map(lambda n: delete_session_workspace(f"s{n % 12}", root, recorder), range(24)))
    assert names_in(root) == []
    assert len(recorder.told) == 12


def test_a_deletion_waits_for_the_execution_in_the_workspace(root: Path) -> None:
    _, sandbox = create_session_sandbox(workspace_root=root, new_id=lambda: "abc-123")
    with claim(sandbox.workspace, timeout_s=1):
        thread = threading.Thread(target=delete_session_workspace, args=("abc-123", root))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        assert names_in(root) == ["abc-123"]
    thread.join()
    assert names_in(root) == []


def test_a_deletion_that_waits_too_long_leaves_the_session_as_it_is(root: Path) -> None:
    _, sandbox = create_session_sandbox(workspace_root=root, new_id=lambda: "abc-123")
    recorder = Recorder()
    with claim(sandbox.workspace, timeout_s=1), pytest.raises(WorkspaceBusy) as caught:
        delete_session_workspace("abc-123", root, recorder, busy_timeout_s=0)
    assert caught.value.path == root / "abc-123"
    assert names_in(root) == ["abc-123"]
    assert recorder.told == []
    delete_session_workspace("abc-123", root, recorder, busy_timeout_s=0)
    assert names_in(root) == []


def test_a_deletion_never_takes_a_workspace_that_came_after_the_claimed_one(root: Path) -> None:
    _, sandbox = create_session_sandbox(workspace_root=root, new_id=lambda: "abc-123")
    in_use = ExitStack()

    class Swapping(OsSessionFileSystem):
        """Puts another workspace in place, and uses it, before the first lock is taken."""

        def flock(self, fd: int, operation: int) -> None:
            if not os.path.exists(root / "gone"):
                os.rename(sandbox.workspace, root / "gone")
                os.mkdir(sandbox.workspace)
                in_use.enter_context(claim(sandbox.workspace, timeout_s=1))
            super().flock(fd, operation)

    with in_use, pytest.raises(WorkspaceBusy):
        delete_session_workspace("abc-123", root, fs=Swapping(), busy_timeout_s=0)
    assert names_in(root) == ["abc-123", "gone"]


# ---------------------------------------------------------------- the logger


def test_a_logger_is_wrapped_once_and_binds_without_changing() -> None:
    recorder = Recorder()
    logger = SandboxLogger(recorder)
    assert SandboxLogger.of(logger) is logger
    bound = logger.bind(session_id="a", tenant=1)
    bound.info("x", tenant=2)
    logger.warning("y")
    assert recorder.told == [
        ("info", "x", {"session_id": "a", "tenant": 2}),
        ("warning", "y", {}),
    ]


def test_bound_fields_go_into_the_events_of_sessions(root: Path) -> None:
    recorder = Recorder()
    logger = SandboxLogger(recorder).bind(tenant="t-1")
    create_session_sandbox(workspace_root=root, logger=logger)
    assert {fields["tenant"] for _, _, fields in recorder.told} == {"t-1"}


def test_the_default_logger_is_structlog_s() -> None:
    with capture_logs() as logs:
        SandboxLogger().info("session.deleted", session_id="abc-123")
        SandboxLogger().warning("session.metadata.corrupted", session_id="abc-123", reason="r")
    assert logs == [
        {"event": "session.deleted", "log_level": "info", "session_id": "abc-123"},
        {
            "event": "session.metadata.corrupted",
            "log_level": "warning",
            "session_id": "abc-123",
            "reason": "r",
        },
    ]
