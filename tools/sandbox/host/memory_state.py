"""The memory of a guest between two turns, as its difference from a template."""

# No deferred annotations here: as strings, each field's would have to be compiled.

import mmap
from collections.abc import Sequence
from typing import Final

from .engine.engine import Instance
from .template import NEAR_PAGES, Template, own_pages, ranges_of

_MOST_APART: Final = 4096
"""With more ranges than this, those with small gaps between them become one."""

Ranges = Sequence[tuple[int, int]]
"""Offsets and sizes, whole pages, in order."""


def changed(template: Template, instance: Instance) -> list[tuple[int, int]]:
    """Return where the memory of an instance that began with a template differs from it.

    What lies past the template is compared with zeros. Only private copies are compared, where the
    system reports them.
    """
    instance.memory.refresh()
    memory, whole = instance.memory, template.whole
    own = bytearray(own_pages(memory.base, memory.known))
    zeros = bytes(mmap.PAGESIZE)
    at = own.find(1)
    while at >= 0:
        start = at * mmap.PAGESIZE
        end = start + mmap.PAGESIZE
        # Slices compare faster than a call by ctypes, which releases the GIL.
        if bytes(memory.view(start, mmap.PAGESIZE)) == (whole[start:end] or zeros):
            own[at] = 0
        at = own.find(1, at + 1)
    apart = ranges_of(own)
    return apart if len(apart) < _MOST_APART else ranges_of(own, NEAR_PAGES)


def content(instance: Instance, ranges: Ranges) -> bytes:
    """Return an instance's content of ranges, one after another."""
    return b"".join(instance.memory.view(at, length) for at, length in ranges)


def give(template: Template, instance: Instance, size: int, ranges: Ranges, pages: bytes) -> bool:
    """Give an instance that began with a template the state that `changed` described.

    Args:
        template: The template.
        instance: The instance, between two turns.
        size: How large its memory was.
        ranges: Where it differed from the template.
        pages: What it had there, one after another.

    Returns:
        False if the memory has grown past that size, since memory never shrinks; then nothing was
        changed.

    Raises:
        Trapped: The instance's limit is below this size.
        OSError: The system refused; close the instance.
    """
    instance.memory.refresh()
    if instance.memory.known > size:
        return False
    instance.grow(size)
    template.rewind(instance, ranges)
    at, new = 0, memoryview(pages)
    for start, length in ranges:
        instance.memory.view(start, length)[:] = new[at : at + length]
        at += length
    return True
