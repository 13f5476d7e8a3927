"""A machine's whole state between two turns: taken, and given to the same or another machine.

Between two turns a guest's state is its memory, its descriptors with what they refer to, and its
time: the module has no other mutable parts, and the stack is empty. Only what differs from the
template is taken. A state in memory is the way back after a turn that must not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from ..host.engine.clock import TurnClock
from ..host.files.memory_files import MemoryTree
from ..host.machine import GuestMachine
from ..host.memory_state import changed, content, give
from ..host.template import Template
from .errors import ProgramSnapshotRefused
from .state.descriptor_state import DescriptorCapture, DescriptorsState, reopen
from .state.tree_state import TreeCapture, TreeState, fill


class MachineState(NamedTuple):
    """A machine between two turns.

    Attributes:
        template: The digest of the template that it began with.
        memory_size: The size of its memory.
        ranges: Where that differs from the template: offsets and sizes, whole pages, in order.
        pages: What it has there, one after another.
        descriptors: Its descriptors.
        temporary: `/tmp`, and open files without a name.
        monotonic_ns: Its monotonic time.
        wall_ns: The wall clock at that moment.
    """

    template: str
    memory_size: int
    ranges: tuple[tuple[int, int], ...]
    pages: bytes
    descriptors: DescriptorsState
    temporary: TreeState
    monotonic_ns: int
    wall_ns: int


def capture(
    machine: GuestMachine,
    *,
    template: Template,
    temporary: MemoryTree,
    wall_ns: Callable[[], int] = time.time_ns,
) -> MachineState:
    """Return a machine's state.

    Args:
        machine: The machine, mounted, between two turns.
        template: The template that it began with.
        temporary: Its `/tmp`.
        wall_ns: Returns the time since 1970, in nanoseconds.

    Raises:
        ProgramSnapshotRefused: An open file without a name cannot be read.
    """
    ranges = tuple(changed(template, machine.instance))
    guest, tree = machine.guest, TreeCapture(temporary)
    try:
        opened = DescriptorCapture(machine.reached, tree).state_of(guest.descriptors)
    except OSError as error:
        raise ProgramSnapshotRefused(
            f"an open file of the workspace cannot be read ({error.strerror})",
            "close it in the program, or look after the disk",
        ) from error
    return MachineState(
        template=template.digest,
        memory_size=machine.memory_bytes,
        ranges=ranges,
        pages=content(machine.instance, ranges),
        descriptors=opened,
        temporary=tree.state(),
        monotonic_ns=guest.monotonic_ns(),
        wall_ns=wall_ns(),
    )


def restore(
    state: MachineState,
    machine: GuestMachine,
    *,
    template: Template,
    temporary: MemoryTree,
    wall_ns: Callable[[], int] = time.time_ns,
) -> None:
    """Give a machine a captured state; what it had open is closed.

    Its monotonic time goes on by the wall clock, and never back. Files that it had open and that
    are no longer there answer ESTALE.

    Args:
        state: The state.
        machine: The machine: a new one that began with the template, or any that began with it and
            whose last turn returned; mounted.
        template: The template.
        temporary: Its `/tmp`; what is there is removed.
        wall_ns: Returns the time since 1970, in nanoseconds.

    Raises:
        ProgramSnapshotRefused: The machine has more memory than the state, or another template;
            nothing was changed.
        Trapped: The machine may not have that much memory.
        OSError: The system refused; close the machine.
    """
    if state.template != template.digest:
        raise ProgramSnapshotRefused(
            "it belongs to another prepared interpreter",
            "restore it with the release and interpreter that saved it",
        )
    if not give(template, machine.instance, state.memory_size, state.ranges, state.pages):
        raise ProgramSnapshotRefused(
            "the interpreter's memory has grown", "open another interpreter"
        )
    machine.instance.clock = TurnClock(None)  # the last turn's deadline does not count here
    guest = machine.guest
    guest.go_on_at(state.monotonic_ns + max(0, wall_ns() - state.wall_ns))
    guest.descriptors.close_counted()
    nodes = fill(temporary, state.temporary)
    reopen(guest.descriptors, state.descriptors, machine.reached, nodes)
