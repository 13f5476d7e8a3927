"""That what runs contained can write its folder, and nothing else."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.support.contained import contained


def write_inside_and_outside(folder: Path, outside: str) -> None:
    (folder / "made").mkdir()
    (folder / "made" / "file").write_text("inside\n")
    (folder / "moved").write_text("x")
    (folder / "moved").rename(folder / "renamed")
    with tempfile.NamedTemporaryFile() as temporary:
        assert Path(temporary.name).is_relative_to(folder)
    for attempt in (
        lambda: (Path(outside) / "new").write_text("x"),
        lambda: (Path(outside) / "canary").write_text("dead"),
        (Path(outside) / "canary").unlink,
        lambda: os.mkdir(Path(outside) / "directory"),
        lambda: os.rename(folder / "renamed", Path(outside) / "renamed"),
        lambda: shutil.rmtree(outside),
        lambda: os.mkdir("/agentforge-contained"),
        lambda: os.rmdir(folder.parent),
    ):
        with pytest.raises(OSError) as caught:
            attempt()
        assert caught.value.errno in {errno.EROFS, errno.EXDEV, errno.EBUSY}


def fail(folder: Path, number: int) -> None:
    assert number == 6, "the body's own words"


def skip(folder: Path) -> None:
    pytest.skip("for a reason of its own")


def test_only_the_folder_can_be_written(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "canary").write_text("alive")

    contained(write_inside_and_outside, folder, str(outside))

    assert (outside / "canary").read_text() == "alive"
    assert os.listdir(outside) == ["canary"]
    assert (folder / "made" / "file").read_text() == "inside\n"
    (outside / "mounts of this process are as they were").touch()


def test_a_body_that_fails_fails_the_test_with_its_traceback(tmp_path: Path) -> None:
    contained(fail, tmp_path, 6)
    with pytest.raises(pytest.fail.Exception, match="the body's own words"):
        contained(fail, tmp_path, 7)


def test_a_body_that_skips_skips_the_test(tmp_path: Path) -> None:
    with pytest.raises(pytest.skip.Exception, match="for a reason of its own"):
        contained(skip, tmp_path)
