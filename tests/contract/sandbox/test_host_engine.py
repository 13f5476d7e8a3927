"""What the own host promises: every call answers or ends the turn, whatever it is given."""

from __future__ import annotations

import os
import random
import signal
import struct
import threading
from collections import Counter
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.host.engine.clock import CANCELLED, DEADLINE, TurnClock, TurnEnded
from agentforge_sessions.sandbox.host.engine.engine import MOST_FUEL, Trapped
from agentforge_sessions.sandbox.host.engine.guest_thread import with_room
from agentforge_sessions.sandbox.host.engine.loaded_engine import EngineUnavailable, check_release
from agentforge_sessions.sandbox.host.files.upkeep import OUT_OF_FILE_CALLS
from agentforge_sessions.sandbox.host.preview1.guest import GuestExit
from agentforge_sessions.sandbox.workspaces.quota import Quota
from agentforge_sessions.sandbox.workspaces.workspace_tree import measure_tree
from tests.support.host_trees import served
from tests.support.wasm_probe import PAGE, SIGNATURES, Probe, snapshot

BADF, FAULT, INVAL, ISDIR, MFILE, NAMETOOLONG, NOENT, NOTDIR, PERM = (
    8,
    21,
    28,
    31,
    33,
    37,
    44,
    54,
    63,
)
END = 32 * PAGE
TIGHT = Quota(workspace_bytes=1 << 20, workspace_files=60, file_bytes=1 << 19)

NAMES = [
    b"a", b"b/c", b"..", b".", b"../x", b"/etc/passwd", b".metadata.json", b"a/", b"", b"\xff\xfe",
    b"x" * 300, b"b", b"a/../b", b"b/../../x", b"\0a", b"l", b"l/x", b"b/.metadata.json",
]  # fmt: skip


@pytest.mark.parametrize("openat2", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_wild_arguments_get_an_errno_and_reach_nothing_outside(
    tmp_path: Path, seed: int, openat2: bool
) -> None:
    inside, outside = tmp_path / "w", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (inside / ".metadata.json").write_text("own")
    (inside / "out").symlink_to(outside)
    before = snapshot(outside)
    chance = random.Random(seed)
    answers: Counter[tuple[str, int]] = Counter()
    with served(inside, TIGHT, openat2=openat2) as tree:
        probe = Probe([("/app", tree.root)], limit=20)
        for _ in range(1000):
            name = chance.choice(list(SIGNATURES))
            answers[name, wild_call(probe, name, chance)] += 1
        probe.close()
        assert tree.meter.room._usage is not None
        root = os.open(inside, os.O_RDONLY)
        held = measure_tree(root, max_entries=1000)
        os.close(root)
    assert all(0 <= answer <= 76 for _, answer in answers)
    assert snapshot(outside) == before
    assert (inside / ".metadata.json").read_text() == "own"
    assert held[0] <= TIGHT.workspace_bytes
    assert held[1] <= TIGHT.workspace_files
    assert len({name for name, answer in answers if answer == 0}) > 12  # it gets somewhere


def wild_call(probe: Probe, name: str, chance: random.Random) -> int:
    path = chance.choice(NAMES)
    probe.put(path)
    lengths = [0, 1, 100, 70_000, 1 << 31]
    probe.put(struct.pack("<II", 8192, chance.choice(lengths)), 1024)
    shape = SIGNATURES[name]
    numbers = [wild_number(kind, len(path), chance) for kind in shape]
    if name.startswith(("fd_", "path_")) and chance.random() < 0.8:
        numbers[0] = chance.choice([3, 3, 4, 5, 6, 7])
    if name.startswith("path_") and chance.random() < 0.7:
        at = 2 if shape.startswith("iii") and name not in _NO_LOOKUP else 1
        numbers[at : at + 2] = [4096, len(path)]
    if name == "poll_oneoff":
        numbers[0] = chance.choice([END - 47, 0xFFFFFFFF])  # no wait of random length
    if name in _TAKES_AWAY:  # the only way to files stays
        numbers[:2] = [4 if each == 3 else each for each in numbers[:2]]
    return probe.call(name, *numbers)


_TAKES_AWAY = {"fd_close", "fd_fdstat_set_rights", "fd_renumber"}
_NO_LOOKUP = {"path_create_directory", "path_readlink", "path_remove_directory", "path_rename",
              "path_unlink_file", "path_symlink"}  # fmt: skip


def wild_number(kind: str, length: int, chance: random.Random) -> int:
    if kind == "I":
        few = [0, 1, 5, 2, 64, 66, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 4096]
        return chance.choice([*few, chance.getrandbits(64)])
    at_the_end = [END - 4, END - 1, END, END + 1, 0xFFFFFFFF, 1 << 31]
    few = [*range(12), 4096, 1024, 8192, length]
    return chance.choice([*few, *few, *at_the_end, chance.getrandbits(32)])


@pytest.mark.parametrize("at", [END - 3, END, 0xFFFFFFFF])
def test_an_address_past_the_end_is_refused(at: int) -> None:
    probe = Probe(stdin=b"abc")
    calls = [
        ("args_get", at, 0), ("args_sizes_get", 0, at), ("environ_get", at, at),
        ("clock_time_get", 0, 0, at), ("random_get", at, 100), ("fd_read", 0, at, 1, 0),
        ("fd_write", 1, at, 1, 0), ("fd_filestat_get", 1, at), ("fd_fdstat_get", 1, at),
        ("poll_oneoff", at, 0, 1, 0),
    ]  # fmt: skip
    assert [probe.call(*each) for each in calls] == [FAULT] * len(calls)
    probe.close()


def test_a_call_that_cannot_answer_changes_nothing(tmp_path: Path) -> None:
    with served(tmp_path) as tree:
        probe = Probe([("/app", tree.root)])
        path = probe.put(b"made")
        assert probe.call("path_open", 3, 0, *path, 1, 64, 0, 0, END) == FAULT
        assert list(tmp_path.iterdir()) == []
        probe.close()


def test_memory_that_grew_is_reached(tmp_path: Path) -> None:
    probe = Probe()
    assert probe.call("random_get", END, 16) == FAULT
    assert probe.call("grow", 1) == 32
    assert probe.call("random_get", END, 16) == 0
    probe.close()


def test_memory_grows_no_further_than_allowed() -> None:
    probe = Probe()
    assert probe.call("grow", 1 << 15) == 0xFFFFFFFF
    probe.close()


# ---------------------------------------------------------------- ends of a turn


def test_a_deadline_ends_what_computes() -> None:
    probe = Probe()
    with pytest.raises(TurnEnded) as caught:
        probe.call("spin", 0, seconds=0.05)
    assert caught.value.reason == DEADLINE
    probe.close()


def test_a_deadline_ends_a_wait_of_the_host() -> None:
    probe = Probe()
    probe.put(struct.pack("<QB7xIxxxxQQH6x", 7, 0, 1, 3600 * 10**9, 0, 0), 256)
    with pytest.raises(TurnEnded) as caught:
        probe.call("poll_oneoff", 256, 512, 1, 64, seconds=0.05)
    assert caught.value.reason == DEADLINE
    probe.close()


def test_a_wait_is_over_when_it_is_due() -> None:
    probe = Probe()
    probe.put(struct.pack("<QB7xIxxxxQQH6x", 7, 0, 1, 1000, 0, 0), 256)
    assert probe.call("poll_oneoff", 256, 512, 1, 64) == 0
    assert probe.u32(64) == 1
    assert struct.unpack("<QHB", probe.instance.memory.view(512, 11)) == (7, 0, 0)
    probe.close()


@pytest.mark.parametrize("function", ["spin", "poll_oneoff"])
def test_a_cancellation_ends_what_computes_and_what_waits(function: str) -> None:
    probe = Probe()
    probe.put(struct.pack("<QB7xIxxxxQQH6x", 7, 0, 1, 3600 * 10**9, 0, 0), 256)
    cancel = threading.Event()
    canceller = threading.Timer(0.05, cancel.set)
    canceller.start()
    numbers = [0] if function == "spin" else [256, 512, 1, 64]
    with (
        pytest.raises(TurnEnded) as caught,
        probe.instance.turn(TurnClock(None, cancel), MOST_FUEL),
    ):
        probe.instance.call(function, *numbers)
    assert caught.value.reason == CANCELLED
    canceller.join()
    probe.close()


def test_fuel_ends_what_computes() -> None:
    probe = Probe()
    with pytest.raises(Trapped, match="out of fuel"):
        probe.call("spin", 0, fuel=100_000)
    probe.close()


def test_the_work_of_the_host_costs_fuel() -> None:
    probe = Probe()
    with pytest.raises(TurnEnded, match="out of fuel"):
        probe.call("random_get", 0, 31 * PAGE, fuel=1_000_000)
    probe.close()


def test_calls_on_names_are_counted(tmp_path: Path) -> None:
    with served(tmp_path) as tree:
        probe = Probe([("/app", tree.root)], file_calls=2)
        assert probe.open(b"a", how=1)[0] == 0
        assert probe.open(b"b")[0] == NOENT
        with pytest.raises(TurnEnded, match=OUT_OF_FILE_CALLS):
            probe.open(b"a")
        probe.close()


def test_an_exit_is_told_to_the_caller() -> None:
    probe = Probe()
    with pytest.raises(GuestExit) as caught:
        probe.call("proc_exit", 3)
    assert caught.value.code == 3
    probe.close()


def test_what_a_host_function_raises_is_raised_where_the_guest_was_called() -> None:
    def fail(_: bytes) -> None:
        raise KeyboardInterrupt

    probe = Probe()
    probe.out._hand_on = fail
    with pytest.raises(KeyboardInterrupt):
        probe.write(1, b"x")
    probe.close()


class _Interrupted(Exception):
    pass


@pytest.mark.parametrize("function", ["spin", "poll_oneoff"])
def test_a_signal_whose_handler_raises_ends_what_computes_and_what_waits(function: str) -> None:
    def interrupt(*_: object) -> None:
        raise _Interrupted

    class Looks:
        count = 0

        def is_set(self) -> bool:
            """Asked from within the guest, on the thread that signals come to."""
            self.count += 1
            if self.count == 3:
                signal.raise_signal(signal.SIGUSR1)
            return False

    probe = Probe()
    probe.put(struct.pack("<QB7xIxxxxQQH6x", 7, 0, 1, 3600 * 10**9, 0, 0), 256)
    numbers = [0] if function == "spin" else [256, 512, 1, 64]
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with (
            pytest.raises(_Interrupted),
            probe.instance.turn(TurnClock(None, Looks()), MOST_FUEL),
        ):
            probe.instance.call(function, *numbers)
    finally:
        signal.signal(signal.SIGUSR1, before)
    probe.close()


@pytest.mark.parametrize("release", ["48.0.0", "49.1.0", "490.0.0", "50.0.0"])
def test_another_release_of_the_engine_is_refused(release: str) -> None:
    with pytest.raises(EngineUnavailable, match="tested with"):
        check_release(release)


def test_a_stack_overflow_is_a_trap() -> None:
    probe = Probe()
    with pytest.raises(Trapped, match="stack overflow"):
        with_room(lambda: probe.call("deep", 10**8), lambda: None)
    probe.close()


def test_a_guest_runs_where_there_is_stack_for_it() -> None:
    seen: list[int] = []

    def small() -> None:
        probe = Probe()
        seen.append(with_room(lambda: probe.call("deep", 10_000), lambda: None))
        seen.append(with_room(threading.get_ident, lambda: None))
        probe.close()

    before = threading.stack_size(256 << 10)
    try:
        thread = threading.Thread(target=small)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    assert seen[0] == 10_000
    assert seen[1] != thread.ident
    assert with_room(threading.get_ident, lambda: None) == threading.get_ident()


def test_a_nested_guest_on_the_same_thread_leaves_the_outer_one_as_it_was() -> None:
    inner, outer = Probe(), Probe()
    outer.out._hand_on = lambda _: inner.write(1, b"inner")
    assert outer.write(1, b"outer") == (0, 5)
    assert (bytes(outer.out.data), bytes(inner.out.data)) == (b"outer", b"inner")
    inner.close()
    outer.close()


def test_a_forked_child_is_refused() -> None:
    probe = Probe()
    child = os.fork()
    if child == 0:
        try:
            probe.call("sched_yield")
        except EngineUnavailable as error:
            os._exit(7 if "spawn" in error.remedy else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    probe.close()


# ---------------------------------------------------------------- the door to the host


class _Door:
    def __init__(self, answer: bytes, refused: bytes | None = None) -> None:
        self.answer, self.refused = answer, refused
        self.asked: list[bytes] = []

    def admit(self, length: int) -> bytes | None:
        return self.refused

    def __call__(self, request: bytes) -> bytes:
        self.asked.append(request)
        return self.answer


def test_a_request_is_answered_in_the_guests_memory() -> None:
    probe = Probe()
    probe.guest.door = door = _Door(b"answer")
    assert probe.call("host_call", *probe.put(b"request"), 64, 68) == 0
    assert bytes(probe.instance.memory.view(probe.u32(64), probe.u32(68))) == b"answer"
    assert door.asked == [b"request"]
    probe.close()


def test_a_request_that_is_refused_by_its_length_is_not_read() -> None:
    probe = Probe()
    probe.guest.door = door = _Door(b"", refused=b"too long")
    assert probe.call("host_call", 0, 1 << 20, 64, 68) == 0
    assert bytes(probe.instance.memory.view(probe.u32(64), probe.u32(68))) == b"too long"
    assert door.asked == []
    probe.close()


def test_a_request_from_outside_the_memory_is_a_fault_and_none_offered_is_told() -> None:
    probe = Probe()
    assert probe.call("host_call", 0, 1, 64, 68) == 0xFFFFFFFF
    probe.guest.door = _Door(b"x")
    for request in ((END, 1, 64, 68), (0, 1, END, 68), (0, 1, 64, END), (0, 1 << 31, 64, 68)):
        assert probe.call("host_call", *request) == 0xFFFFFFFE
    probe.guest.door = _Door(bytes(1 << 22))  # no room for the answer
    assert probe.call("host_call", 0, 1, 64, 68) == 0xFFFFFFFE
    probe.close()


def test_numbers_of_descriptors_are_used_again_and_bounded(tmp_path: Path) -> None:
    with served(tmp_path) as tree:
        probe = Probe([("/app", tree.root)], limit=3)
        opened = [probe.open(b"f", how=1) for _ in range(4)]
        assert opened[:3] == [(0, 4), (0, 5), (0, 6)]
        assert opened[3][0] == MFILE
        assert probe.call("fd_close", 5) == 0
        assert probe.open(b"f") == (0, 5)
        assert probe.call("fd_close", 99) == BADF
        probe.close()


@pytest.mark.parametrize("length", [0, 1, 23, 24, 25, 26, 50, 51, 1000])
def test_a_listing_writes_what_fits_and_nothing_else(tmp_path: Path, length: int) -> None:
    for name in ("a", "bb"):
        (tmp_path / name).write_text("x")
    with served(tmp_path) as tree:
        probe = Probe([("/app", tree.root)])
        mark = b"\xaa" * 1200
        probe.put(mark, PAGE)
        assert probe.call("fd_readdir", 3, PAGE, 1000, 0, 64) == 0
        whole = bytes(probe.instance.memory.view(PAGE, probe.u32(64)))
        probe.put(mark, PAGE)
        assert probe.call("fd_readdir", 3, PAGE, length, 0, 64) == 0
        used = probe.u32(64)
        assert used == min(length, len(whole))
        assert bytes(probe.instance.memory.view(PAGE, 1200)) == whole[:used] + mark[used:]
        assert whole[21:24] == bytes(3)  # what pads the first record
        probe.close()


def test_a_listing_goes_on_where_a_cookie_says(tmp_path: Path) -> None:
    for i in range(9):
        (tmp_path / str(i)).write_text("x")
    with served(tmp_path) as tree:
        probe = Probe([("/app", tree.root)])
        names, cookie = [], 0
        while True:
            assert probe.call("fd_readdir", 3, PAGE, 60, cookie, 64) == 0
            record = bytes(probe.instance.memory.view(PAGE, probe.u32(64)))
            if len(record) < 24:
                break
            cookie, _, length, _ = struct.unpack_from("<QQIB", record)
            names.append(record[24 : 24 + length])
        assert sorted(names) == [b".", b"..", *(b"%d" % i for i in range(9))]
        assert probe.call("fd_readdir", 3, PAGE, 60, (1 << 64) - 1, 64) == 0
        assert probe.u32(64) == 0
        probe.close()
