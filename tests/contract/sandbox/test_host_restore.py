"""How the own host makes an interpreter's memory the template's again: by ranges, at once."""

from __future__ import annotations

import mmap
import os
import random

import pytest
import structlog.testing

from agentforge_sessions.sandbox.host.engine import native
from agentforge_sessions.sandbox.host.template import Template, TemplateImage
from tests.support.wasm_probe import PAGE, Probe

SIZE = 32 * PAGE
ONE = mmap.PAGESIZE


def private(length: int) -> mmap.mmap:
    return mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


@pytest.fixture
def template() -> Template:
    probe = Probe()
    probe.put(random.Random(1).randbytes(SIZE - PAGE), 0)
    template = Template(TemplateImage.of(probe.instance))
    probe.close()
    return template


@pytest.mark.parametrize("at_once", [True, False])
def test_ranges_are_given_up_and_nothing_beside_them(
    monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    if not at_once:  # a kernel that gives up the memory of no process by its descriptor
        monkeypatch.setattr(native, "_own_process", lambda _: None)
    with private(6 * ONE) as memory:
        memory.write(b"x" * len(memory))
        native.give_up_ranges(
            native.Ranges(native.address_of(memory), [(ONE, ONE), (3 * ONE, 2 * ONE)])
        )
        kept = [memory[at : at + ONE] == b"x" * ONE for at in range(0, 6 * ONE, ONE)]
    assert kept == [True, False, True, False, False, True]


def test_ranges_are_filled_from_a_file_and_a_short_one_is_refused() -> None:
    fd = os.memfd_create("content")
    os.write(fd, b"abcdef")
    with private(ONE) as memory:
        base = native.address_of(memory)
        native.read_into(fd, native.Ranges(base, [(10, 2), (20, 4)]))
        assert (memory[10:12], memory[20:24]) == (b"ab", b"cdef")
        with pytest.raises(OSError, match="Input/output"):
            native.read_into(fd, native.Ranges(base, [(10, 7)]))
    os.close(fd)


def test_a_forked_child_gives_up_none_of_its_parents_memory() -> None:
    with private(ONE) as memory:
        memory.write(b"x" * ONE)
        ranges = native.Ranges(native.address_of(memory), [(0, ONE)])
        native._own_process(os.getpid())
        child = os.fork()
        if child == 0:
            native.give_up_ranges(ranges)
            os._exit(memory[:1] == b"x")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert memory[:1] == b"x"


def test_what_is_learned_from_a_turn_that_wrote_much_is_learned_anew(template: Template) -> None:
    probe = Probe()
    template.begin(probe.instance)
    for written in (20 * PAGE, 10, 30 * PAGE, 10, 20 * PAGE, 10):
        probe.put(b"\1" * written, 0)
        assert template.restore(probe.instance)
        assert template.is_memory_of(probe.instance)
    assert template._plan is not None
    assert template._plan.pages == 1
    probe.close()


@pytest.mark.parametrize("scans", [True, False])
def test_the_pages_that_were_written_to_are_told_and_no_others(
    monkeypatch: pytest.MonkeyPatch, scans: bool
) -> None:
    if not scans:  # a kernel before 6.7, or one whose page map cannot be scanned
        monkeypatch.setattr(native, "_page_map", lambda _: None)
    fd = os.memfd_create("content")
    os.ftruncate(fd, 6 * ONE)
    with mmap.mmap(fd, 6 * ONE, flags=mmap.MAP_PRIVATE) as memory:
        assert memory[: 6 * ONE] == bytes(6 * ONE)
        for at in (1, 3, 4):
            memory[at * ONE] = 1
        written = native.own_pages(native.address_of(memory), 6 * ONE)
    os.close(fd)
    assert written == bytes([0, 1, 0, 1, 1, 0])


def test_a_forked_child_is_told_of_its_own_pages() -> None:
    with private(2 * ONE) as memory:
        at = native.address_of(memory)
        assert native.own_pages(at, 2 * ONE) == bytes([0, 0])
        child = os.fork()
        if child == 0:
            memory[0] = 1
            os._exit(native.own_pages(at, 2 * ONE) != bytes([1, 0]))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert native.own_pages(at, 2 * ONE) == bytes([0, 0])


@pytest.mark.parametrize("scans", [True, False])
def test_whatever_a_turn_wrote_to_is_restored_once_it_is_known_what_turns_write_to(
    monkeypatch: pytest.MonkeyPatch, template: Template, scans: bool
) -> None:
    if not scans:
        monkeypatch.setattr(native, "_page_map", lambda _: None)
    probe = Probe()
    template.begin(probe.instance)
    for _ in range(4):
        probe.put(b"\1" * (9 * ONE), 3 * PAGE)
        assert template.restore(probe.instance)
    chance = random.Random(2)
    for _ in range(30):
        for _ in range(chance.choice([0, 1, 3, 40])):
            at = chance.randrange(SIZE - 3 * ONE)
            probe.put(b"\2" * chance.randrange(1, 3 * ONE), at)
        assert template.restore(probe.instance)
        assert template.is_memory_of(probe.instance)
    probe.close()


def test_what_lies_in_more_places_than_one_call_tells_is_restored() -> None:
    probe = Probe()
    probe.instance.grow(2 * native.MOST_RANGES * ONE + SIZE)
    template = Template(TemplateImage.of(probe.instance))
    probe.close()
    probe = Probe()
    template.begin(probe.instance)
    for _ in range(4):
        probe.put(b"\1", 0)
        assert template.restore(probe.instance)
    base = probe.instance.memory.base
    for at in range(0, template.size, 2 * ONE):
        probe.put(b"\1", at)
    assert native.scan_own(base, template.size) is None
    assert template.restore(probe.instance)
    assert template.is_memory_of(probe.instance)
    probe.close()


def test_the_first_that_is_restored_is_compared_before_it_is_used_again(
    template: Template,
) -> None:
    probe = Probe()
    template.begin(probe.instance)
    probe.put(b"\1" * PAGE, 0)
    assert template.restore(probe.instance)
    probe.put(b"\1", 7)  # as if the kernel had not given up a page
    with structlog.testing.capture_logs() as logged:
        assert not template.proves(probe.instance)
    assert [each["event"] for each in logged] == ["template.restoring_off"]
    assert not template.restore(probe.instance)
    probe.close()


def own_pages_after(template: Template, probe: Probe, written: list[int]) -> set[int]:
    """Which pages are the instance's own copies once a turn that wrote to these is undone."""
    for page in written:
        probe.put(b"\3", page * ONE)
    assert template.restore(probe.instance)
    assert template.is_memory_of(probe.instance)
    own = native.own_pages(probe.instance.memory.base, template.size)
    return {page for page, is_own in enumerate(own) if is_own}


def test_what_some_turns_write_to_besides_is_written_back_where_they_ran(
    template: Template,
) -> None:
    probe = Probe()
    template.begin(probe.instance)
    for _ in range(4):
        own_pages_after(template, probe, [1])
    assert own_pages_after(template, probe, [1]) == {1}
    for _ in range(3):  # as failing turns do: what they need lies apart
        assert own_pages_after(template, probe, [1, 100, 140]) == {1, 100, 140}
    assert own_pages_after(template, probe, [1]) == {1, 100, 140}
    assert own_pages_after(template, probe, [1, 300]) == {1, 100, 140, 300}
    other = Probe()
    template.begin(other.instance)
    assert own_pages_after(template, other, [1]) == {1}
    other.close()
    probe.close()


def test_what_one_turn_wrote_to_alone_is_given_up() -> None:
    probe = Probe()
    probe.instance.grow(1024 * ONE)
    template = Template(TemplateImage.of(probe.instance))
    probe.close()
    probe = Probe()
    template.begin(probe.instance)
    for _ in range(5):
        own_pages_after(template, probe, [1])
    assert own_pages_after(template, probe, list(range(700))) == {1}
    for page in range(20):  # it is not learned without end
        own = own_pages_after(template, probe, [1, 10 + 2 * page])
    assert own == {1}
    probe.close()
