"""The memory of a guest between two turns, as its difference from a template, and copies of it."""

# No deferred annotations here: as strings, each field's would have to be compiled.

import mmap
import os
import weakref
from collections.abc import Sequence
from typing import Final, Self

from .engine.engine import Instance
from .template import NEAR_PAGES, PIECE, Template, TemplateImage, own_pages, ranges_of

_MOST_APART: Final = 4096
"""With more ranges than this, those with small gaps between them become one."""

Ranges = Sequence[tuple[int, int]]
"""Offsets and sizes, whole pages, in order."""


class ForkTemplate(Template):
    """The memory of a guest, from which copies of it start; they map it copy-on-write.

    What they change is found, and put back, relative to the template that the guest began with.

    Attributes:
        origin: That template.
        apart: Where this memory differs from it.
    """

    def __init__(self, image: TemplateImage, origin: Template, apart: Ranges) -> None:
        super().__init__(image)
        weakref.finalize(self, os.close, image.fd)  # instances have mapped the file by then
        self.origin: Final = origin
        self.apart: Final = apart

    @classmethod
    def of(cls, instance: Instance, template: Template) -> Self:
        """Copy the memory of an instance that began with a template."""
        apart, origin = changed(template, instance), origin_of(template)
        written = {
            at // PIECE * PIECE
            for start, length in apart
            for at in range(start, start + length, mmap.PAGESIZE)
        }
        return cls(TemplateImage.of(instance, origin.data | written), origin, apart)


def origin_of(template: Template) -> Template:
    """Return the template that states are relative to."""
    return template.origin if isinstance(template, ForkTemplate) else template


def changed(template: Template, instance: Instance) -> list[tuple[int, int]]:
    """Return where the memory of an instance that began with a template differs from its origin.

    What lies past the template is compared with zeros. Only private copies are compared, where the
    system reports them.
    """
    instance.memory.refresh()
    memory, whole = instance.memory, origin_of(template).whole
    own = bytearray(own_pages(memory.base, memory.known))
    for start, length in template.apart if isinstance(template, ForkTemplate) else ():
        first, count = start // mmap.PAGESIZE, length // mmap.PAGESIZE
        own[first : first + count] = b"\x01" * count
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
        ranges: Where it differed from the template's origin.
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
    if isinstance(template, ForkTemplate):
        _undo(template, instance)
    at, new = 0, memoryview(pages)
    for start, length in ranges:
        instance.memory.view(start, length)[:] = new[at : at + length]
        at += length
    return True


def _undo(template: ForkTemplate, instance: Instance) -> None:
    """Make a copy's memory the origin's."""
    for start, length in template.apart:
        old = template.origin.content([(start, length)])
        instance.memory.view(start, length)[:] = old + bytes(length - len(old))
