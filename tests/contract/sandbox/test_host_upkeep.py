"""What a guest has its host do is paid and ends in time; what it has it hold has a limit."""

from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.sandbox.host.engine.clock import CANCELLED, TurnClock, TurnEnded
from agentforge_sessions.sandbox.host.engine.engine import MOST_FUEL
from agentforge_sessions.sandbox.host.files.files import OF_A_DESCRIPTOR, Directory, Opening
from agentforge_sessions.sandbox.host.files.memory_files import MemoryTree
from agentforge_sessions.sandbox.host.files.quota import Losses
from agentforge_sessions.sandbox.host.files.system_calls import SystemCalls
from agentforge_sessions.sandbox.host.files.upkeep import OUT_OF_FILE_CALLS, Upkeep
from agentforge_sessions.sandbox.host.preview1.guest import ERRNOS
from agentforge_sessions.sandbox.workspaces.quota import Quota, Room, SpaceUsed, UsageCounter
from agentforge_sessions.sandbox.workspaces.workspace import ChangeLedger
from agentforge_sessions.sandbox.workspaces.workspace_tree import take_snapshot
from tests.support.host_trees import AMPLE, in_memory, served
from tests.support.wasm_probe import PAGE, Probe

HOST, MEMORY = 3, 4
NEW = Opening(read=True, write=True, create=True)
LINKS = 60
NOMEM, NOSPC = ERRNOS[errno.ENOMEM], ERRNOS[errno.ENOSPC]


@pytest.fixture
def tangled(tmp_path: Path) -> Path:
    """A directory of links, each through forty others and many names: seconds to look at."""
    os.mkdir(tmp_path / "d")
    (tmp_path / "f").touch()
    for i in range(39):
        (tmp_path / f"l{i}").symlink_to("d/../" * 810 + (f"l{i - 1}" if i else "f"))
    for i in range(LINKS):
        (tmp_path / f"n{i}").symlink_to("d/../" * 810 + "l38")
    return tmp_path


class Looks:
    """A cancellation that is there at the so-manieth look."""

    def __init__(self, last: int) -> None:
        self.left = last

    def is_set(self) -> bool:
        self.left -= 1
        return self.left <= 0


def list_all(probe: Probe, number: int = HOST) -> int:
    return probe.call("fd_readdir", number, PAGE, PAGE, 0, 64)


# ---------------------------------------------------------------- work


@pytest.mark.parametrize("openat2", [True, False])
@pytest.mark.parametrize("ends", ["file calls", "fuel", "cancelled"])
def test_a_listing_of_links_is_paid_and_looks_at_the_clock(
    tangled: Path, ends: str, openat2: bool
) -> None:
    with served(tangled, openat2=openat2) as tree:
        probe = Probe([("/app", tree.root)], file_calls=100 if ends == "file calls" else None)
        probe.serve(tree)
        looks = Looks(20 if ends == "cancelled" else 1 << 30)
        fuel = 20_000_000 if ends == "fuel" else MOST_FUEL
        with (
            pytest.raises(TurnEnded) as caught,
            probe.instance.turn(TurnClock(None, looks), fuel),
        ):
            probe.instance.call("fd_readdir", HOST, PAGE, PAGE, 0, 64)
        probe.close()
    reasons = {"file calls": OUT_OF_FILE_CALLS, "fuel": "out of fuel", "cancelled": CANCELLED}
    assert caught.value.reason == reasons[ends]


def test_a_listing_walks_a_link_from_where_it_is(tmp_path: Path) -> None:
    """Not the way to its directory, but for a link that leads above that."""
    deep = tmp_path.joinpath(*"abcdefgh")
    deep.mkdir(parents=True)
    (tmp_path / "f").touch()
    for i in range(100):
        (deep / f"l{i}").symlink_to("g")
    with served(tmp_path) as tree:
        probe = Probe([("/app", tree.root)])
        probe.serve(tree)
        assert probe.open(b"a/b/c/d/e/f/g/h")[0] == 0
        before = probe.guest.upkeep.file_calls
        assert list_all(probe, 4) == 0
        # Of each link: itself, what it leads to, its entry.
        assert probe.guest.upkeep.file_calls - before <= 1 + 3 * 100 // 128
        probe.close()


def test_links_are_listed_if_they_stay_inside_wherever_they_lead(tmp_path: Path) -> None:
    below = tmp_path / "w/a/b"
    below.mkdir(parents=True)
    (tmp_path / "w/f").touch()
    (tmp_path / "w/a/out").symlink_to("../..")
    for name, target in {
        "up": "../../f", "to-root": "../..", "nothing": "../../missing", "back": "../b/up",
        "out": "../../../x", "over": "../out/x", "hidden": "../../.metadata.json",
        "climbs-back": "../../../w/f",
    }.items():  # fmt: skip
        (below / name).symlink_to(target)
    with served(tmp_path / "w") as tree:
        directory: Any = tree.root.open(b"a/b", Opening(directory=True))
        seen = {entry.name.decode() for entry in directory.entries()}
        directory.close()
    assert seen == {"up", "to-root", "nothing", "back"}


def test_a_directory_that_is_moved_is_paid_before_it_moves(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for i in range(300):
        (tmp_path / f"d/{i}").touch()
    with served(tmp_path) as tree:
        probe = Probe([("/app", tree.root)], file_calls=2)
        probe.serve(tree)
        old, new = probe.put(b"d", 4096), probe.put(b"e", 5000)
        with pytest.raises(TurnEnded, match=OUT_OF_FILE_CALLS):
            probe.call("path_rename", HOST, *old, HOST, *new)
        probe.close()
    assert (tmp_path / "d").is_dir()


@pytest.fixture
def carried(tmp_path: Path) -> Path:
    """A directory whose files are ten looks to walk, and as many to note when it is moved."""
    (tmp_path / "d").mkdir()
    for i in range(1280):
        (tmp_path / f"d/{i}").touch()
    return tmp_path


def test_what_a_moved_directory_carries_is_paid_when_it_is_noted(carried: Path) -> None:
    with served(carried) as tree:
        probe = Probe([("/app", tree.root)])
        probe.serve(tree)
        old, new = probe.put(b"d", 4096), probe.put(b"e", 5000)
        assert probe.call("path_rename", HOST, *old, HOST, *new) == 0
        assert probe.guest.upkeep.file_calls >= 20
        created, _, deleted = tree.changes.lists()
        assert tree.changes.complete
        assert len(created) == len(deleted) == 1280
        probe.close()


def test_a_turn_that_ends_while_a_move_is_noted_leaves_incomplete_lists(carried: Path) -> None:
    with served(carried) as tree:
        probe = Probe([("/app", tree.root)])
        probe.serve(tree)
        old, new = probe.put(b"d", 4096), probe.put(b"e", 5000)
        clock = TurnClock(None, Looks(16))
        with (
            pytest.raises(TurnEnded, match=CANCELLED),
            probe.instance.turn(clock, MOST_FUEL),
        ):
            probe.instance.call("path_rename", HOST, *old, HOST, *new)
        assert not tree.changes.complete
        assert 0 < len(tree.changes.lists()[0]) < 1280
        probe.close()
    assert os.listdir(carried) == ["e"]


class _EndlessCopy(SystemCalls):
    """A file of which there is always more to copy."""

    @staticmethod
    def sendfile(target: int, source: int, count: int) -> int:
        del target, source
        return count


def test_a_copy_of_a_file_with_other_names_ends_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w/f").write_bytes(b"x")
    os.link(tmp_path / "w/f", tmp_path / "elsewhere")
    with served(tmp_path / "w", calls=_EndlessCopy()) as tree:
        probe = Probe([("/app", tree.root)])
        probe.serve(tree)
        numbers = HOST, 1, *probe.put(b"f"), 0, 1 << 6, 0, 0, 64
        with pytest.raises(TurnEnded):
            probe.call("path_open", *numbers, seconds=0.05)
        probe.close()
    assert os.listdir(tmp_path / "w") == ["f"]


class _EnoughError(Exception):
    pass


def _after(looks: int) -> Callable[[], None]:
    left = iter(range(looks))

    def look() -> None:
        if next(left, None) is None:
            raise _EnoughError

    return look


def test_a_workspace_that_is_counted_can_be_left_and_is_counted_later(tmp_path: Path) -> None:
    for i in range(20):
        (tmp_path / str(i)).write_bytes(b"12")
    root = os.open(tmp_path, os.O_RDONLY)
    room = Room(root, AMPLE, counter := UsageCounter())
    room.look = _after(10)
    with pytest.raises(_EnoughError):
        room.afford(1, 1)
    room.look = None
    room.afford(1, 1)
    assert counter.known(root, SpaceUsed(100, 100)) == (40, 20)
    with pytest.raises(_EnoughError):
        take_snapshot(root, tick=_after(10))
    os.close(root)


# ---------------------------------------------------------------- memory


def test_open_listings_are_held_up_to_the_limit_and_given_back(tmp_path: Path) -> None:
    for i in range(2000):
        (tmp_path / f"name-{i}").touch()
    with served(tmp_path) as tree:
        probe = Probe([("/app", tree.root)], limit=500)
        probe.serve(tree)
        upkeep = probe.guest.upkeep
        upkeep.most = 1 << 20
        told: list[None] = []
        upkeep.refused = lambda: told.append(None)
        numbers, answer = [], 0
        while answer == 0:
            answer, number = probe.open(b".")
            if answer == 0:
                numbers.append(number)
                answer = list_all(probe, number)
        assert answer == NOMEM
        assert told
        assert 5 < len(numbers) < 20
        assert upkeep.held <= upkeep.most
        assert probe.call("fd_close", numbers[0]) == 0
        assert list_all(probe, numbers[-1]) == 0  # there is room again
        for number in numbers[1:]:
            probe.call("fd_close", number)
        assert upkeep.held == 0
        probe.close()


def test_a_listing_that_is_begun_again_holds_no_more(tmp_path: Path) -> None:
    for i in range(500):
        (tmp_path / f"name-{i}").touch()
    with served(tmp_path) as tree:
        probe = Probe([("/app", tree.root)])
        probe.serve(tree)
        held = set()
        for _ in range(3):
            assert list_all(probe) == 0
            held.add(probe.guest.upkeep.held)
        assert len(held) == 1
        probe.close()


def test_open_descriptors_are_held_up_to_the_limit(tmp_path: Path) -> None:
    with in_memory(tmp_path) as memory:
        probe = Probe([("/app", memory.root), ("/tmp", memory.root)], limit=1000)
        probe.serve(memory)
        probe.guest.upkeep.most = 10 * OF_A_DESCRIPTOR
        for number in range(3):
            assert probe.call("fd_close", number) == 0  # which makes no room
        answers = [probe.open(b".")[0] for _ in range(11)]
        assert answers == [0] * 10 + [NOMEM]
        assert probe.call("fd_close", 7) == 0
        assert probe.open(b".") == (0, 7)
        probe.close()
        assert probe.guest.upkeep.held == 0


MAKING: dict[str, Callable[[Directory, bytes], object]] = {
    "file": lambda root, name: root.open(name, NEW).close(),
    "directory": lambda root, name: root.make_directory(name),
    "link": lambda root, name: root.symlink(b"x", name),
    "hard link": lambda root, name: root.link(b"f", root, name, follow=False),
    "hard link of a link": lambda root, name: root.link(b"l", root, name, follow=False),
}


@pytest.mark.parametrize("kind", MAKING)
def test_what_is_made_in_memory_is_held_until_it_is_removed(tmp_path: Path, kind: str) -> None:
    with in_memory(tmp_path) as memory:
        memory.root.open(b"f", NEW).close()
        memory.root.symlink(b"f", b"l")
        before = memory.upkeep.held
        memory.upkeep.most = 4 * (before + (64 << 10)) // 3
        names: list[bytes] = []
        refused = None
        while refused is None:
            try:
                MAKING[kind](memory.root, b"n%d" % len(names))
                names.append(b"n%d" % len(names))
            except OSError as error:
                refused = error.errno
        assert refused == errno.ENOSPC
        assert 40 < len(names) < 130
        for name in names:
            if kind == "directory":
                memory.root.remove_directory(name)
            else:
                memory.root.unlink(name)
        assert memory.upkeep.held == before
        MAKING[kind](memory.root, b"again")


def test_a_longer_path_is_held_and_a_removed_file_until_it_is_closed(tmp_path: Path) -> None:
    with in_memory(tmp_path) as memory:
        held = memory.root.open(b"f", NEW)
        before = memory.upkeep.held
        memory.root.rename(b"f", memory.root, b"f" * 200)
        assert memory.upkeep.held == before + 199
        memory.upkeep.most = 2 * memory.upkeep.held
        memory.root.rename(b"f" * 200, memory.root, b"f" * 100)
        memory.root.unlink(b"f" * 100)
        assert memory.upkeep.held > 0
        held.close()
        assert memory.upkeep.held == 0


@contextmanager
def holding_at_most(most: int) -> Iterator[None]:
    """This process holds no more at the end of the block than so many bytes above its begin."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[0] <= most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("files", "size"), [(1, 8 << 20), (100, 100 << 10)])
def test_what_is_cut_off_a_file_in_memory_is_given_back(
    tmp_path: Path, files: int, size: int
) -> None:
    left = 6 * size // 10
    with in_memory(tmp_path) as memory, holding_at_most(files * (left + left // 8 + 4096)):
        for i in range(files):
            file = memory.root.open(b"%d" % i, NEW)
            for end in range(size // 10, size + 1, size // 10):
                file.truncate(end)
            file.truncate(left)
            file.close()


@pytest.mark.parametrize("how", ["unlinked", "renamed"])
def test_a_directory_in_memory_gives_the_room_of_its_names_back(tmp_path: Path, how: str) -> None:
    with in_memory(tmp_path) as memory, holding_at_most(64 << 10):
        memory.root.open(b"f", NEW).close()
        for name in (b"a", b"b"):
            memory.root.make_directory(name)
            directory: Any = memory.root.open(name, Opening(directory=True))
            for i in range(2000):
                memory.root.link(b"f", directory, b"%d" % i, follow=False)
            for i in range(1, 2000):
                if how == "renamed":
                    directory.rename(b"%d" % i, memory.root, b"other")
                    memory.root.unlink(b"other")
                else:
                    directory.unlink(b"%d" % i)


def test_the_targets_of_links_in_memory_count_as_its_files_do(tmp_path: Path) -> None:
    quota = Quota(
        workspace_bytes=1 << 30, workspace_files=100, file_bytes=1 << 20,
        temporary_bytes=10_000, temporary_files=100,
    )  # fmt: skip
    with in_memory(tmp_path, quota) as memory:
        for name in (b"a", b"b"):
            memory.root.symlink(b"x" * 4000, name)
        with pytest.raises(OSError, match="No space"):
            memory.root.symlink(b"x" * 4000, b"c")
        assert memory.meter.room.exceeded == ("temporary_bytes",)
        memory.root.unlink(b"a")
        memory.root.symlink(b"x" * 4000, b"c")
        file = memory.root.open(b"f", NEW)
        file.truncate(2000)
        with pytest.raises(OSError, match="No space"):
            file.truncate(2001)
        file.close()


@pytest.mark.parametrize("removed", ["removed", "replaced", "emptied"])
def test_nothing_is_made_in_a_directory_of_memory_that_was_removed(
    tmp_path: Path, removed: str
) -> None:
    with in_memory(tmp_path) as memory:
        memory.root.make_directory(b"d")
        memory.root.open(b"f", NEW).close()
        directory: Any = memory.root.open(b"d", Opening(directory=True))
        if removed == "removed":
            memory.root.remove_directory(b"d")
        elif removed == "replaced":
            memory.root.make_directory(b"e")
            memory.root.rename(b"e", memory.root, b"d")
        else:
            _begin_again(memory)
            memory.root.open(b"f", NEW).close()
        for make in (
            lambda: directory.open(b"x", NEW),
            lambda: directory.make_directory(b"x"),
            lambda: directory.symlink(b"y", b"x"),
            lambda: memory.root.link(b"f", directory, b"x", follow=False),
            lambda: memory.root.rename(b"f", directory, b"x"),
        ):
            with pytest.raises(FileNotFoundError):
                make()
        assert list(directory.entries()) == []


def _begin_again(memory: MemoryTree) -> Room:
    room = Room(-1, memory.meter.room.quota, None)
    memory.begin_again(room)
    return room


def test_memory_that_is_emptied_holds_only_what_is_open(tmp_path: Path) -> None:
    with in_memory(tmp_path) as memory:
        memory.root.make_directory(b"d")
        for i in range(5):
            memory.root.open(b"d/%d" % i, NEW).close()
            memory.root.symlink(b"x", b"l%d" % i)
        left = memory.root.open(b"d/open", NEW)
        left.truncate(1000)
        room = _begin_again(memory)
        assert list(memory.root.entries()) == []
        assert room._promised_temporary == 1000
        assert memory.upkeep.held > 0
        left.close()
        assert room._promised_temporary == 0
        assert memory.upkeep.held == 0


def test_output_is_handed_on_in_pieces() -> None:
    pieces: list[bytes] = []
    probe = Probe()
    probe.out._hand_on = pieces.append
    assert probe.write(1, bytes(range(256)) * 1000) == (0, 256_000)
    assert b"".join(pieces) == bytes(range(256)) * 1000
    assert max(map(len, pieces)) <= 1 << 16
    probe.close()


def test_changes_that_cannot_be_noted_make_the_lists_incomplete() -> None:
    changes = ChangeLedger()
    changes.keeper = upkeep = Upkeep()
    upkeep.most = 1000
    changes.wrote("came", existed=False)
    changes.removed("came")
    assert upkeep.held == changes.held == 0
    changes.wrote("a", existed=False)
    changes.removed("b")
    assert changes.complete
    for i in range(10):
        changes.wrote(f"{i}", existed=True)
    assert not changes.complete
    assert upkeep.held <= 1000
    created, modified, deleted = changes.lists()
    assert (created, deleted) == (("a",), ("b",))
    assert len(modified) < 10


def test_a_thousand_lost_writes_are_noted_and_one_for_all_others() -> None:
    losses = Losses()
    for i in range(3000):
        losses.refuse(b"%04d" % i, errno.ENOSPC, 10)
    assert losses.refused == 3000
    assert len(losses.listed()) == 1001
    for i in range(3000):
        losses.forget(b"%04d" % i)
    assert [path for path, _ in losses.listed()] == [b"1000"]
