"""The journal of an apply: read as it was written, or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.repository.apply.apply_errors import JournalDamaged
from agentforge_sessions.repository.apply.apply_journal import (
    JOURNAL,
    ApplyRecord,
    RefChange,
    decode_record,
    encode_record,
    open_journal,
    remove_journal,
    sweep_journals,
    write_journal,
)
from agentforge_sessions.repository.apply.checkout_files import (
    ABSENT,
    EntryKind,
    PathState,
    PlannedPath,
    look_at,
)

RECORD = ApplyRecord(
    token="0123abcd",
    label="session x",
    checkout="/somewhere/\udcff",
    head="1" * 40,
    branch="refs/heads/main",
    paths=(PlannedPath(b"new\nline\xff", ABSENT, PathState(EntryKind.FILE, 0o644, "ab", 5)),),
    folders={b"a\xff": 0o755, b"new": None},
    index_before=None,
    index_after="cd",
    index_mode=0o644,
    pack="pack-1",
    ref=RefChange(None, "2" * 40),
)
PATHS = st.binary(min_size=1, max_size=20).filter(lambda one: b"\0" not in one)


@given(path=PATHS, folder=PATHS, mode=st.integers(0, 0o7777), pack=st.none() | st.text())
def test_a_record_is_read_as_it_was_written(
    path: bytes, folder: bytes, mode: int, pack: str | None
) -> None:
    standing = PathState(EntryKind.FILE, mode, "00", 1 << 62)
    record = evolve(
        RECORD,
        paths=(PlannedPath(path, standing, ABSENT),),
        folders={folder: mode},
        pack=pack,
        ref=None,
    )
    assert decode_record(encode_record(record)) == record
    assert decode_record(encode_record(RECORD)) == RECORD


@given(st.data())
def test_a_record_with_a_changed_byte_is_refused(data: st.DataObject) -> None:
    content = bytearray(encode_record(RECORD))
    position = data.draw(st.integers(0, len(content) - 2))
    content[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError):
        decode_record(bytes(content))


def test_a_record_of_a_later_release_is_refused() -> None:
    import hashlib

    body = encode_record(RECORD).partition(b"\n")[2].replace(b'"format": 1', b'"format": 2')
    digest = hashlib.sha256(body.removesuffix(b"\n")).hexdigest().encode()
    with pytest.raises(ValueError, match="another release"):
        decode_record(digest + b"\n" + body)


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, int]:
    """A git directory with a journal; a file is replaced, another made."""
    fs = OsFileSystem()
    git_dir, before, after = (tmp_path / name for name in ("git", "before", "after"))
    for folder in (git_dir, before, after):
        folder.mkdir()
    (before / "x").write_text("old")
    (after / "x").write_text("new")
    os.symlink("target", after / "link")

    def standing(folder: Path, name: str) -> PathState:
        fd = os.open(folder, os.O_RDONLY)
        found, _ = look_at(fs, fd, name.encode())
        os.close(fd)
        return found

    record = evolve(
        RECORD,
        paths=tuple(
            PlannedPath(name.encode(), standing(before, name), standing(after, name))
            for name in ("x", "link")
        ),
        pack=None,
        index_after=None,
        ref=None,
    )
    fd = os.open(git_dir, os.O_RDONLY)
    write_journal(
        fs, fd, record, before=before, after=after, index_before=None, index_after=None, pack={}
    )
    return git_dir, fd


def test_contents_are_read_back(written: tuple[Path, int]) -> None:
    git_dir, fd = written
    journal = open_journal(OsFileSystem(), fd, git_dir)
    assert journal is not None
    assert journal.content(0, after=False) == b"old"
    assert journal.content(0, after=True) == b"new"
    assert journal.content(1, after=True) == b"target"
    journal.close()
    assert [path.name for path in git_dir.iterdir()] == [JOURNAL]


@pytest.mark.parametrize("content", [None, b"nEw", b""])
def test_a_damaged_content_is_refused(written: tuple[Path, int], content: bytes | None) -> None:
    git_dir, fd = written
    kept = git_dir / JOURNAL / "after" / "000000"
    kept.unlink()
    if content is not None:
        kept.write_bytes(content)
    journal = open_journal(OsFileSystem(), fd, git_dir)
    assert journal is not None
    with pytest.raises(JournalDamaged) as caught:
        journal.content(0, after=True)
    assert caught.value.journal == git_dir / JOURNAL


@pytest.mark.parametrize("content", [None, b"", b"{}", b"x\n{}\n"])
def test_a_damaged_record_is_refused(written: tuple[Path, int], content: bytes | None) -> None:
    git_dir, fd = written
    record = git_dir / JOURNAL / "journal.json"
    record.unlink()
    if content is not None:
        record.write_bytes(content)
    with pytest.raises(JournalDamaged):
        open_journal(OsFileSystem(), fd, git_dir)


def test_a_removed_journal_is_not_there(written: tuple[Path, int]) -> None:
    git_dir, fd = written
    remove_journal(OsFileSystem(), fd, git_dir, "0123abcd")
    assert open_journal(OsFileSystem(), fd, git_dir) is None
    assert not list(git_dir.iterdir())


def test_what_a_killed_process_left_is_swept(written: tuple[Path, int]) -> None:
    git_dir, fd = written
    (git_dir / JOURNAL).rename(git_dir / ".discarded-new-0123abcd")
    (git_dir / "HEAD").write_text("kept")
    sweep_journals(OsFileSystem(), fd, git_dir)
    assert [path.name for path in git_dir.iterdir()] == ["HEAD"]
