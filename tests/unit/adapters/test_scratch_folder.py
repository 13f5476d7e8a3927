"""What gates of killed processes leave, and which of it goes."""

from __future__ import annotations

import errno
import os
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest

from agentforge_sessions.agents.running.scratch_folder import (
    ABANDONED_AFTER,
    PREFIX,
    gate_directory,
    remove_abandoned,
    scratch_folder,
)
from agentforge_sessions.base.clock import utc_now
from agentforge_sessions.base.files.file_lock import DirectoryLock
from agentforge_sessions.base.files.filesystem import OsFileSystem
from tests.support.clock import FakeClock
from tests.support.filesystem import FaultyFileSystem, nth_of


@pytest.fixture
def later() -> FakeClock:
    return FakeClock(utc_now() + ABANDONED_AFTER + timedelta(minutes=1))


def left_behind(parent: Path, name: str = f"{PREFIX}killed") -> Path:
    directory = parent / name
    (directory / "workspace" / "tests").mkdir(parents=True)
    (directory / "workspace" / "tests" / "test_it.py").write_text("assert True")
    return directory


def test_a_directory_whose_process_was_killed_goes(tmp_path: Path, later: FakeClock) -> None:
    directory = left_behind(tmp_path)
    assert remove_abandoned(tmp_path, clock=later) == [directory]
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_removes_those_of_killed_processes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    directory = left_behind(tmp_path)
    past = (utc_now() - ABANDONED_AFTER - timedelta(minutes=1)).timestamp()
    os.utime(directory, (past, past))
    with scratch_folder() as (folder, _):
        assert list(tmp_path.iterdir()) == [folder.parent]
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_was_just_made_stays(tmp_path: Path) -> None:
    directory = left_behind(tmp_path)
    assert remove_abandoned(tmp_path) == []
    assert (directory / "workspace" / "tests" / "test_it.py").exists()


def test_a_directory_in_which_a_gate_runs_stays(tmp_path: Path, later: FakeClock) -> None:
    directory = left_behind(tmp_path)
    with DirectoryLock(OsFileSystem(), directory):
        assert remove_abandoned(tmp_path, clock=later) == []
    assert directory.exists()


def test_the_directory_of_a_gate_is_locked_while_it_is_used(
    tmp_path: Path, later: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with gate_directory() as directory:
        assert directory.parent == tmp_path
        assert remove_abandoned(tmp_path, clock=later) == []
        assert directory.exists()
    assert not directory.exists()


def test_what_has_another_name_or_is_no_directory_stays(tmp_path: Path, later: FakeClock) -> None:
    elsewhere = left_behind(tmp_path, "elsewhere")
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    (tmp_path / f"{PREFIX}file").write_text("")
    before = sorted(tmp_path.rglob("*"))
    assert remove_abandoned(tmp_path, clock=later) == []
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a directory away")
def test_another_users_directory_stays(tmp_path: Path, later: FakeClock) -> None:
    directory = left_behind(tmp_path)
    os.chown(directory, 65534, 65534)
    assert remove_abandoned(tmp_path, clock=later) == []
    assert directory.exists()


def test_what_resists_is_left_and_keeps_none_of_the_others(
    tmp_path: Path, later: FakeClock
) -> None:
    resisting, other = left_behind(tmp_path), left_behind(tmp_path, f"{PREFIX}other")
    fs = FaultyFileSystem(plan=nth_of("rmdir", 1, errno.EIO))
    removed = remove_abandoned(tmp_path, fs=fs, clock=later)
    assert len(removed) == 1
    assert {path.exists() for path in (resisting, other)} == {True, False}


def test_where_there_is_no_directory_nothing_is_removed(tmp_path: Path) -> None:
    assert remove_abandoned(tmp_path / "missing") == []
