"""Archives: what was archived comes back as it was, and nothing else ever comes out of one."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import socket
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from backports import zstd

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.harness.prune_target import HarnessTarget
from agentforge_sessions.prune import (
    Disposal,
    PruneError,
    PruneResult,
    PruneRootMissing,
    PruneRootUnusable,
    RetentionPolicy,
    SessionInTheWay,
    TarArchiver,
    prune,
    restore_archive,
)
from agentforge_sessions.prune.errors import InvalidArchive
from agentforge_sessions.sandbox import SandboxTarget
from tests.support.filesystem import Call, FaultyFileSystem, nth_of
from tests.support.prune_sites import Site, below, outside_of, tree_of, uuid_of

SID = uuid_of(1)


def run(site: Site, **options: Any) -> PruneResult:
    archiver = TarArchiver(
        directory=options.pop("directory", site.top / "archives"),
        clock=site.clock,
        token=site.tokens,
        level=options.pop("level", 3),
    )
    return prune(
        SandboxTarget(site.root),
        RetentionPolicy(max_age_hours=24),
        disposal=Disposal(archiver=archiver, **options),
        outside=site.outside(),
    )


def restore(site: Site, archive: Path) -> Path:
    return restore_archive(archive, SandboxTarget(site.root), outside=site.outside())


def visible(site: Site) -> dict[str, tuple[object, ...]]:
    """What is in the root, less the private directory, of which nothing half restored may stay."""
    assert site.hidden("coming") == []
    return outside_of(tree_of(site.root), [".prune"])


# ---------------------------------------------------------------- a round trip


def odd_tree(site: Site) -> Path:
    """Fill a session with what an archive might get wrong."""
    session = site.root / site.add(age_hours=30)
    odd = [
        "with blank",
        "new\nline",
        "tab\t",
        "\udcff\udcfe",
        "caf\u00e9 \u2603 \U0001f600",
        "-rf",
        "a" * 255,
        "5 path=x\n",
        "30 mtime=1\n",
        "trailing ",
        "back\\slash",
        "quote'\"",
        ".metadata.json.bak",
        ".agentforge-archive.json",
    ]
    for name in odd:
        (session / name).write_bytes(name.encode("utf-8", "surrogateescape"))
    (session / "empty").mkdir()
    (session / "deep/er/and/deeper").mkdir(parents=True)
    (session / ("d" * 200) / ("e" * 200)).mkdir(parents=True)
    (session / ("d" * 200) / ("e" * 200) / ("f" * 200)).write_text("far below")
    links = {
        "absolute": site.beside,
        "to a file": site.beside / "file",
        "relative": "../../beside",
        "dangling": "nowhere",
        "loop": "loop",
        "slash": "empty/",
        "long": "x" * 4_000,
        "odd": "\udcff\n",
    }
    for name, target in links.items():
        (session / f"link {name}").symlink_to(target)
    os.mkfifo(session / "fifo", 0o640)
    os.link(session / "with blank", session / "hard link")
    (session / "large").write_bytes(os.urandom(3_000_001))
    with open(session / "sparse", "wb") as sparse:
        sparse.seek(64 << 20)
        sparse.write(b"end")
    (session / "zeros").write_bytes(bytes(1 << 20))
    (session / "holes at the end").touch()
    os.truncate(session / "holes at the end", 5 << 20)
    (session / "nothing").touch()
    for mode in (0o000, 0o200, 0o444, 0o755, 0o777):
        (session / f"mode {mode:o}").write_text("x")
        (session / f"mode {mode:o}").chmod(mode)
        (session / f"directory {mode:o}").mkdir()
        (session / f"directory {mode:o}" / "in it").write_text("x")
        (session / f"directory {mode:o}").chmod(mode)
    for ns in (0, 1, 999_999_999, -1, -1_500_000_000, 2**33 * 10**9 + 7, 1_700_000_000_123_456_789):
        (session / f"time {ns}").write_text("x")
        os.utime(session / f"time {ns}", ns=(ns, ns))
    os.utime(session / "link dangling", ns=(5, 1_234_567_891_011), follow_symlinks=False)
    os.utime(session / "fifo", ns=(5, 1_234_567_891_012))
    for name in ("empty", "deep"):
        os.utime(session / name, ns=(1, 1_000_000_001))
    os.utime(session, ns=(3, 3_000_000_003))
    return session


def test_what_was_archived_comes_back_as_it_was(site: Site) -> None:
    session = odd_tree(site)
    before = tree_of(site.root)
    times = {name: (session / name).stat().st_mtime_ns for name in (".", "empty", "deep")}

    result = run(site)

    assert result.errors == {}
    assert result.deleted_sessions == [session.name]
    restored = restore(site, Path(result.archives[session.name]))
    assert restored == session
    assert visible(site) == before
    assert {name: (session / name).stat().st_mtime_ns for name in times} == times


def test_holes_take_no_room_when_they_come_back(site: Site) -> None:
    session = site.root / site.add(age_hours=30)
    with open(session / "sparse", "wb") as sparse:
        sparse.seek(64 << 20)
        sparse.write(b"end")

    restored = restore(site, Path(run(site).archives[session.name]))

    status = (restored / "sparse").stat()
    assert status.st_size == (64 << 20) + 3
    assert status.st_blocks * 512 < 8 << 20


def test_set_id_and_sticky_bits_do_not_come_back(site: Site) -> None:
    """A restored file belongs to whoever restores it, who never said that others may be them."""
    session = site.root / site.add(age_hours=30)
    (session / "data.txt").chmod(0o6755)
    (session / "deep").chmod(0o3777)

    restored = restore(site, Path(run(site).archives[session.name]))

    assert stat.S_IMODE((restored / "data.txt").stat().st_mode) == 0o755
    assert stat.S_IMODE((restored / "deep").stat().st_mode) == 0o777


def test_a_socket_is_left_out(site: Site) -> None:
    session = site.root / site.add(age_hours=30)
    here = os.open(session, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/socket")
    os.close(here)
    before = tree_of(session)

    restored = restore(site, Path(run(site).archives[session.name]))

    assert tree_of(restored) == outside_of(before, ["socket"])


@pytest.mark.skipif(os.geteuid() != 0, reason="making a device takes root")
def test_a_session_with_a_device_is_kept(site: Site) -> None:
    session = site.root / site.add(age_hours=30)
    other = site.add(age_hours=30)
    os.mknod(session / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    before = below(tree_of(site.root), session.name)

    result = run(site)

    assert result.deleted_sessions == [other]
    assert "device" in result.errors[session.name]
    assert below(visible(site), session.name) == before
    assert len(os.listdir(site.top / "archives")) == 2


def test_a_session_that_is_nested_too_deep_is_kept(site: Site) -> None:
    session = site.root / site.add(age_hours=30)
    fd = os.open(session, os.O_RDONLY)
    for _ in range(450):
        os.mkdir("d", dir_fd=fd)
        below_fd = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below_fd
    os.close(fd)

    result = run(site)

    assert result.deleted_sessions == []
    assert "deeper than 400" in result.errors[session.name]
    assert os.listdir(site.top / "archives") == []


def test_any_tool_reads_the_archive(site: Site) -> None:
    """The checksum is sha256sum's; the content is a plain tar in plain zstd."""
    name = site.add(age_hours=30)
    path = Path(run(site).archives[name])
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", f"{path.name}.sha256"],
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with tarfile.open(fileobj=io.BytesIO(zstd.decompress(path.read_bytes()))) as tar:
        first, *rest = tar.getnames()
        about = tar.extractfile(first)
        assert about is not None
        fields = json.load(about)
    assert rest[0] == name
    assert f"{name}/deep/er/file" in rest
    assert fields == {
        "format": 1,
        "kind": "sandbox",
        "session_id": name,
        "dated_at": "2026-02-28T03:30:00+00:00",
        "archived_at": "2026-03-01T09:30:00+00:00",
        "state": None,
    }


def test_archives_are_this_users_alone(site: Site) -> None:
    run_on = site.add(age_hours=30)
    path = Path(run(site).archives[run_on])
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for one in path.parent.iterdir():
        assert stat.S_IMODE(one.stat().st_mode) == 0o600


def test_the_archive_is_durable_before_the_session_is_announced(site: Site) -> None:
    name = site.add(age_hours=30)
    path = Path(run(site).archives[name])
    steps = site.steps(site.top)
    renamed = steps.index(f"rename archives/{path.name}")
    assert any(step.startswith(f"fsync archives/.{path.name}") for step in steps[:renamed])
    assert f"fsync archives/{path.name}.sha256" in steps[:renamed]
    synced = steps.index("fsync archives", renamed)
    announced = steps.index("writev root/.prune/audit.jsonl")
    assert synced < announced


def test_the_audit_log_says_where_the_archive_is(site: Site) -> None:
    name = site.add(age_hours=30)
    path = run(site).archives[name]
    assert site.audit()[0]["archive"] == path


def test_the_archive_is_found_from_any_directory(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads the audit log stands elsewhere than who gave a relative path."""
    name = site.add(age_hours=30)
    monkeypatch.chdir(site.top)
    result = run(site, directory=Path("kept"))
    assert Path(result.archives[name]).parent == site.top / "kept"


@pytest.mark.parametrize("level", [0, 20, -1, True])
def test_what_is_no_level_is_refused(tmp_path: Path, level: int) -> None:
    with pytest.raises(ValueError, match="level"):
        TarArchiver(directory=tmp_path, level=level)


@pytest.mark.parametrize("level", [1, 19])
def test_every_level_can_be_read_back(site: Site, level: int) -> None:
    name = site.add(age_hours=30)
    before = tree_of(site.root)
    restore(site, Path(run(site, level=level).archives[name]))
    assert visible(site) == before


# ---------------------------------------------------------------- what keeps the session


@pytest.mark.parametrize("operation", ["open", "writev", "fsync", "rename", "pread", "listdir"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_fault_while_archiving_leaves_nothing_of_it_and_keeps_the_session(
    site: Site, operation: str, number: int
) -> None:
    name = site.add(age_hours=30)
    (site.top / "archives").mkdir()
    whole = below(tree_of(site.root), name)

    def in_archives(call: Call) -> bool:
        return call.operation == operation and "/archives" in call.path

    tried = 0
    for nth in range(100):
        left = nth

        def plan(_: int, call: Call) -> int | None:
            nonlocal left
            if not in_archives(call):
                return None
            left -= 1
            return number if left == -1 else None

        site.fs.begin(plan)
        result = run(site)
        if not site.fs.failed:
            break
        tried += 1
        site.fs.begin()
        assert result.deleted_sessions == [], site.fs.failed
        assert "could not be archived, so it was kept" in result.errors[name]
        assert below(visible(site), name) == whole
        assert os.listdir(site.top / "archives") == []
        assert result.archives == {}
    if operation != "listdir":
        assert tried >= 1
    assert result.deleted_sessions == [name]


@pytest.mark.parametrize("nth", range(6))
def test_a_fault_while_reading_the_session_keeps_it(site: Site, nth: int) -> None:
    name = site.add(age_hours=30)
    whole = below(tree_of(site.root), name)
    run(site, directory=site.top / "first")
    site.fs.begin()
    restore(site, next((site.top / "first").glob("*.zst")))
    left = nth

    def plan(_: int, call: Call) -> int | None:
        nonlocal left
        if call.operation != "pread" or f"{name}/" not in call.path or "metadata" in call.path:
            return None
        left -= 1
        return errno.EIO if left == -1 else None

    site.fs.begin(plan)
    result = run(site)
    if site.fs.failed:
        assert result.deleted_sessions == []
        assert below(visible(site), name) == whole
        assert os.listdir(site.top / "archives") == []


class Rotten(OsFileSystem):
    """A disk that gives back other bytes of an archive than it was given."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}

    def open(self, path: str, flags: int, mode: int = 0o600, *, dir_fd: int | None = None) -> int:  # type: ignore[override]
        fd = os.open(path, flags, mode, dir_fd=dir_fd)
        self.names[fd] = path
        return fd

    def pread(self, fd: int, length: int, offset: int) -> bytes:  # type: ignore[override]
        data = bytearray(os.pread(fd, length, offset))
        if ".tar.zst" in self.names.get(fd, "") and len(data) > 10:
            data[len(data) // 2] ^= 4
        return bytes(data)


def test_what_can_not_be_read_back_as_it_was_written_keeps_the_session(site: Site) -> None:
    name = site.add(age_hours=30)
    whole = below(tree_of(site.root), name)
    site.fs = FaultyFileSystem(real=Rotten())

    result = run(site)

    assert result.deleted_sessions == []
    assert "not what was written" in result.errors[name]
    assert below(visible(site), name) == whole
    assert os.listdir(site.top / "archives") == []


@pytest.mark.parametrize("change", ["shorter", "gone", "swapped"])
def test_a_session_that_changes_while_it_is_archived_is_kept_or_archived_whole(
    site: Site, change: str
) -> None:
    name = site.add(age_hours=30)
    path = site.root / name / "data.txt"
    done = False

    def meddle(call: Call) -> None:
        nonlocal done
        if done or call.operation != "pread" or not call.path.endswith("data.txt"):
            return
        done = True
        if change == "shorter":
            os.truncate(path, 10)
        elif change == "gone":
            path.unlink()
        else:
            path.unlink()
            path.symlink_to(site.beside / "file")

    site.fs.before = meddle
    result = run(site)

    assert done
    if change == "shorter":
        assert result.deleted_sessions == []
        assert "could not be archived" in result.errors[name]
        assert os.listdir(site.top / "archives") == []
    else:
        restored = restore(site, Path(result.archives[name]))
        assert (restored / "data.txt").read_bytes() == b"x" * 100


def test_two_archives_of_one_session_in_one_second_do_not_mix(site: Site) -> None:
    name = site.add(age_hours=30)
    path = Path(run(site).archives[name])
    restore(site, path)
    before = tree_of(site.top / "archives")

    result = run(site)

    assert result.deleted_sessions == [name]
    after = tree_of(site.top / "archives")
    assert {one: after[one] for one in before} == before
    assert len(os.listdir(site.top / "archives")) == 4
    assert Path(result.archives[name]) != path


def test_a_checksum_of_somebody_else_is_not_taken_away(site: Site) -> None:
    """It came between the look and the write: the archive is given up, not the file."""
    name = site.add(age_hours=30)
    path = site.top / "archives" / f"sandbox-{name}-20260301T093000Z.tar.zst.sha256"

    def plant(call: Call) -> None:
        if call.operation == "open" and call.path == str(path):
            path.write_text("somebody's")

    site.fs.before = plant
    result = run(site)

    assert result.deleted_sessions == []
    assert path.read_text() == "somebody's"
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("where", [".", "archives", "deep/er"])
def test_a_session_is_not_archived_into_itself(site: Site, where: str) -> None:
    """The archive would go with it."""
    first, second = site.add(age_hours=31), site.add(age_hours=30)
    before = tree_of(site.root)

    result = run(site, directory=site.root / second / where)

    assert result.deleted_sessions == [first]
    assert "in the session" in result.errors[second]
    kept = below(visible(site), second)
    new = {name for name in kept if name not in before}
    assert len([name for name in new if name.endswith((".zst", ".sha256"))]) == 2
    assert {name: what for name, what in kept.items() if name not in new} == below(before, second)


@pytest.mark.parametrize("where", ["root/.prune/going", "root/.prune/coming/kept", "link"])
def test_nothing_is_archived_where_the_next_prune_deletes(site: Site, where: str) -> None:
    old = site.add(age_hours=30)
    (site.top / "link").symlink_to(site.private / "going" / "kept")

    result = run(site, directory=site.top / where)

    assert result.deleted_sessions == []
    assert "is in .prune of a root" in result.errors[old]
    assert site.sessions() == [old]


@pytest.mark.parametrize("plant", [Path.touch, os.mkfifo, lambda path: path.symlink_to("nowhere")])
def test_an_archive_directory_that_is_none_keeps_everything(
    site: Site, plant: Callable[[Path], None]
) -> None:
    names = [site.add(age_hours=30), site.add(age_hours=30)]
    plant(site.top / "archives")
    before = tree_of(site.root)

    result = run(site)

    assert result.deleted_sessions == []
    assert sorted(result.errors) == names
    assert visible(site) == before


# ---------------------------------------------------------------- what is restored, and where


def archived(site: Site) -> Path:
    """Archive a session of the id `SID`, which is gone afterwards."""
    site.add(age_hours=30, session_id=SID)
    return Path(run(site).archives[SID])


def test_a_session_whose_name_is_taken_is_not_restored(site: Site) -> None:
    path = archived(site)
    (site.root / SID).symlink_to("nowhere")
    before = tree_of(site.top)
    with pytest.raises(SessionInTheWay) as caught:
        restore(site, path)
    assert caught.value.session_id == SID
    assert tree_of(site.top) == before


def test_a_root_that_is_missing_or_none(site: Site) -> None:
    path = archived(site)
    (site.top / "file").touch()
    for name, kind in (("missing", PruneRootMissing), ("file", PruneRootUnusable)):
        with pytest.raises(kind):
            restore_archive(path, SandboxTarget(site.top / name), outside=site.outside())


def test_an_archive_of_another_kind_is_refused(site: Site) -> None:
    path = archived(site)
    before = visible(site)
    with pytest.raises(InvalidArchive, match="'sandbox' session"):
        restore_archive(path, HarnessTarget(site.root), outside=site.outside())
    assert visible(site) == before


def test_an_archive_may_have_another_name(site: Site) -> None:
    path = archived(site)
    moved = path.with_name("x")
    path.rename(moved)
    path.with_name(f"{path.name}.sha256").rename(path.with_name("x.sha256"))
    assert restore(site, moved) == site.root / SID


@pytest.mark.parametrize("operation", ["open", "mkdir", "writev", "fsync", "rename", "flock"])
def test_a_restore_that_fails_leaves_nothing(site: Site, operation: str) -> None:
    path = archived(site)
    before = visible(site)
    tried = 0
    for nth in range(100):
        site.fs.begin(nth_of(operation, nth, errno.EIO))
        try:
            restore(site, path)
        except PruneError:
            tried += 1
            site.fs.begin()
            assert visible(site) == before, (operation, nth)
            continue
        if not site.fs.failed:
            break
    assert tried >= 1
    assert (site.root / SID).is_dir()


def test_half_a_restored_session_is_dropped_by_the_next_prune(site: Site) -> None:
    path = archived(site)
    (site.private / "coming" / "0123" / "deep").mkdir(parents=True)
    (site.private / "coming" / "0123" / "link").symlink_to(site.beside)
    run(site)
    assert site.hidden("coming") == []
    assert restore(site, path).is_dir()


# ---------------------------------------------------------------- damage


def reseal(path: Path) -> None:
    """Give an archive a checksum that is right."""
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_name(f"{path.name}.sha256").write_text(f"{checksum}  {path.name}\n")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a byte": flip,
    "its end": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "all": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(b"garbage" * 99),
    "more": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "gzip": lambda path: path.write_bytes(b"\x1f\x8b" + bytes(50)),
    "zeros": lambda path: path.write_bytes(zstd.compress(bytes(10_240))),
    "empty frame": lambda path: path.write_bytes(zstd.compress(b"")),
}


@pytest.mark.parametrize("sealed", [False, True], ids=["as it is", "with its checksum"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_archive_is_refused(site: Site, damage: str, sealed: bool) -> None:
    path = archived(site)
    DAMAGES[damage](path)
    if sealed:
        reseal(path)
    before = visible(site)
    with pytest.raises(InvalidArchive) as caught:
        restore(site, path)
    assert caught.value.path == path
    assert str(path) in str(caught.value)
    assert visible(site) == before


def checksum_of_another(path: Path) -> None:
    path.write_text(f"{hashlib.sha256(b'other').hexdigest()}  x\n")


CHECKSUMS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "empty": Path.touch,
    "garbage": lambda path: path.write_bytes(b"\xff" * 100),
    "short": lambda path: path.write_text("abc  x\n"),
    "another's": checksum_of_another,
    "a directory": Path.mkdir,
    "a fifo": os.mkfifo,
    "dangling": lambda path: path.symlink_to("nowhere"),
    "endless": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", CHECKSUMS)
@pytest.mark.timeout(60)
def test_an_archive_without_its_checksum_is_refused(site: Site, kind: str) -> None:
    path = archived(site)
    beside = path.with_name(f"{path.name}.sha256")
    beside.unlink()
    CHECKSUMS[kind](beside)
    before = visible(site)
    with pytest.raises(InvalidArchive):
        restore(site, path)
    assert visible(site) == before


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["missing", "a directory", "a fifo", "dangling", "null", "long"])
def test_what_is_no_archive_at_all(site: Site, kind: str) -> None:
    path = site.top / {"null": "a\0b", "long": "n" * 300}.get(kind, "x")
    plant = CHECKSUMS.get(kind)
    if plant is not None:
        plant(path)
    with pytest.raises(InvalidArchive) as caught:
        restore(site, path)
    assert caught.value.path == path
    assert visible(site) == {}


# ---------------------------------------------------------------- archives that somebody made


ABOUT = {"format": 1, "kind": "sandbox", "session_id": SID}
Member = tuple[str, bytes, dict[str, Any]]


def regular(name: str, content: bytes = b"x", **fields: Any) -> Member:
    return (name, content, fields)


def directory(name: str, **fields: Any) -> Member:
    return (name, b"", {"type": tarfile.DIRTYPE, "mode": 0o700, **fields})


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Member:
    return (name, b"", {"type": kind, "linkname": target})


def made(site: Site, *members: Member, about: object = ABOUT, raw: bytes | None = None) -> Path:
    """Write an archive by hand, with a checksum that is right."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        content = about if isinstance(about, bytes) else json.dumps(about).encode()
        for name, data, fields in ((".agentforge-archive.json", content, {}), *members):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
    path = site.top / "made.tar.zst"
    path.write_bytes(zstd.compress(plain.getvalue() if raw is None else raw))
    reseal(path)
    return path


TOP = directory(SID)
HOSTILE: dict[str, list[Member]] = {
    "climbs": [TOP, regular(f"{SID}/../x")],
    "climbs at once": [TOP, regular("../x")],
    "absolute": [TOP, regular("/tmp/x")],
    "absolute below": [TOP, regular(f"/{SID}/x")],
    "another session's": [TOP, regular(f"{uuid_of(2)}/x")],
    "the root's": [TOP, regular("x")],
    "the private directory's": [TOP, regular(".prune/pins/x")],
    "an empty part": [TOP, regular(f"{SID}//x")],
    "a dot": [TOP, regular(f"{SID}/./x")],
    "no name": [TOP, regular("")],
    "a file twice": [TOP, regular(f"{SID}/x"), regular(f"{SID}/x", b"other")],
    "a directory twice": [TOP, directory(f"{SID}/x"), directory(f"{SID}/x")],
    "a link, then a file": [TOP, link(f"{SID}/x", "/tmp/y"), regular(f"{SID}/x")],
    "a file in a file": [TOP, regular(f"{SID}/x"), regular(f"{SID}/x/y")],
    "a directory in a file": [TOP, regular(f"{SID}/x"), directory(f"{SID}/x/y")],
    "a file through a link": [TOP, link(f"{SID}/l", "../../../../beside"), regular(f"{SID}/l/y")],
    "a directory through a link": [TOP, link(f"{SID}/l", ".."), directory(f"{SID}/l/y")],
    "a directory that became a link": [
        TOP,
        directory(f"{SID}/d"),
        link(f"{SID}/d", "../../../../beside"),
    ],
    "a file in no directory": [TOP, regular(f"{SID}/missing/x")],
    "a hard link": [TOP, link(f"{SID}/x", "/etc/passwd", tarfile.LNKTYPE)],
    "a hard link inside": [TOP, regular(f"{SID}/x"), link(f"{SID}/y", f"{SID}/x", tarfile.LNKTYPE)],
    "a character device": [TOP, (f"{SID}/x", b"", {"type": tarfile.CHRTYPE, "devmajor": 1})],
    "a block device": [TOP, (f"{SID}/x", b"", {"type": tarfile.BLKTYPE, "devmajor": 8})],
    "a name that is too long": [TOP, regular(f"{SID}/{'n' * 300}")],
    "a link to nothing": [TOP, link(f"{SID}/x", "")],
    "a link that is too long": [TOP, link(f"{SID}/x", "x" * 5_000)],
    "a file for a session": [regular(SID)],
    "a link for a session": [link(SID, "../../beside")],
    "a device for a session": [(SID, b"", {"type": tarfile.CHRTYPE})],
    "nothing": [],
    "no time": [TOP, regular(f"{SID}/x", pax_headers={"mtime": "nan"})],
    "an endless time": [TOP, regular(f"{SID}/x", pax_headers={"mtime": "inf"})],
    "a time out of range": [TOP, regular(f"{SID}/x", pax_headers={"mtime": "1e300"})],
    "a time beyond every clock": [TOP, directory(f"{SID}/x", pax_headers={"mtime": "9" * 30})],
    "a size below zero": [TOP, regular(f"{SID}/x", pax_headers={"size": "-1024"})],
    "a size far too large": [TOP, regular(f"{SID}/x", pax_headers={"size": "9" * 30})],
    "a sparse map that is none": [
        TOP,
        regular(f"{SID}/x", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}),
    ],
    "a sparse size that is none": [
        TOP,
        regular(f"{SID}/x", pax_headers={"GNU.sparse.size": "x", "GNU.sparse.map": "1,y"}),
    ],
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.timeout(60)
def test_an_archive_that_would_do_more_than_restore_its_session_is_refused(
    site: Site, case: str
) -> None:
    site.add(age_hours=1, session_id=uuid_of(2))
    path = made(site, *HOSTILE[case])
    before = tree_of(site.top)

    with pytest.raises(InvalidArchive) as caught:
        restore(site, path)

    assert caught.value.path == path
    assert outside_of(tree_of(site.top), ["root/.prune"]) == before
    assert site.hidden("coming") == []


ABOUTS: dict[str, object] = {
    "no json": b"{",
    "no utf-8": b"\xff\xfe",
    "deep": b"[" * 60_000,
    "a list": [],
    "nothing": None,
    "no format": {"kind": "sandbox", "session_id": SID},
    "a later format": {**ABOUT, "format": 2},
    "no kind": {"format": 1, "session_id": SID},
    "another kind": {**ABOUT, "kind": "harness"},
    "no id": {"format": 1, "kind": "sandbox"},
    "no text": {**ABOUT, "session_id": 3},
    "a path": {**ABOUT, "session_id": "../x"},
    "an absolute path": {**ABOUT, "session_id": "/tmp/x"},
    "the private directory": {**ABOUT, "session_id": ".prune"},
    "upper case": {**ABOUT, "session_id": "A" + SID[1:]},
    "too large": b'{"format": 1, "x": "' + b"y" * 70_000 + b'"}',
    "another session": {**ABOUT, "session_id": uuid_of(3)},
}


@pytest.mark.parametrize("case", ABOUTS)
def test_an_archive_that_says_nonsense_of_itself_is_refused(site: Site, case: str) -> None:
    path = made(site, TOP, regular(f"{SID}/x"), about=ABOUTS[case])
    with pytest.raises(InvalidArchive):
        restore(site, path)
    assert visible(site) == {}


def test_an_archive_of_something_else_is_refused(site: Site) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        info = tarfile.TarInfo(f"{SID}/x")
        tar.addfile(info)
    with pytest.raises(InvalidArchive, match="no archive of a session"):
        restore(site, made(site, raw=plain.getvalue()))


def test_links_come_back_and_nothing_goes_through_them(site: Site) -> None:
    path = made(
        site,
        TOP,
        link(f"{SID}/absolute", str(site.beside)),
        link(f"{SID}/climbing", "../../beside/file"),
        directory(f"{SID}/d", mode=0o000),
        regular(f"{SID}/d/x", mode=0o4755),
    )
    restored = restore(site, path)
    assert os.readlink(restored / "absolute") == str(site.beside)
    assert os.readlink(restored / "climbing") == "../../beside/file"
    assert stat.S_IMODE((restored / "d" / "x").lstat().st_mode) == 0o755


def test_an_archive_that_is_larger_than_the_disk_leaves_nothing(site: Site) -> None:
    path = made(site, TOP, regular(f"{SID}/x", b"y" * 3_000_000))
    site.fs.begin(nth_of("writev", 1, errno.ENOSPC))
    with pytest.raises(PruneRootUnusable, match="No space left"):
        restore(site, path)
    site.fs.begin()
    assert visible(site) == {}


def test_thousands_of_levels_need_no_recursion(site: Site) -> None:
    names = [SID + "/d" * depth for depth in range(1, 1_000)]
    path = made(site, TOP, *(directory(name) for name in names))
    with pytest.raises(InvalidArchive, match="deeper than 400"):
        restore(site, path)
    assert visible(site) == {}
    assert restore(site, made(site, TOP, *(directory(name) for name in names[:150]))).is_dir()


def test_what_came_back_goes_again_by_its_age(site: Site) -> None:
    path = archived(site)
    restore(site, path)
    site.clock.advance(1)
    assert run(site, grace=timedelta(days=1)).deleted_sessions == [SID]


def test_an_archive_that_holds_other_files_than_the_session_is_not_believed(site: Site) -> None:
    """Even where every byte of it is what was written."""
    path = archived(site)
    archiver = TarArchiver(directory=path.parent)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    with tarfile.open(fileobj=io.BytesIO(zstd.decompress(path.read_bytes()))) as tar:
        sums = {
            member.name: "directory"
            if member.isdir()
            else hashlib.sha256(tar.extractfile(member).read()).hexdigest()  # type: ignore[union-attr]
            for member in tar.getmembers()[1:]
        }
    fd = os.open(path.parent, os.O_RDONLY)
    try:
        archiver._verify(site.fs, fd, path.name, sums, checksum)
        for wrong in (
            {**sums, f"{SID}/data.txt": "0" * 64},
            {**sums, f"{SID}/more": "directory"},
            {name: text for name, text in sums.items() if not name.endswith("data.txt")},
        ):
            with pytest.raises(OSError, match="not those of the session"):
                archiver._verify(site.fs, fd, path.name, wrong, checksum)
    finally:
        os.close(fd)


# ---------------------------------------------------------------- what a killed writer left

STEM = f"sandbox-{uuid_of(7)}-20260101T000000Z"


def leave(archives: Path, name: str, content: bytes = b"half") -> Path:
    archives.mkdir(exist_ok=True)
    (archives / name).write_bytes(content)
    return archives / name


def checksum_of_archive(name: str) -> bytes:
    return f"{'0' * 64}  {name}\n".encode()


def test_what_a_killed_writer_left_is_taken_away_by_the_next_run(site: Site) -> None:
    archives = site.top / "archives"
    leave(archives, f".{STEM}.tar.zst.00c0ffee")
    leave(archives, f"{STEM}.tar.zst.sha256", checksum_of_archive(f"{STEM}.tar.zst"))
    leave(archives, f"{STEM}-2.tar.zst.sha256", b"")
    name = site.add(age_hours=30)
    result = run(site)
    assert result.deleted_sessions == [name]
    made = Path(result.archives[name]).name
    assert sorted(os.listdir(archives)) == [made, f"{made}.sha256"]


def test_a_writer_that_lives_keeps_what_it_has_begun(site: Site) -> None:
    archives = site.top / "archives"
    begun = leave(archives, f".{STEM}.tar.zst.00c0ffee")
    dead = leave(archives, f".{STEM}.tar.zst.0badcafe")
    its = leave(archives, f"{STEM}.tar.zst.sha256", checksum_of_archive(f"{STEM}.tar.zst"))
    site.add(age_hours=30)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, os.fspath(begun)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        run(site)
        assert begun.exists()
        assert its.exists()
        assert not dead.exists()
    finally:
        holder.kill()
        holder.communicate()
    site.add(age_hours=30)
    run(site)
    assert not begun.exists()
    assert not its.exists()


HOLD = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_nothing_else_is_swept(site: Site) -> None:
    archives = site.top / "archives"
    leave(archives, f".{STEM}.tar.zst.00c0ffee")
    others = [
        leave(archives, name, content)
        for name, content in {
            ".hidden": b"",
            ".other.tar.zst.00c0ffee": b"",
            f".{STEM}.tar.zst.swp": b"",
            f".{STEM}.tar.zst": b"",
            f"{STEM}.tar.zst.00c0ffee": b"",
            f"{STEM}-2.tar.zst": b"an archive",
            f"{STEM}-2.tar.zst.sha256": checksum_of_archive(f"{STEM}-2.tar.zst"),
            f"{STEM}-3.tar.zst.sha256": b"somebody's",
            f"{STEM}x.tar.zst.sha256": checksum_of_archive(f"{STEM}x.tar.zst"),
            f"other-{STEM}.tar.zst.sha256": checksum_of_archive(f"other-{STEM}.tar.zst"),
        }.items()
    ]
    (archives / f".{STEM}.tar.zst.0d").mkdir()
    (archives / f".{STEM}.tar.zst.0e").symlink_to(site.beside / "file")
    os.mkfifo(archives / f".{STEM}.tar.zst.0f")
    before = tree_of(archives)
    name = site.add(age_hours=30)
    made = Path(run(site).archives[name]).name
    after = tree_of(archives)
    assert after.pop(made)
    assert after.pop(f"{made}.sha256")
    assert before.pop(f".{STEM}.tar.zst.00c0ffee")
    assert after == before
    assert all(one.exists() for one in others)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away takes root")
def test_what_another_user_left_stays(site: Site) -> None:
    archives = site.top / "archives"
    theirs = leave(archives, f".{STEM}.tar.zst.00c0ffee")
    os.chown(theirs, 12345, -1)
    site.add(age_hours=30)
    run(site)
    assert theirs.exists()


def test_a_directory_is_swept_once_for_each_archiver(site: Site) -> None:
    archives = site.top / "archives"
    archives.mkdir()
    for _ in range(3):
        site.add(age_hours=30)
    run(site)
    listings = [call for call in site.fs.trace if call.operation == "listdir"]
    assert [call.path for call in listings if call.path.endswith("archives")] == [str(archives)]


def test_an_archive_that_is_swept_while_it_is_begun_is_begun_again(site: Site) -> None:
    """The sweeper opened it before its writer could lock it."""
    archives = site.top / "archives"
    archives.mkdir()
    taken: list[str] = []
    name = site.add(age_hours=30)

    def sweep_first(call: Call) -> None:
        if call.operation == "flock" and "/archives/." in call.path and len(taken) < 2:
            taken.append(call.path)
            os.unlink(call.path)

    site.fs.before = sweep_first
    result = run(site)
    assert len(taken) == 2
    assert result.deleted_sessions == [name]
    made = Path(result.archives[name]).name
    assert sorted(os.listdir(archives)) == [made, f"{made}.sha256"]
    assert restore(site, Path(result.archives[name])).name == name


def test_an_archive_that_is_always_taken_away_keeps_the_session(site: Site) -> None:
    name = site.add(age_hours=30)

    def sweep_first(call: Call) -> None:
        if call.operation == "flock" and "/archives/." in call.path:
            os.unlink(call.path)

    site.fs.before = sweep_first
    result = run(site)
    assert result.deleted_sessions == []
    assert "takes away" in result.errors[name]


def test_where_files_can_not_be_locked_archives_are_written_and_nothing_is_swept(
    site: Site,
) -> None:
    archives = site.top / "archives"
    left = leave(archives, f".{STEM}.tar.zst.00c0ffee")
    name = site.add(age_hours=30)
    site.fs.plan = lambda _, call: (
        errno.ENOLCK if call.operation == "flock" and "/archives/" in call.path else None
    )
    assert run(site).deleted_sessions == [name]
    assert left.exists()
