"""Disks that are really full, really read-only, and really somebody else's."""

from __future__ import annotations

import copy
import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agentforge_sessions.base.files import ReadError, WriteError
from agentforge_sessions.harness import SessionManager, SessionStore
from tests.support.listing import names_in
from tests.support.mounts import immutable, mounted_tmpfs, remount

ROOT = Path(__file__).parents[2]


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
        while ballast.write(b"x" * 4_096):
            pass


def test_a_full_disk_keeps_the_old_session_and_takes_the_next_once_there_is_room(
    tmp_path: Path,
) -> None:
    with mounted_tmpfs(tmp_path / "disk", options="size=128k") as disk:
        manager = SessionManager(SessionStore(disk / "sessions"))
        session = manager.create()
        for number in range(3):
            manager.add_history("noted", f"{number} " + "x" * 2_000)
        fill(disk)
        before = copy.deepcopy(session)

        with pytest.raises(WriteError) as caught:
            manager.add_history("noted", "one too many")

        assert caught.value.errno == errno.ENOSPC
        assert "old content is untouched" in str(caught.value)
        assert session == before
        assert SessionStore(disk / "sessions").load(session.session_id) == session
        directory = disk / "sessions" / session.session_id
        assert os.listdir(directory) == ["session.yaml"]

        remount(disk, "size=256k")
        manager.add_history("noted", "there is room")
        assert SessionStore(disk / "sessions").load(session.session_id) == session


def test_a_full_disk_still_loads_and_deletes(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path / "disk", options="size=256k") as disk:
        store = SessionStore(disk / "sessions")
        kept, first, second = (SessionManager(store).create().session_id for _ in range(3))
        assert store.delete(first) is True
        fill(disk)

        assert store.load(second) is not None
        assert store.delete(second) is True

        assert store.list_sessions() == [kept]
        SessionManager(store).create()


def test_a_full_disk_takes_no_new_session_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path / "disk", options="size=64k") as disk:
        store = SessionStore(disk / "sessions")
        store.ensure_directory()
        fill(disk)

        with pytest.raises(WriteError) as caught:
            SessionManager(store).create(goal="g" * 4_000)

        assert caught.value.errno == errno.ENOSPC
        assert os.listdir(disk / "sessions") == [".gitkeep"]
        (disk / "ballast").unlink()
        assert SessionManager(store).create().revision == 1


def test_a_disk_without_inodes_takes_no_save_and_keeps_the_old_session(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path / "disk", options="size=1m,nr_inodes=6") as disk:
        manager = SessionManager(SessionStore(disk / "sessions"))
        session = manager.create()
        while os.statvfs(disk).f_ffree:
            (disk / f"file{os.statvfs(disk).f_ffree}").touch()

        with pytest.raises(WriteError) as caught:
            manager.add_history("noted")

        assert caught.value.errno == errno.ENOSPC
        assert SessionStore(disk / "sessions").load(session.session_id) == session
        assert session.revision == 1


def test_a_read_only_disk_refuses_every_change_and_still_reads(tmp_path: Path) -> None:
    with mounted_tmpfs(tmp_path / "disk", options="size=256k") as disk:
        manager = SessionManager(SessionStore(disk / "sessions"))
        session = manager.create()
        before = copy.deepcopy(session)
        remount(disk, "ro")

        with pytest.raises(WriteError) as save:
            manager.add_history("noted")
        with pytest.raises(WriteError) as create:
            SessionManager(manager.store).create()
        with pytest.raises(WriteError) as delete:
            manager.store.delete(session.session_id)
        with pytest.raises(WriteError) as new_base:
            SessionManager(SessionStore(disk / "other" / "base")).create()

        for caught in (save, create, delete, new_base):
            assert caught.value.errno == errno.EROFS
        assert session == before
        reader = SessionStore(disk / "sessions")
        assert reader.load(session.session_id) == before
        assert [one.session_id for one in reader.summaries()] == [session.session_id]
        remount(disk, "rw")
        manager.add_history("noted")
        assert session.revision == 2


def test_a_directory_that_nobody_may_change_refuses_a_save(tmp_path: Path) -> None:
    manager = SessionManager(SessionStore(tmp_path / "top" / "sessions"))
    session = manager.create()
    directory = manager.store.session_path(session.session_id).parent
    with immutable(directory):
        with pytest.raises(WriteError) as caught:
            manager.add_history("noted")
        assert caught.value.errno == errno.EPERM
        assert session.revision == 1
        assert os.listdir(directory) == ["session.yaml"]
    manager.add_history("noted")
    assert SessionStore(manager.store.base_path).load(session.session_id) == session


AS_NOBODY = """
import os, sys
sys.dont_write_bytecode = True
from pathlib import Path
import yaml, structlog, attrs
from agentforge_sessions.base.files import DurableError
from agentforge_sessions.harness import (SessionManager, SessionStore, UnreadableSession)

# What is loaded late can't be read any more without rights.
from agentforge_sessions.harness.store import session_deletion
from agentforge_sessions.prune.removal import environment

os.setgroups([]); os.setgid(65534); os.setuid(65534)
base, session_id, what = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
manager = SessionManager(SessionStore(base))
try:
    if what == "load":
        manager.load(session_id)
    elif what == "create":
        manager.create()
    elif what == "save":
        manager.load(session_id)
        manager.add_history("noted")
    elif what == "list":
        print([type(one).__name__ for one in manager.store.summaries()])
    elif what == "delete":
        manager.store.delete(session_id)
except DurableError as error:
    print(type(error).__name__, getattr(error, "errno", None) or error.cause.errno, error.path)
except OSError as error:
    print("untyped", repr(error))
"""


def as_nobody(base: Path, session_id: str, what: str) -> str:
    """Ask a process without any rights to do something."""
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(base), session_id, what],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.fixture
def foreign() -> Iterator[tuple[Path, str]]:
    """A base and a session in it that belong to root; everybody may reach the base."""
    if os.geteuid() != 0:
        pytest.skip("changing to another user takes root")
    # pytest's own directories are closed to others.
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        manager = SessionManager(SessionStore(top / "sessions"))
        session = manager.create()
        (top / "sessions").chmod(0o755)
        yield top / "sessions", session.session_id


@pytest.mark.parametrize(
    ("mode", "what", "answer"),
    [
        (0o700, "load", f"SessionUnreadable {errno.EACCES} FILE"),
        (0o755, "save", f"WriteError {errno.EACCES} FILE"),
        (0o700, "list", "['UnreadableSession']"),
        (0o755, "create", f"WriteError {errno.EACCES} "),
        (0o755, "delete", f"WriteError {errno.EACCES} FILE"),
    ],
)
def test_what_belongs_to_somebody_else_is_a_typed_error(
    foreign: tuple[Path, str], mode: int, what: str, answer: str
) -> None:
    base, session_id = foreign
    path = base / session_id / "session.yaml"
    content = path.read_bytes()
    path.parent.chmod(mode)
    path.chmod(0o644)

    told = as_nobody(base, session_id, what)

    assert told.startswith(answer.replace("FILE", "")), told
    assert path.read_bytes() == content
    assert names_in(base) == [".gitkeep", session_id]
    assert os.listdir(path.parent) == ["session.yaml"]


def test_a_base_below_a_directory_that_may_not_be_entered_is_a_typed_error(
    foreign: tuple[Path, str],
) -> None:
    base, session_id = foreign
    closed = base / "closed"
    closed.mkdir(mode=0o700)

    told = as_nobody(closed / "deeper" / "sessions", session_id, "create")

    assert told.startswith(f"WriteError {errno.EACCES} "), told


def test_a_base_whose_name_is_too_long_is_a_typed_error(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / ("x" * 300) / "sessions")

    with pytest.raises(WriteError) as caught:
        SessionManager(store).create()
    assert caught.value.errno == errno.ENAMETOOLONG
    with pytest.raises(ReadError):
        store.list_sessions()


def test_a_base_that_is_a_file_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for base in (tmp_path / "file", tmp_path / "file" / "sessions"):
        with pytest.raises(WriteError):
            SessionManager(SessionStore(base)).create()
    with pytest.raises(ReadError):
        SessionStore(tmp_path / "file").list_sessions()
    assert (tmp_path / "file").read_text() == "x"
