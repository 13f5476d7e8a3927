"""The audit log: on the disk before anything goes, and readable whatever happened to it."""

from __future__ import annotations

import errno
import json
import os
import shutil
from datetime import timedelta
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.prune import (
    Disposal,
    PruneResult,
    PruneRootUnusable,
    RetentionPolicy,
    prepare_root,
    prune,
)
from agentforge_sessions.prune.audit_log import (
    AUDIT_NAME,
    KEPT_LOGS,
    AuditLog,
    actor,
    read_audit,
)
from agentforge_sessions.prune.audit_reserve import RESERVE_BYTES, RESERVE_NAME
from agentforge_sessions.sandbox import SandboxTarget
from tests.support.clock import START
from tests.support.filesystem import Buffers, FaultyFileSystem, nth_call, nth_of
from tests.support.prune_sites import ACTOR, Site, tree_of

OLD = RetentionPolicy(max_age_hours=24)


def run(site: Site, **disposal: Any) -> PruneResult:
    return prune(
        SandboxTarget(site.root), OLD, disposal=Disposal(**disposal), outside=site.outside()
    )


class Log:
    """An audit log in a directory, with a file system that may fail."""

    def __init__(self, directory: Path, fs: FaultyFileSystem) -> None:
        self.fs = fs
        self.path = directory / AUDIT_NAME
        self.fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self.log = AuditLog(fs, self.fd, run="r1", by=ACTOR)

    def add(self, *names: str) -> None:
        for name in names:
            self.log.add("removing", at=START, session_id=name)

    def ids(self) -> list[object]:
        return [line["session_id"] for line in read_audit(self.path)]

    def close(self) -> None:
        self.log.close()
        os.close(self.fd)


@pytest.fixture
def log(tmp_path: Path, fs: FaultyFileSystem) -> Any:
    made = Log(tmp_path, fs)
    yield made
    made.close()


# ---------------------------------------------------------------- lines


def test_a_line_says_when_what_which_and_by_whom(log: Log) -> None:
    log.log.add("removing", at=START, session_id="s\n\udcff", reasons=["expired"])
    log.log.write()
    assert log.path.stat().st_mode & 0o777 == 0o600
    [line] = log.path.read_bytes().splitlines()
    assert json.loads(line) == {
        "at": "2026-03-01T09:30:00.000000Z",
        "event": "removing",
        "session_id": "s\n\udcff",
        "reasons": ["expired"],
        "run": "r1",
        "by": ACTOR,
    }


def test_nothing_is_written_before_it_is_asked_for_and_nothing_twice(log: Log) -> None:
    log.add("a")
    assert log.path.read_bytes() == b""
    log.log.write()
    log.log.write()
    assert log.ids() == ["a"]
    synced = [call.path for call in log.fs.trace if call.operation == "fsync"]
    assert synced.count(synced[-1]) == 1


def test_the_actor_is_this_process() -> None:
    who = actor()
    assert (who["uid"], who["pid"]) == (os.getuid(), os.getpid())
    assert set(who) == {"user", "uid", "pid", "host", "program"}


def test_a_small_write_is_gone_on_with(tmp_path: Path) -> None:
    log = Log(tmp_path, FaultyFileSystem(largest_write=7))
    log.add(*"abc")
    log.log.write()
    assert log.ids() == ["a", "b", "c"]
    log.close()


def test_a_whole_last_line_is_not_ended_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        log = Log(tmp_path, FaultyFileSystem())
        log.add(name)
        log.log.write()
        log.close()
    assert (tmp_path / AUDIT_NAME).read_bytes().count(b"\n") == 2


def test_a_write_that_failed_half_way_spoils_no_later_line(tmp_path: Path) -> None:
    """A full disk takes half a line; what is written once there is room is readable."""
    fs = FaultyFileSystem(largest_write=20)
    log = Log(tmp_path, fs)
    fs.begin(nth_of("writev", 2, errno.ENOSPC))
    log.add("lost")
    with pytest.raises(OSError, match="No space left"):
        log.log.write()
    fs.begin()
    log.add("a", "b")
    log.log.write()
    assert log.ids() == ["a", "b"]
    log.close()


@pytest.mark.parametrize("torn", [b'{"event": "remov', b"\xff\x00", b"[", b"3"])
def test_half_a_line_is_cut_off_by_the_next_writer(tmp_path: Path, torn: bytes) -> None:
    """Every line is JSON again, for readers that are not ours."""
    path = tmp_path / AUDIT_NAME
    path.write_bytes(b'{"session_id": "first"}\n' + torn)
    log = Log(tmp_path, FaultyFileSystem())
    log.close()
    assert path.read_bytes() == b'{"session_id": "first"}\n'


def test_half_a_line_of_a_full_disk_is_cut_off(tmp_path: Path) -> None:
    fs = FaultyFileSystem(largest_write=20)
    log = Log(tmp_path, fs)
    log.add("first")
    log.log.write()
    fs.begin(nth_of("writev", 2, errno.ENOSPC))
    log.add("lost")
    with pytest.raises(OSError, match="No space left"):
        log.log.write()
    fs.begin()
    log.close()

    later = Log(tmp_path, FaultyFileSystem())
    later.add("second")
    later.log.write()
    later.close()

    lines = (tmp_path / AUDIT_NAME).read_bytes().splitlines()
    assert [json.loads(line)["session_id"] for line in lines] == ["first", "second"]


def test_a_whole_line_without_its_end_is_kept_and_ended(tmp_path: Path) -> None:
    path = tmp_path / AUDIT_NAME
    path.write_bytes(b'{"session_id": "first"}')
    log = Log(tmp_path, FaultyFileSystem())
    log.add("second")
    log.log.write()
    log.close()
    assert [json.loads(line)["session_id"] for line in path.read_bytes().splitlines()] == [
        "first",
        "second",
    ]


def test_half_a_line_that_can_not_be_cut_off_is_ended(tmp_path: Path) -> None:
    """As in a log that may only be added to."""
    path = tmp_path / AUDIT_NAME
    path.write_bytes(b'{"session_id": "first"}\n{"eve')
    fs = FaultyFileSystem()
    fs.begin(nth_of("ftruncate", 0, errno.EPERM))
    log = Log(tmp_path, fs)
    log.add("second")
    log.log.write()
    log.close()
    assert path.read_bytes().startswith(b'{"session_id": "first"}\n{"eve\n{')
    assert log.ids() == ["first", "second"]


def test_a_log_elsewhere_which_others_may_be_writing_to_is_never_cut(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.jsonl"
    path.write_bytes(b'{"eve')
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    log = AuditLog(OsFileSystem(), fd, run="r1", by=ACTOR, path=path, root=tmp_path)
    log.add("removing", at=START, session_id="a")
    log.write()
    log.close()
    os.close(fd)
    assert path.read_bytes().startswith(b'{"eve\n{')


def test_lines_that_were_not_made_durable_are_an_error(log: Log) -> None:
    log.fs.begin(nth_of("fsync", 0, errno.EIO))
    log.add("a")
    with pytest.raises(OSError, match="Input/output"):
        log.log.write()


def test_what_is_no_line_of_a_log_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    deep = b"[" * 100_000
    path.write_bytes(
        b'\n\n[]\n3\nnull\n"x"\n\xff\xfe\n' + deep + b'\n{"event": "whole"}\n{"event": "to'
    )
    assert read_audit(path) == [{"event": "whole"}]
    assert read_audit(tmp_path / "missing") == []


# ---------------------------------------------------------------- before it happens


def test_the_log_is_on_the_disk_before_a_session_is_out_of_sight(site: Site) -> None:
    old = [site.add(age_hours=30), site.add(age_hours=31)]

    run(site)

    steps = site.steps()
    written = steps.index("writev .prune/audit.jsonl")
    synced = steps.index("fsync .prune/audit.jsonl", written)
    renamed = [at for at, step in enumerate(steps) if step.startswith("rename .prune/going/")]
    moves = [at for at in renamed if any(steps[at].split("/")[-1].startswith(n) for n in old)]
    going = steps.index("fsync .prune/going", moves[1])
    root = steps.index("fsync base", moves[1])
    deleted = min(at for at, step in enumerate(steps) if step.startswith("unlink"))
    assert written < synced < moves[0] < moves[1] < going < root < deleted


def test_a_new_log_is_durable_as_a_name_too(site: Site) -> None:
    """What was synced in a file is lost if the file's name is."""
    site.add(age_hours=30)

    run(site)

    steps = site.steps()
    made = steps.index("open .prune/audit.jsonl")
    moved = next(at for at, step in enumerate(steps) if step.startswith("rename .prune/going/"))
    assert "fsync .prune" in steps[made:moved]


def test_without_the_log_nothing_goes(site: Site) -> None:
    old = [site.add(age_hours=30), site.add(age_hours=31)]
    before = [tree_of(site.root / name) for name in old]
    for operation in ("writev", "fsync"):
        site.fs.begin(
            lambda _, call, operation=operation: (
                errno.ENOSPC
                if call.operation == operation and call.path.endswith(AUDIT_NAME)
                else None
            )
        )
        result = run(site)
        assert result.deleted_sessions == []
        assert sorted(result.errors) == old
        for why in result.errors.values():
            assert "the audit log could not be written, so it was kept" in why
        assert [tree_of(site.root / name) for name in old] == before
        assert site.hidden() == []


class SmallDisk(FaultyFileSystem):
    """A disk on which the audit log finds so many bytes; each deleted data file gives some back."""

    def __init__(self, room: int, *, given_back: int) -> None:
        super().__init__()
        self.room = room
        self.given_back = given_back

    def writev(self, fd: int, buffers: Buffers) -> int:
        if not self.names.get(fd, "?").endswith(AUDIT_NAME):
            return super().writev(fd, buffers)
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole = b"".join(bytes(buffer) for buffer in buffers)
        done = super().writev(fd, [whole[: self.room]])
        self.room -= done
        return done

    def unlink(self, path: str, *, dir_fd: int | None = None) -> None:
        super().unlink(path, dir_fd=dir_fd)
        if path == "data.txt":
            self.room += self.given_back


def announced(site: Site, event: str) -> list[object]:
    return [line["session_id"] for line in site.audit() if line["event"] == event]


@pytest.mark.parametrize("deleters", [1, 4])
def test_a_log_with_little_room_takes_what_fits_and_the_rest_once_that_is_gone(
    site: Site, deleters: int
) -> None:
    site.deleters = deleters
    old = [site.add(age_hours=30 + number) for number in range(9)]
    site.fs = SmallDisk(1_000, given_back=1_200)  # a line has some 400 bytes

    result = run(site, batch=4)

    assert result.errors == {}
    assert sorted(result.deleted_sessions) == sorted(announced(site, "removing")) == old
    assert site.sessions() == []


def test_what_the_log_has_no_room_for_stays_and_is_not_announced(site: Site) -> None:
    old = [site.add(age_hours=30 - number / 10) for number in range(9)]
    site.fs = SmallDisk(1_000, given_back=0)

    result = run(site)

    assert 0 < len(result.deleted_sessions) < 9
    assert old == [*result.deleted_sessions, *result.errors]
    assert announced(site, "removing") == result.deleted_sessions
    assert site.sessions() == sorted(result.errors)
    assert all("the audit log could not be written" in why for why in result.errors.values())


def test_the_trash_is_purged_as_the_log_finds_room(site: Site) -> None:
    old = [site.add(age_hours=30 + number) for number in range(5)]
    run(site, grace=timedelta(hours=1))
    site.clock.advance(7200)
    site.fs = SmallDisk(700, given_back=900)

    result = run(site)

    assert result.errors == {}
    assert sorted(result.purged_sessions) == sorted(announced(site, "purging")) == old


def test_every_line_of_a_prune_has_its_run_and_another_prune_has_another(site: Site) -> None:
    for _ in range(2):
        site.add(age_hours=30)
        run(site)
    assert [line["event"] for line in site.audit()] == ["removing", "removed"] * 2
    runs = [line["run"] for line in site.audit()]
    assert runs[0] == runs[1] != runs[2] == runs[3]


# ---------------------------------------------------------------- something else in its place


def plant_link(path: Path) -> None:
    path.symlink_to(path.parent.parent.parent / "beside" / "file")


def plant_loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir, plant_link, plant_loop])
def test_what_is_in_the_logs_place_is_not_written_to_and_nothing_goes(
    site: Site, plant: Any
) -> None:
    old = site.add(age_hours=30)
    site.private.mkdir(mode=0o700)
    plant(site.private / AUDIT_NAME)
    before = tree_of(site.top)

    with pytest.raises(PruneRootUnusable, match=r"the audit log audit\.jsonl"):
        run(site)

    assert tree_of(site.top) == before
    assert site.sessions() == [old]


def test_another_place_for_the_log(site: Site) -> None:
    old = site.add(age_hours=30)
    elsewhere = site.top / "elsewhere.jsonl"

    run(site, audit_path=elsewhere)

    assert [line["session_id"] for line in read_audit(elsewhere)] == [old, old]
    assert site.audit() == []
    steps = site.steps(site.top)
    made = steps.index("open elsewhere.jsonl")
    assert "fsync base" in steps[made:]


@pytest.mark.parametrize("plant", [os.mkfifo, os.mkdir])
def test_another_place_that_is_none(site: Site, plant: Any) -> None:
    old = site.add(age_hours=30)
    plant(site.top / "elsewhere")

    with pytest.raises(PruneRootUnusable):
        run(site, audit_path=site.top / "elsewhere")

    assert site.sessions() == [old]


# ---------------------------------------------------------------- a full disk, and a long life


class FullDisk(FaultyFileSystem):
    """A disk without room for anything but what is written over something.

    Attributes:
        full: Whether it is full now.
    """

    def __init__(self) -> None:
        super().__init__()
        self.full = True

    def _write_refused(self, path: str) -> None:
        if self.full and not path.endswith(RESERVE_NAME):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def writev(self, fd: int, buffers: Any) -> int:
        self._write_refused(self.names.get(fd, "?"))
        return super().writev(fd, buffers)

    def mkdir(self, path: str, mode: int = 0o700, *, dir_fd: int | None = None) -> None:
        self._write_refused(path)
        super().mkdir(path, mode, dir_fd=dir_fd)


def test_a_root_is_prepared_once_and_for_its_user_alone(site: Site) -> None:
    prepare_root(site.root, site.fs)
    assert sorted(os.listdir(site.private)) == [AUDIT_NAME, RESERVE_NAME, "going", "trash"]
    for path in (site.private, *site.private.iterdir()):
        assert path.stat().st_mode & 0o077 == 0
    assert (site.private / RESERVE_NAME).read_bytes() == b"\n" * RESERVE_BYTES
    before = tree_of(site.root)
    site.fs.begin()
    prepare_root(site.root, site.fs)
    assert [call.operation for call in site.fs.trace] == ["stat"]
    assert tree_of(site.root) == before


def test_a_root_that_has_what_it_needs_is_not_synced_for_it(site: Site) -> None:
    for age_hours in (60, 61):
        site.fs.begin()
        site.add(age_hours=age_hours)
        run(site)
    assert (site.private / RESERVE_NAME).exists()
    synced = [call.path.rsplit("/", 1)[-1] for call in site.fs.trace if call.operation == "fsync"]
    assert synced == [AUDIT_NAME, "going", "root", AUDIT_NAME]


def test_a_root_that_can_not_be_prepared_is_no_error(site: Site) -> None:
    fs = FaultyFileSystem()
    prepare_root(site.root, fs)
    calls = len(fs.trace)
    for number in range(calls + 1):
        site.fs.begin(nth_call(number, errno.ENOSPC))
        prepare_root(site.root, site.fs)
        assert site.fs.open_descriptors == {}
        reserve = site.private / RESERVE_NAME
        assert not reserve.exists() or reserve.stat().st_size == RESERVE_BYTES
        shutil.rmtree(site.private, ignore_errors=True)
    prepare_root(site.root / "missing", site.fs)
    prepare_root(Path("nul\0byte"), site.fs)


def test_nothing_is_prepared_through_what_is_planted(site: Site) -> None:
    site.private.symlink_to(site.beside)
    before = tree_of(site.top)
    prepare_root(site.root, site.fs)
    assert tree_of(site.top) == before


def test_on_a_full_disk_sessions_go_one_at_a_time_and_the_reserve_has_the_lines(
    site: Site,
) -> None:
    old = [site.add(age_hours=60 - number) for number in range(8)]
    prepare_root(site.root)
    fs = site.fs = FullDisk()

    result = run(site)

    assert (result.deleted_sessions, result.errors) == (old, {})
    assert announced(site, "removing") == announced(site, "removed") == old
    renamed = [call.path for call in fs.trace if call.operation in {"rename", "rmdir"}]
    kinds = ["rename" if "root/0" in path and "going" not in path else "rmdir" for path in renamed]
    assert "rmdir" in kinds[: kinds.index("rename", 1) + 1]  # one is gone before the next is moved
    assert (site.private / AUDIT_NAME).read_bytes() == b""

    fs.full = False
    site.add(age_hours=60)
    run(site)
    lines = (site.private / AUDIT_NAME).read_bytes().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["removing", "removed"] * 9
    assert (site.private / RESERVE_NAME).read_bytes() == b"\n" * RESERVE_BYTES


def test_a_reserve_that_is_used_up_keeps_the_rest_and_says_what_to_do(site: Site) -> None:
    old = [site.add(age_hours=90 - number / 10) for number in range(60)]
    prepare_root(site.root)
    site.fs = FullDisk()

    result = run(site)

    assert 10 < len(result.deleted_sessions) < 60
    assert old == [*result.deleted_sessions, *result.errors]
    assert announced(site, "removing") == result.deleted_sessions
    assert all("--audit-log" in why for why in result.errors.values())
    assert site.sessions() == sorted(result.errors)


class NoDirectories(FaultyFileSystem):
    """A disk that never has room for another directory; later it may refuse for another reason."""

    def __init__(self, later: int = errno.ENOSPC) -> None:
        super().__init__()
        self._numbers = chain([errno.ENOSPC], repeat(later))

    def mkdir(self, path: str, mode: int = 0o700, *, dir_fd: int | None = None) -> None:
        number = next(self._numbers)
        raise OSError(number, os.strerror(number), path)


def test_what_goes_without_a_private_directory_is_told_though_there_is_never_room_for_one(
    site: Site,
) -> None:
    old = [site.add(age_hours=60 - number) for number in range(3)]
    young = site.add(age_hours=1)
    site.fs = NoDirectories()
    elsewhere = site.top / "elsewhere.jsonl"

    result = run(site, audit_path=elsewhere)

    assert (result.deleted_sessions, result.errors) == (old, {})
    assert site.sessions() == [young]
    lines = read_audit(elsewhere)
    assert [line["session_id"] for line in lines if line["event"] == "removed"] == old
    site.add(age_hours=60)
    with pytest.raises(PruneRootUnusable, match="--audit-log"):  # it says what would help
        run(site)


def test_a_refusal_after_something_went_is_told_of_what_stays(site: Site) -> None:
    old = [site.add(age_hours=60 - number) for number in range(3)]
    site.fs = NoDirectories(later=errno.EROFS)

    result = run(site, audit_path=site.top / "elsewhere.jsonl", batch=1)

    assert result.deleted_sessions == old[:1]
    assert site.sessions() == list(result.errors) == old[1:]
    assert all(os.strerror(errno.EROFS) in why for why in result.errors.values())


def test_lines_of_a_reserve_that_were_half_moved_are_not_there_twice(site: Site) -> None:
    site.add(age_hours=60)
    prepare_root(site.root)
    site.fs = FullDisk()
    run(site)
    moved = (site.private / RESERVE_NAME).read_bytes().splitlines(keepends=True)[0]
    (site.private / AUDIT_NAME).write_bytes(moved)  # its process died before the next one
    site.fs.full = False
    site.add(age_hours=60)
    run(site)
    assert [line["event"] for line in site.audit()] == ["removing", "removed"] * 2
    assert (site.private / AUDIT_NAME).read_bytes().count(moved) == 1


def test_what_is_in_the_reserves_place_is_not_written_to(site: Site) -> None:
    old = site.add(age_hours=60)
    prepare_root(site.root)
    reserve = site.private / RESERVE_NAME
    for plant in (plant_link, os.mkfifo, os.mkdir, lambda path: path.write_bytes(b"short")):
        reserve.unlink() if not reserve.is_dir() else reserve.rmdir()
        plant(reserve)
        before = tree_of(site.top)
        site.fs = FullDisk()
        assert list(run(site).errors) == [old]
        assert tree_of(site.top) == before
    reserve.unlink()
    os.link(site.beside / "file", reserve)
    assert list(run(site).errors) == [old]


def test_a_large_log_is_rotated_and_read_as_one(site: Site) -> None:
    for number in range(3):
        fd = os.open(site.root, os.O_RDONLY)
        audit = AuditLog(OsFileSystem(), fd, run=f"run{number}", by=ACTOR, rotated_at=300)
        for line in range(2):
            audit.add("removing", at=site.clock.now, session_id=f"{number}-{line}", kind="x" * 100)
        audit.write()
        audit.close()
        os.close(fd)
    names = sorted(os.listdir(site.root))
    assert names == [AUDIT_NAME, f"{AUDIT_NAME}.1", f"{AUDIT_NAME}.2"]
    assert [line["session_id"] for line in read_audit(site.root / AUDIT_NAME)] == [
        f"{number}-{line}" for number in range(3) for line in range(2)
    ]


def test_so_many_former_logs_are_kept(site: Site) -> None:
    fd = os.open(site.root, os.O_RDONLY)
    for number in range(KEPT_LOGS + 4):
        (site.root / AUDIT_NAME).write_text(f'{{"number": {number}}}\n')
        AuditLog(OsFileSystem(), fd, run="r", by=ACTOR, rotated_at=1).close()
    os.close(fd)
    numbers = [line["number"] for line in read_audit(site.root / AUDIT_NAME)]
    assert numbers == list(range(4, KEPT_LOGS + 4))
