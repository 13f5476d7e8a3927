"""What a directory that is built out of sight guarantees: whole under its name, or not there."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agentforge_sessions.base.files import FileSystem, OsFileSystem, try_lock
from agentforge_sessions.base.files.directory_store import NewDirectory
from agentforge_sessions.base.files.regular_file import create_file
from tests.support.filesystem import Call, FaultyFileSystem, every_call_from, nth_call, nth_of

HIDDEN = ".hidden"
CONTENT = {"one": b"1", "two": b"2" * 5000}


class Places:
    """A directory to build in and one to appear in; the same one, or two."""

    def __init__(self, built: Path, appears: Path) -> None:
        self.built = built
        self.appears = appears
        self.built_fd = os.open(built, os.O_RDONLY)
        self.appears_fd = os.open(appears, os.O_RDONLY)

    def make(self, fs: FileSystem, *, locked: bool = False) -> NewDirectory:
        """Make a directory with content under the name "made"."""
        new = NewDirectory(fs, self.built_fd, HIDDEN)
        self.last = new
        with new:
            if locked:
                new.lock()
            for name, content in CONTENT.items():
                create_file(fs, new.fd, name, [content])
            new.sync()
            new.appear("made", parent_fd=None if self.built == self.appears else self.appears_fd)
        return new

    @property
    def found(self) -> dict[str, bytes] | None:
        """What the directory holds under its name; None if it is not there."""
        made = self.appears / "made"
        if not made.exists():
            return None
        return {path.name: path.read_bytes() for path in made.iterdir()}

    def clear(self) -> None:
        for path in (self.appears / "made", self.built / HIDDEN):
            if path.exists():
                for file in path.iterdir():
                    file.unlink()
                path.rmdir()


@pytest.fixture(params=["in one directory", "from another directory"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Places]:
    appears = tmp_path / "appears"
    appears.mkdir()
    built = appears if request.param == "in one directory" else tmp_path / "built"
    built.mkdir(exist_ok=True)
    both = Places(built, appears)
    yield both
    os.close(both.built_fd)
    os.close(both.appears_fd)


def test_it_appears_with_all_that_was_built(places: Places) -> None:
    fs = FaultyFileSystem()
    new = places.make(fs)
    assert places.found == CONTENT
    assert (places.appears / "made").stat().st_mode & 0o777 == 0o700
    assert not (places.built / HIDDEN).exists()
    assert new.fd == -1
    assert fs.open_descriptors == {}


def test_all_of_it_is_synced_before_it_has_its_name_and_the_name_after(places: Places) -> None:
    fs = FaultyFileSystem()
    fs.names.update({places.built_fd: str(places.built), places.appears_fd: "appears"})
    if places.built == places.appears:
        fs.names[places.built_fd] = "appears"
    places.make(fs)
    syncs = [(call.operation, os.path.basename(call.path)) for call in fs.trace]
    syncs = [step for step in syncs if step[0] in {"fsync", "rename"}]
    assert syncs == [
        ("fsync", "one"),
        ("fsync", "two"),
        ("fsync", HIDDEN),
        ("rename", "made"),
        ("fsync", "appears"),
    ]


def test_a_block_that_ends_without_leaves_nothing(places: Places) -> None:
    fs = FaultyFileSystem()
    with suppress(KeyboardInterrupt), NewDirectory(fs, places.built_fd, HIDDEN) as new:
        create_file(fs, new.fd, "one", [b"1"])
        raise KeyboardInterrupt
    assert os.listdir(places.built) == []
    with NewDirectory(fs, places.built_fd, HIDDEN):
        pass
    assert os.listdir(places.built) == []
    assert fs.open_descriptors == {}


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("number_of_faults", ["one", "all from there"])
def test_whatever_call_fails_it_is_whole_or_not_there(
    places: Places, locked: bool, number_of_faults: str
) -> None:
    fs = FaultyFileSystem()
    places.make(fs, locked=locked)
    places.clear()
    trace = list(fs.trace)
    for number, call in enumerate(trace):
        plan = nth_call if number_of_faults == "one" else every_call_from
        fs = FaultyFileSystem(plan=plan(number, errno.EIO))
        try:
            places.make(fs, locked=locked)
        except OSError as error:
            assert error.errno == errno.EIO  # noqa: PT017 (a failed close is no failure)
            assert places.found in (None, CONTENT)
            assert (places.found is not None) is places.last.visible
            if number_of_faults == "one":
                assert not (places.built / HIDDEN).exists()
        else:
            assert call.operation in {"close", "flock"}
            assert places.found == CONTENT
        assert fs.open_descriptors == {}
        places.clear()


def test_a_name_that_can_not_be_confirmed_nor_taken_back_is_said_to_be_visible(
    places: Places,
) -> None:
    fs = FaultyFileSystem()
    places.make(fs)
    places.clear()
    last = [call.operation for call in fs.trace].count("fsync") - 1
    fs.begin(nth_of("fsync", last, errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        places.make(fs)
    assert (places.found, places.last.visible) == (None, False)
    assert places.last.step == "fsync of the directory"
    sync, rename = nth_of("fsync", last, errno.EIO), nth_of("rename", 1, errno.EROFS)
    fs.begin(lambda index, call: sync(index, call) or rename(index, call))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        places.make(fs)
    assert (places.found, places.last.visible) == (CONTENT, True)


def test_a_killed_maker_leaves_all_of_it_or_a_hidden_name(places: Places) -> None:
    fs = FaultyFileSystem()
    places.make(fs, locked=True)
    places.clear()
    for number in range(len(fs.trace)):
        pid = os.fork()
        if pid == 0:
            dying = FaultyFileSystem()

            def die(_: Call, fs: FaultyFileSystem = dying, number: int = number) -> None:
                if len(fs.trace) == number:
                    os.kill(os.getpid(), signal.SIGKILL)

            dying.before = die
            places.make(dying, locked=True)
            os._exit(1)
        _, status = os.waitpid(pid, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        assert places.found in (None, CONTENT)
        assert set(os.listdir(places.built)) <= {HIDDEN, "made"}
        assert not (places.found and (places.built / HIDDEN).exists())
        places.clear()


def test_its_maker_holds_it_until_it_appears_and_a_forked_child_does_not_keep_it(
    places: Places,
) -> None:
    fs = OsFileSystem()
    with NewDirectory(fs, places.built_fd, HIDDEN) as new:
        new.lock()
        copy = os.dup(new.fd)  # as a child has one that was forked meanwhile
        other = os.open(places.built / HIDDEN, os.O_RDONLY)
        try:
            assert not try_lock(fs, other)
            new.appear("made", parent_fd=places.appears_fd)
            assert try_lock(fs, other)
        finally:
            os.close(copy)
            os.close(other)


def test_a_directory_of_the_name_that_holds_something_is_never_replaced(places: Places) -> None:
    (places.appears / "made").mkdir()
    (places.appears / "made/theirs").write_bytes(b"x")
    with pytest.raises(OSError, match=os.strerror(errno.ENOTEMPTY)):
        places.make(OsFileSystem())
    assert places.found == {"theirs": b"x"}
    assert places.last.step == "rename"
    assert not (places.built / HIDDEN).exists()


def test_a_hidden_name_that_is_taken_is_left_as_it_is(places: Places) -> None:
    (places.built / HIDDEN).mkdir()
    (places.built / HIDDEN / "theirs").write_bytes(b"x")
    with pytest.raises(FileExistsError):
        places.make(OsFileSystem())
    assert (places.built / HIDDEN / "theirs").exists()
    assert places.last.step == "mkdir"
