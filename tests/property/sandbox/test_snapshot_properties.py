"""Any state of descriptors and files in memory is written, read and restored as it was."""

from __future__ import annotations

import random
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from agentforge_sessions.sandbox.host.engine import native
from agentforge_sessions.sandbox.host.files.files import NodeKind
from agentforge_sessions.sandbox.host.files.memory_files import MemoryTree
from agentforge_sessions.sandbox.host.files.quota import QuotaMeter
from agentforge_sessions.sandbox.host.memory_state import changed, content, give
from agentforge_sessions.sandbox.host.preview1 import rights
from agentforge_sessions.sandbox.live.capture import MachineState
from agentforge_sessions.sandbox.live.snapshot_file import snapshot_of
from agentforge_sessions.sandbox.live.state.descriptor_state import (
    DescriptorsState,
    OpenState,
    PreopenedState,
)
from agentforge_sessions.sandbox.live.state.tree_state import (
    NameState,
    NodeState,
    TreeCapture,
    TreeState,
    fill,
)
from agentforge_sessions.sandbox.workspaces.quota import Quota, Room, UsageCounter
from tests.support.made_snapshots import (
    INTERPRETER,
    POLICY,
    UNIT,
    small_template,
    state_of,
)
from tests.support.soak import examples
from tests.support.wasm_probe import PAGE, Probe

TEMPLATE = small_template()
TIMES = st.integers(0, (1 << 63) - 1)
NAMES = (
    st.binary(min_size=1, max_size=8).filter(lambda name: not set(name) & {0, 0x2F})
    | st.sampled_from(["ä", "名", "a" * 255]).map(str.encode)
).filter(lambda name: name not in (b".", b".."))
PATHS = st.lists(NAMES, max_size=4).map(b"/".join)
RIGHTS = st.integers(0, rights.ALL)
LISTINGS = st.none() | st.binary(max_size=60)


@st.composite
def trees(draw: st.DrawFn) -> TreeState:
    """A tree, and up to three files without a name at its end."""
    nodes = [NodeState(NodeKind.DIRECTORY, 1, *draw(st.tuples(TIMES, TIMES, TIMES)), False)]
    names: list[NameState] = []
    directories = [0]
    for _ in range(draw(st.integers(0, 9))):
        kind = draw(st.sampled_from([NodeKind.DIRECTORY, NodeKind.REGULAR, NodeKind.LINK]))
        times = draw(st.tuples(TIMES, TIMES, TIMES))
        data = b""
        if kind is NodeKind.LINK:
            data = draw(PATHS.filter(bool))
        elif kind is NodeKind.REGULAR:
            data = draw(st.binary(max_size=50))
        nodes.append(NodeState(kind, len(nodes) + 1, *times, True, data))
        for _ in range(1 if kind is NodeKind.DIRECTORY else draw(st.integers(1, 2))):
            above, name = draw(st.sampled_from(directories)), draw(NAMES)
            taken = {(each.directory, each.name) for each in names}
            while (above, name) in taken:
                name = b"%d" % len(names) + name[:200]
            names.append(NameState(above, name, len(nodes) - 1))
        if kind is NodeKind.DIRECTORY:
            directories.append(len(nodes) - 1)
    return TreeState(tuple(nodes), tuple(names), draw(st.integers(20, 1 << 40)))


@st.composite
def states(draw: st.DrawFn) -> MachineState:
    """A machine's state; descriptors refer to what is in the tree, to paths, or to nothing."""
    tree = draw(trees())
    numbers = draw(st.lists(st.integers(3, 30), unique=True, max_size=12))
    nodes = list(tree.nodes)
    for _ in range(draw(st.integers(0, min(2, len(numbers))))):
        nodes.append(NodeState(NodeKind.REGULAR, len(nodes) + 1, 1, 2, 3, True, b"unnamed"))
    unnamed = range(len(tree.nodes), len(nodes))
    opened = []
    for i, number in enumerate(sorted(numbers)):
        node = unnamed[i] if i < len(unnamed) else None
        path = draw(st.none() | PATHS) if node is None else None
        kinds = [NodeKind.DIRECTORY, NodeKind.REGULAR]
        opened.append(
            OpenState(
                number,
                draw(st.sampled_from(kinds)) if node is None else NodeKind.REGULAR,
                path,
                node,
                draw(TIMES),
                draw(st.none() | st.binary(min_size=8, max_size=8)),
                draw(st.integers(0, (1 << 64) - 1)),
                draw(TIMES),
                draw(st.integers(0, 31)),
                draw(st.booleans()),
                draw(st.booleans()),
                draw(RIGHTS),
                draw(RIGHTS),
                draw(LISTINGS),
            )
        )
    others = draw(st.lists(st.integers(31, 40), unique=True, max_size=6))
    some = draw(st.integers(0, len(others)))
    preopened = tuple(
        PreopenedState(n, draw(TIMES), draw(st.integers(0, 31)), draw(RIGHTS), draw(RIGHTS),
                       draw(LISTINGS))
        for n in others[:some]
    )  # fmt: skip
    descriptors = DescriptorsState(tuple(opened), preopened, tuple(others[some:]), 41)
    ranges, pages = draw(memories())
    return MachineState(
        template=TEMPLATE.digest,
        memory_size=40 * PAGE,
        ranges=ranges,
        pages=pages,
        descriptors=descriptors,
        temporary=tree._replace(nodes=tuple(nodes)),
        monotonic_ns=draw(st.integers(0, 1 << 62)),
        wall_ns=draw(st.integers(0, 1 << 62)),
    )


@st.composite
def memories(draw: st.DrawFn) -> tuple[tuple[tuple[int, int], ...], bytes]:
    """Ranges of pages, and what is there."""
    ranges, end = [], 0
    for _ in range(draw(st.integers(0, 5))):
        at = end + draw(st.integers(1, 60)) * UNIT
        length = draw(st.integers(1, 3)) * UNIT
        ranges.append((at, length))
        end = at + length
    size = sum(length for _, length in ranges)
    return tuple(ranges), random.Random(draw(st.integers(0, 99))).randbytes(size)


@settings(max_examples=examples(300))
@given(states())
def test_any_state_is_read_as_it_was_written(state: MachineState) -> None:
    snapshot = snapshot_of(state, interpreter=INTERPRETER, template=TEMPLATE, limits=ROOMY, said={})
    assert state_of(bytes(snapshot), TEMPLATE, ROOMY) == state


ROOMY: Any = type(
    "Limits",
    (),
    {
        "memory_bytes": POLICY.memory_bytes,
        "open_files": 40,
        "temporary_bytes": 1 << 20,
        "host_bytes": 1 << 20,
        "workspace_files": 100,
    },
)()


def a_tree() -> MemoryTree:
    quota = Quota(1 << 20, 100, 1 << 20, temporary_bytes=1 << 20, temporary_files=1000)
    return MemoryTree(QuotaMeter(Room(-1, quota, UsageCounter()), temporary=True))


@settings(max_examples=examples(300))
@given(trees(), trees())
def test_any_tree_is_filled_as_it_was_captured(one: TreeState, other: TreeState) -> None:
    tree = a_tree()
    for state in (one, other, one):
        nodes = fill(tree, state)
        again = TreeCapture(tree).state()
        assert normal(again) == normal(state)
        assert tree.last_inode == state.inodes
    sizes = sum(len(one.nodes[each.node].content) for each in one.names)
    used = tree.meter.room._temporary
    assert (used.bytes, used.entries) == (sizes, len(one.names))
    held = sum(each.held for each in nodes)
    assert tree.upkeep.held == held
    tree.root.clear()
    assert tree.upkeep.held == 0
    assert tree.meter.room._temporary == (0, 0)
    assert {node.links for node in nodes[1:]} <= {0}


def normal(state: TreeState) -> set[tuple[Any, ...]]:
    """The tree by inodes, in no order."""
    named = {
        (state.nodes[above].inode, name, state.nodes[node]) for above, name, node in state.names
    }
    return {*named, state.nodes[0]._replace(accessed=0, modified=0, changed=0)}


@settings(max_examples=examples(300))
@given(memories(), memories(), st.integers(0, 3))
def test_any_memory_is_found_and_put_back(
    one: tuple[tuple[tuple[int, int], ...], bytes],
    other: tuple[tuple[tuple[int, int], ...], bytes],
    grown: int,
) -> None:
    size = 32 * PAGE + grown * PAGE
    probe, second = Probe(), Probe()
    try:
        for each in (probe, second):
            TEMPLATE.begin(each.instance)
        assert give(TEMPLATE, probe.instance, size, *one)
        found = changed(TEMPLATE, probe.instance)
        pages = content(probe.instance, found)
        assert set(pages_of(found)) <= set(pages_of(one[0]))
        assert give(TEMPLATE, second.instance, size, *other)
        assert give(TEMPLATE, second.instance, size, found, pages)
        assert same(probe, second)
    finally:
        probe.close()
        second.close()


def pages_of(ranges: Any) -> list[int]:
    return [at for start, length in ranges for at in range(start, start + length, UNIT)]


def same(one: Probe, other: Probe) -> bool:
    memories = one.instance.memory, other.instance.memory
    for each in memories:
        each.refresh()
    sizes = {each.known for each in memories}
    return len(sizes) == 1 and native.are_equal(memories[0].base, memories[1].base, *sizes)
