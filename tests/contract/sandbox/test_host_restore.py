"""How the own host makes an interpreter's memory the template's again: by ranges, at once."""

from __future__ import annotations

import mmap
import os
import random

import pytest

from agentforge_sessions.sandbox.host import native
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
