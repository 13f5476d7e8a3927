"""The metadata file: what is read, what is refused and left alone, updates, repairs."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.sandbox import (
    CorruptedMetadata,
    InvalidSessionId,
    PathEscapesWorkspace,
    SandboxError,
    SessionWorkspaceMissing,
    list_session_files,
    read_session_metadata,
    repair_session_metadata,
)
from agentforge_sessions.sandbox.errors import UnreadableMetadata
from agentforge_sessions.sandbox.session_workspaces.session_directory import OsSessionFileSystem
from agentforge_sessions.sandbox.session_workspaces.session_metadata import (
    MAX_METADATA_BYTES,
    SessionMetadata,
    encode_metadata,
    format_time,
    parse_metadata,
)
from agentforge_sessions.sandbox.session_workspaces.session_metadata_file import (
    touch_session_metadata,
)
from tests.support.recorder import Recorder

S = "abc-123"
NOW = datetime(2025, 11, 22, 14, 22, 18, 987654, tzinfo=UTC)
GOOD: dict[str, object] = {
    "session_id": S,
    "created_at": "2025-11-22T10:15:30.123456Z",
    "updated_at": "2025-11-22T10:15:30.123456Z",
    "version": 1,
}
CREATED = datetime(2025, 11, 22, 10, 15, 30, 123456, tzinfo=UTC)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    (path / S).mkdir(parents=True)
    return path


@pytest.fixture
def file(root: Path) -> Path:
    path = root / S / ".metadata.json"
    path.write_text(json.dumps(GOOD))
    return path


def changed(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in GOOD.items() if key != name}).encode()


# ---------------------------------------------------------------- the form


def test_what_is_written_is_read(root: Path) -> None:
    metadata = SessionMetadata(
        session_id=S, created_at=CREATED, updated_at=NOW, extra={"note": "ü", "n": 0.1}
    )
    content = encode_metadata(metadata)
    assert parse_metadata(S, content) == metadata
    assert json.loads(content)["updated_at"] == "2025-11-22T14:22:18.987654Z"
    assert list(json.loads(content)) == [
        "session_id",
        "created_at",
        "updated_at",
        "version",
        "note",
        "n",
    ]


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOW, "2025-11-22T14:22:18.987654Z"),
        (NOW.replace(microsecond=0), "2025-11-22T14:22:18.000000Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000000Z"),
        (
            datetime(2025, 1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
            "2024-12-31T23:00:00.000000Z",
        ),
    ],
)
def test_times_have_one_form(moment: datetime, text: str) -> None:
    assert format_time(moment) == text
    assert datetime.fromisoformat(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "2025-11-22T10:15:30.123456Z",
        "2025-11-22T10:15:30.123456+00:00",
        "2025-11-22T12:15:30.123456+02:00",
        "2025-11-22T10:15:30.123456",
    ],
)
def test_times_are_read_in_every_zone(text: str) -> None:
    assert parse_metadata(S, changed(created_at=text)).created_at == CREATED


CORRUPTED: dict[str, bytes] = {
    "empty": b"",
    "cut off": json.dumps(GOOD).encode()[:-5],
    "no JSON": b"hello",
    "two documents": json.dumps(GOOD).encode() * 2,
    "no UTF-8": json.dumps(GOOD).encode().replace(b"abc", b"\xff\xfe"),
    "UTF-16": json.dumps(GOOD).encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf" + json.dumps(GOOD).encode(),
    "null": b"null",
    "list": b"[]",
    "string": b'"x"',
    "no fields": b"{}",
    "too deep": b"[" * 30_000,
    "too large": changed(extra="x" * MAX_METADATA_BYTES),
    "huge integer": changed().replace(b"1}", b"1" * 5000 + b"}"),
    "infinite": changed(x=1).replace(b'"x": 1', b'"x": 1e999'),
    "not a number": changed(x=1).replace(b'"x": 1', b'"x": NaN'),
    "name twice": changed().replace(b'"version": 1', b'"version": 1, "version": 1'),
    **{f"without {name}": without(name) for name in GOOD},
    "version true": changed(version=True),
    "version 0": changed(version=0),
    "version text": changed(version="1"),
    "version 1.0": changed(version=1.0),
    "version 2": changed(version=2),
    "version null": changed(version=None),
    "another session": changed(session_id="other"),
    "id a number": changed(session_id=5),
    "time a number": changed(updated_at=1763806530),
    "time null": changed(created_at=None),
    "time empty": changed(updated_at=""),
    "no time": changed(created_at="yesterday"),
    "no such day": changed(created_at="2025-02-30T00:00:00Z"),
    "before all time": changed(created_at="0001-01-01T00:00:00+10:00"),
}


@pytest.mark.parametrize("content", CORRUPTED.values(), ids=CORRUPTED)
def test_corrupted_content_is_told_and_left_alone(root: Path, file: Path, content: bytes) -> None:
    file.write_bytes(content)
    before = file.stat()
    with pytest.raises(CorruptedMetadata) as caught:
        read_session_metadata(S, root)
    assert isinstance(caught.value, SandboxError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.session_id == S
    assert len(str(caught.value)) < 500
    assert str(root) not in str(caught.value)
    recorder = Recorder()
    assert touch_session_metadata(S, root, logger=recorder) is None
    assert recorder.told == [
        ("warning", "session.metadata.corrupted", {"session_id": S, "reason": caught.value.reason})
    ]
    assert file.read_bytes() == content
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def make_link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere.json"
    elsewhere.write_text(json.dumps(GOOD))
    path.symlink_to(elsewhere)


PLANTED: dict[str, Callable[[Path], None]] = {
    "a link": make_link,
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a loop": lambda path: path.symlink_to(path.name),
    "a pipe": os.mkfifo,
    "a directory": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_what_is_no_file_is_told_and_left_alone(
    root: Path, file: Path, plant: Callable[[Path], None]
) -> None:
    file.unlink()
    plant(file)
    before = file.lstat()
    with pytest.raises(CorruptedMetadata):
        read_session_metadata(S, root)
    recorder = Recorder()
    assert touch_session_metadata(S, root, logger=recorder) is None
    assert [event for _, event, _ in recorder.told] == ["session.metadata.corrupted"]
    after = file.lstat()
    assert (after.st_mode, after.st_ino, after.st_mtime_ns) == (
        before.st_mode,
        before.st_ino,
        before.st_mtime_ns,
    )
    if file.is_symlink() and file.exists():
        assert json.loads(file.read_bytes()) == GOOD


def test_a_session_without_metadata_has_none(root: Path) -> None:
    recorder = Recorder()
    assert read_session_metadata(S, root) is None
    assert touch_session_metadata(S, root, logger=recorder) is None
    assert os.listdir(root / S) == []
    assert os.listdir(root) == [S]
    assert recorder.told == []


def test_a_session_that_is_not_there_is_an_error_to_read_and_nothing_to_update(
    root: Path, tmp_path: Path
) -> None:
    for where in (root, tmp_path / "no root"):
        with pytest.raises(SessionWorkspaceMissing):
            read_session_metadata("other", where)
        recorder = Recorder()
        assert touch_session_metadata("other", where, logger=recorder) is None
        assert recorder.told == []
    with pytest.raises(InvalidSessionId):
        touch_session_metadata("../x", root)


def test_a_link_in_place_of_the_workspace_is_not_followed(root: Path, file: Path) -> None:
    before = file.read_bytes()
    (root / "linked").symlink_to(root / S)
    with pytest.raises(PathEscapesWorkspace):
        read_session_metadata("linked", root)
    with pytest.raises(PathEscapesWorkspace):
        repair_session_metadata("linked", root)
    recorder = Recorder()
    assert touch_session_metadata("linked", root, logger=recorder) is None
    assert [(level, event) for level, event, _ in recorder.told] == [
        ("warning", "session.metadata.failed")
    ]
    assert file.read_bytes() == before


# ---------------------------------------------------------------- updates


def test_an_update_changes_one_field_and_keeps_the_rest(root: Path, file: Path) -> None:
    extra: dict[str, object] = {
        "tags": ["a", {"deep": [1, -0.5, 1e300, True, None]}],
        "text": "ü\u2028\ud800",
        "big": 10**40,
    }
    file.write_bytes(changed(created_at="2025-11-22T12:15:30.123456+02:00", **extra))
    recorder = Recorder()
    assert touch_session_metadata(S, root, logger=recorder, clock=lambda: NOW) == NOW
    fields = json.loads(file.read_bytes())
    assert fields == {
        **GOOD,
        **extra,
        "created_at": "2025-11-22T12:15:30.123456+02:00",
        "updated_at": format_time(NOW),
    }
    assert list(fields) == [*GOOD, *extra]
    assert recorder.told == [
        ("info", "session.metadata.updated", {"session_id": S, "updated_at": format_time(NOW)})
    ]
    assert os.listdir(root / S) == [".metadata.json"]
    assert os.listdir(root) == [S]


@pytest.mark.parametrize(
    ("clock", "updated"),
    [
        (CREATED, CREATED + timedelta(microseconds=1)),
        (CREATED - timedelta(days=9), CREATED + timedelta(microseconds=1)),
        (CREATED + timedelta(microseconds=1), CREATED + timedelta(microseconds=1)),
        (NOW.astimezone(timezone(timedelta(hours=-5))), NOW),
    ],
)
def test_an_update_is_later_than_the_one_before(
    root: Path, file: Path, clock: datetime, updated: datetime
) -> None:
    assert touch_session_metadata(S, root, clock=lambda: clock) == updated
    metadata = read_session_metadata(S, root)
    assert metadata is not None
    assert (metadata.created_at, metadata.updated_at) == (CREATED, updated)


def test_an_update_is_not_earlier_than_the_creation(root: Path, file: Path) -> None:
    file.write_bytes(changed(updated_at="2020-01-01T00:00:00Z"))
    old = datetime(2021, 1, 1, tzinfo=UTC)
    assert touch_session_metadata(S, root, clock=lambda: old) == CREATED


def test_updates_at_the_same_time_are_all_counted(root: Path, file: Path) -> None:
    times: list[datetime] = []

    def update() -> None:
        for _ in range(50):
            moment = touch_session_metadata(S, root, clock=lambda: CREATED, lock_timeout_s=60)
            assert moment is not None
            times.append(moment)

    with ThreadPoolExecutor(4) as pool:
        [done.result() for done in [pool.submit(update) for _ in range(4)]]
    assert sorted(times) == [CREATED + timedelta(microseconds=n + 1) for n in range(200)]
    metadata = read_session_metadata(S, root)
    assert metadata is not None
    assert metadata.updated_at == max(times)
    assert os.listdir(root) == [S]


class Overtaken(OsSessionFileSystem):
    """A file system on which another update comes between the opening and the first lock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.locked: list[bool] = []

    def flock(self, fd: int, operation: int) -> None:  # type: ignore[override]
        if not self.locked:
            touch_session_metadata(S, self.root, clock=lambda: CREATED)
        fcntl.flock(fd, operation)
        if operation == fcntl.LOCK_UN:
            return
        ours, there = os.fstat(fd), os.stat(self.root / S / ".metadata.json")
        self.locked.append(ours.st_ino == there.st_ino)


def test_a_lock_on_a_file_that_was_replaced_is_taken_anew(root: Path, file: Path) -> None:
    fs = Overtaken(root)
    moment = touch_session_metadata(S, root, clock=lambda: CREATED, fs=fs)
    assert moment == CREATED + timedelta(microseconds=2)
    assert fs.locked == [False, True]


def test_a_reader_sees_whole_metadata_at_all_times(root: Path, file: Path) -> None:
    stop = threading.Event()
    seen: list[datetime] = []

    def look() -> None:
        while not (stop.is_set() and seen):
            metadata = read_session_metadata(S, root)
            assert metadata is not None
            seen.append(metadata.updated_at)

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(300):
        touch_session_metadata(S, root, clock=lambda: CREATED)
    stop.set()
    thread.join()
    assert seen == sorted(seen)


def test_an_update_waits_for_another_only_so_long(root: Path, file: Path) -> None:
    before = file.read_bytes()
    holder = os.open(file, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    recorder = Recorder()
    try:
        assert touch_session_metadata(S, root, logger=recorder, lock_timeout_s=0.01) is None
    finally:
        os.close(holder)
    ((level, event, fields),) = recorder.told
    assert (level, event) == ("warning", "session.metadata.failed")
    assert "another update" in str(fields["reason"])
    assert file.read_bytes() == before
    assert touch_session_metadata(S, root) is not None


def test_an_update_does_not_wait_for_an_execution(root: Path, file: Path) -> None:
    holder = os.open(root / S, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(holder, fcntl.LOCK_EX)  # as an execution holds its workspace
    try:
        assert touch_session_metadata(S, root, lock_timeout_s=0.0) is not None
    finally:
        os.close(holder)


class Failing(OsSessionFileSystem):
    """A file system on which one call fails."""

    def __init__(self, call: str) -> None:
        def fail(*args: Any, **kw: Any) -> Any:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/host/path")

        setattr(self, call, fail)


@pytest.mark.parametrize("call", ["writev", "rename", "flock"])
def test_an_update_that_fails_is_a_warning_and_leaves_the_old_file(
    root: Path, file: Path, call: str
) -> None:
    before = file.read_bytes()
    recorder = Recorder()
    assert touch_session_metadata(S, root, logger=recorder, fs=Failing(call)) is None
    assert recorder.told == [
        (
            "warning",
            "session.metadata.failed",
            {"session_id": S, "operation": "update", "reason": os.strerror(errno.ENOSPC)},
        )
    ]
    assert file.read_bytes() == before
    assert os.listdir(root) == [S]


def test_an_update_at_the_end_of_time_is_a_warning(root: Path, file: Path) -> None:
    file.write_bytes(changed(updated_at="9999-12-31T23:59:59.999999Z"))
    recorder = Recorder()
    assert touch_session_metadata(S, root, logger=recorder) is None
    assert [event for _, event, _ in recorder.told] == ["session.metadata.failed"]


def test_deep_additions_never_fail_an_update(root: Path, file: Path) -> None:
    told: set[str] = set()
    for depth in (10, 100, 900, 940, 960, 980, 1100, 20_000):
        deep = b"[" * depth + b"]" * depth
        content = changed(x=1).replace(b'"x": 1', b'"x": ' + deep)
        file.write_bytes(content)
        recorder = Recorder()
        touch_session_metadata(S, root, logger=recorder)
        ((_, event, _),) = recorder.told
        told.add(event)
        assert event == "session.metadata.updated" or file.read_bytes() == content
    # Between the two is what can be read but not written; how much depends on the interpreter.
    assert told >= {"session.metadata.updated", "session.metadata.corrupted"}


def test_what_was_added_fits_after_an_update_if_it_did_before(root: Path, file: Path) -> None:
    text = "\N{SNOWMAN}" * 20_000  # 60 KB in UTF-8, 120 KB escaped
    content = json.dumps({**GOOD, "note": text}, ensure_ascii=False).encode()
    assert len(content) <= MAX_METADATA_BYTES
    file.write_bytes(content)
    assert touch_session_metadata(S, root) is not None
    metadata = read_session_metadata(S, root)
    assert metadata is not None
    assert metadata.extra == {"note": text}


def test_what_would_not_fit_after_an_update_is_left_alone(root: Path, file: Path) -> None:
    content = (json.dumps(GOOD)[:-1] + ', "n": "' + "x" * (MAX_METADATA_BYTES - 150)).encode()
    content += b"x" * (MAX_METADATA_BYTES - len(content) - 2) + b'"}'
    content = content.replace(b".123456Z", b"Z")  # the update puts these back, and more
    content += b" " * (MAX_METADATA_BYTES - len(content))
    file.write_bytes(content)
    assert read_session_metadata(S, root) is not None
    touch_session_metadata(S, root)
    assert read_session_metadata(S, root) is not None  # updated or not, but never spoilt


def test_an_update_does_not_wait_for_the_disk(root: Path, file: Path) -> None:
    recorder = Recorder()
    assert touch_session_metadata(S, root, logger=recorder, fs=Failing("fsync")) is not None
    assert [event for _, event, _ in recorder.told] == ["session.metadata.updated"]


# ---------------------------------------------------------------- repairs


def stamp(path: Path, moment: datetime) -> None:
    ns = int(moment.timestamp()) * 10**9 + moment.microsecond * 1000
    os.utime(path, ns=(ns, ns))


@pytest.fixture
def dated(root: Path) -> tuple[datetime, datetime]:
    first, last = CREATED - timedelta(days=3), CREATED - timedelta(hours=1)
    (root / S / "sub").mkdir()
    for name, moment in (("b", CREATED - timedelta(days=1)), ("sub/a", first), ("c", last)):
        (root / S / name).write_text("x")
        stamp(root / S / name, moment)
    (root / S / "link").symlink_to("b")
    return first, last


def test_a_repair_dates_a_session_by_its_files(
    root: Path, dated: tuple[datetime, datetime]
) -> None:
    recorder = Recorder()
    result = repair_session_metadata(S, root, logger=recorder, clock=lambda: NOW)
    assert (result.action, result.reason, result.dry_run) == ("created", None, False)
    assert (result.metadata.created_at, result.metadata.updated_at) == dated
    assert read_session_metadata(S, root) == result.metadata
    assert recorder.told == [
        ("info", "session.metadata.repaired", {"session_id": S, "action": "created"})
    ]
    assert os.listdir(root) == [S]
    assert list_session_files(S, root) == ["b", "c", "sub/a"]


def test_a_repair_on_trial_writes_nothing(root: Path, dated: tuple[datetime, datetime]) -> None:
    recorder = Recorder()
    trial = repair_session_metadata(S, root, dry_run=True, logger=recorder, clock=lambda: NOW)
    assert trial.dry_run
    assert not (root / S / ".metadata.json").exists()
    assert recorder.told == []
    real = repair_session_metadata(S, root, clock=lambda: NOW)
    assert (trial.action, trial.metadata) == (real.action, real.metadata)


def test_a_repair_replaces_what_makes_no_sense(
    root: Path, file: Path, dated: tuple[datetime, datetime]
) -> None:
    file.write_bytes(b"{")
    trial = repair_session_metadata(S, root, dry_run=True, clock=lambda: NOW)
    assert file.read_bytes() == b"{"
    result = repair_session_metadata(S, root, clock=lambda: NOW)
    assert result.action == trial.action == "replaced"
    assert result.reason is not None
    assert "no JSON" in result.reason
    assert read_session_metadata(S, root) == result.metadata
    assert touch_session_metadata(S, root) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a session away takes root")
@pytest.mark.parametrize("content", [None, b"{", b""])
def test_a_repair_by_root_leaves_the_metadata_to_the_session_s_owner(
    root: Path, file: Path, content: bytes | None
) -> None:
    """Another user's file in it would keep the session from every prune."""
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    os.chown(file.parent, 65534, 65533)

    repair_session_metadata(S, root)

    status = file.stat()
    assert (status.st_uid, status.st_gid) == (65534, 65533)
    assert status.st_mode & 0o777 == 0o600


def test_a_repair_replaces_a_link_and_not_what_it_leads_to(
    root: Path, dated: tuple[datetime, datetime]
) -> None:
    file = root / S / ".metadata.json"
    make_link(file)
    assert repair_session_metadata(S, root).action == "replaced"
    assert not file.is_symlink()
    assert json.loads((root / "elsewhere.json").read_bytes()) == GOOD


def test_a_repair_leaves_metadata_in_order_alone(root: Path, file: Path) -> None:
    before = (file.read_bytes(), file.stat().st_ino, file.stat().st_mtime_ns)
    recorder = Recorder()
    result = repair_session_metadata(S, root, logger=recorder)
    assert (result.action, result.reason) == ("none", None)
    assert result.metadata.created_at == CREATED
    assert (file.read_bytes(), file.stat().st_ino, file.stat().st_mtime_ns) == before
    assert recorder.told == []


class RefusedRead(OsSessionFileSystem):
    """A file system that won't have the metadata read, one way or another."""

    def __init__(self, operation: str, number: int) -> None:
        self.operation = operation
        self.number = number
        self.metadata: set[int] = set()

    def open(  # type: ignore[override]
        self, path: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None
    ) -> int:
        if path == ".metadata.json" and self.operation == "open":
            raise OSError(self.number, os.strerror(self.number))
        fd = os.open(path, flags, mode, dir_fd=dir_fd)
        if path == ".metadata.json":
            self.metadata.add(fd)
        return fd

    def pread(self, fd: int, length: int, offset: int) -> bytes:  # type: ignore[override]
        if fd in self.metadata and self.operation == "pread":
            raise OSError(self.number, os.strerror(self.number))
        return os.pread(fd, length, offset)


@pytest.mark.parametrize("operation", ["open", "pread"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_repair_replaces_nothing_that_it_could_not_read(
    root: Path, file: Path, operation: str, number: int, dry_run: bool
) -> None:
    file.write_text(json.dumps(GOOD))
    recorder = Recorder()

    with pytest.raises(UnreadableMetadata) as caught:
        repair_session_metadata(
            S, root, dry_run, logger=recorder, fs=RefusedRead(operation, number)
        )

    assert (caught.value.session_id, caught.value.errno) == (S, number)
    assert os.strerror(number) in str(caught.value)
    assert "left as it is" in str(caught.value)
    assert json.loads(file.read_text()) == GOOD
    assert recorder.told == []


def test_a_repair_does_not_replace_what_a_later_release_wrote(root: Path, file: Path) -> None:
    file.write_bytes(changed(version=2))
    with pytest.raises(CorruptedMetadata, match="use the release that wrote it") as caught:
        repair_session_metadata(S, root)
    assert caught.value.newer
    assert file.read_bytes() == changed(version=2)


def test_a_repair_does_not_remove_a_directory(root: Path) -> None:
    (root / S / ".metadata.json").mkdir()
    with pytest.raises(IsADirectoryError):
        repair_session_metadata(S, root)
    assert (root / S / ".metadata.json").is_dir()
    assert os.listdir(root) == [S]


def test_a_repair_of_an_empty_session_takes_the_directory_s_time(root: Path) -> None:
    stamp(root / S, CREATED)
    metadata = repair_session_metadata(S, root, clock=lambda: NOW).metadata
    assert (metadata.created_at, metadata.updated_at) == (CREATED, CREATED)


def test_times_of_files_that_cannot_be_are_brought_within_reason(root: Path) -> None:
    for name, ns in (("future", int(NOW.timestamp() + 10**9) * 10**9), ("before", -(10**18))):
        (root / S / name).write_text("x")
        os.utime(root / S / name, ns=(ns, ns))
    metadata = repair_session_metadata(S, root, clock=lambda: NOW).metadata
    assert metadata.created_at == datetime(1970, 1, 1, tzinfo=UTC)
    assert metadata.updated_at == NOW
