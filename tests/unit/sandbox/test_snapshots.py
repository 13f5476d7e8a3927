"""What a snapshot says is checked, field by field, before any of it is used."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from agentforge_sessions.base.files import ReadError
from agentforge_sessions.sandbox import ExecutionPolicy
from agentforge_sessions.sandbox.errors import SandboxError
from agentforge_sessions.sandbox.host.template import Template
from agentforge_sessions.sandbox.live.errors import ProgramSnapshotDamaged, ProgramSnapshotRefused
from agentforge_sessions.sandbox.live.snapshot_file import ProgramSnapshot, snapshot_of
from agentforge_sessions.sandbox.live.state.pages import pack, unpack
from tests.support.made_snapshots import (
    CONTENT,
    HEAD,
    INTERPRETER,
    MEMORY,
    POLICY,
    UNIT,
    description_of,
    index,
    made,
    sealed,
    small_template,
    state_of,
)

NAN: Final = float("nan")


@pytest.fixture(scope="module")
def template() -> Template:
    return small_template()


def test_what_is_written_is_read_again(template: Template) -> None:
    state = state_of(made(template), template)
    assert state.pages == bytes(3 * UNIT)
    assert state.memory_size == MEMORY
    assert [each.number for each in state.descriptors.opened] == [8, 9, 11, 12]
    assert state.temporary.nodes[4].content == b"67"
    snapshot = snapshot_of(
        state, interpreter=INTERPRETER, template=template, limits=POLICY, said={"a": 1}
    )
    assert state_of(bytes(snapshot), template) == state
    assert ProgramSnapshot(bytes(snapshot)).description.said == {"a": 1}
    assert bytes(made(template)) != bytes(snapshot)  # the digests differ: it says something else


def put(name: str, *path: Any) -> Callable[[dict[str, Any]], None]:
    """Have a field be another one; the last of the path is the value."""
    *keys, value = path

    def change(given: dict[str, Any]) -> None:
        here: Any = given
        for key in (name, *keys[:-1]) if keys else ():
            here = here[key]
        here[keys[-1] if keys else name] = value

    return change


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda given: given.pop(name)


PAGES_BEYOND: Final = MEMORY // UNIT
DESCRIPTIONS: Final = [
    put("module", "a" * 63),
    put("module", "A" * 64),
    put("module", None),
    put("library", 5),
    put("template", "../" + "a" * 61),
    put("template", "a" * 64 + "\n"),
    *(put("memory_size", each) for each in (0, -65536, 65535, MEMORY + 1, 1 << 33, "1", 1.5, True)),
    put("memory_size", 65536),
    put("memory_size", 1 << 31),
    put("memory_size", NAN),
    put("ranges", "x"),
    put("ranges", [3]),
    put("ranges", [3, 0]),
    put("ranges", [-1, 3]),
    put("ranges", [3, 2, 0, 1]),
    put("ranges", [3, -2, 7, 1]),
    put("ranges", [3, PAGES_BEYOND]),
    put("ranges", [PAGES_BEYOND, 1]),
    put("ranges", [1 << 70, 1]),
    put("ranges", [1.0, 1]),
    put("ranges", [[3, 2]]),
    put("ranges", [1] * (PAGES_BEYOND + 2)),
    put("ranges", [3, 2]),
    put("ranges", [3, 4]),
    put("monotonic_ns", -1),
    put("monotonic_ns", 10**30),
    put("monotonic_ns", 0.5),
    put("wall_ns", -1),
    put("wall_ns", 10**30),
    put("wall_ns", None),
    *(put("index_bytes", each) for each in (0, -1, 1, 5 << 20, 1 << 40, "2")),
    *(put("content_bytes", each) for each in (-1, 0, 54, 1 << 50, 2 << 20, 1.0)),
    *(put("attached_bytes", each) for each in (-1, 1 << 50, None)),
    put("said", []),
    put("said", "x"),
    put("more", 1),
    *(without(name) for name in ("module", "memory_size", "ranges", "said", "wall_ns")),
]


@pytest.mark.parametrize("change", DESCRIPTIONS)
def test_a_wrong_description_is_refused(
    template: Template, change: Callable[[dict[str, Any]], None]
) -> None:
    given = {**description_of(template), "index_bytes": len(json.dumps(index()))}
    given["content_bytes"] = len(CONTENT)
    change(given)
    with pytest.raises(ProgramSnapshotRefused):
        state_of(made(template, given), template)


FILE, UNNAMED, DIRECTORY = 0, 1, 2
INDEXES: Final = [
    *(put("opened", FILE, 0, each) for each in (2, -1, 13, 9, 3, 10, "x", 3.0, 1 << 40, True)),
    *(put("opened", FILE, 1, each) for each in (0, 7, 6, "4", None, 1 << 70)),
    *(put("opened", FILE, 2, each) for each in (5, "a\0b", "x" * 4097, "\ud800", ["a"])),
    *(put("opened", FILE, 3, each) for each in (1, 0, -1, 5)),
    put("opened", UNNAMED, 1, 3),
    *(put("opened", UNNAMED, 3, each) for each in (5, -1, 3, 2, None, "4")),
    *(put("opened", FILE, 4, each) for each in (-1, 1 << 63, None)),
    *(put("opened", FILE, 5, each) for each in ("", "a" * 17, "g" * 16, 5)),
    *(put("opened", FILE, 6, each) for each in (-1, 1 << 64, None)),
    *(put("opened", FILE, 7, each) for each in (-1, 1 << 63, 0.5, None)),
    *(put("opened", FILE, 8, each) for each in (-1, 32, None)),
    *(put("opened", FILE, 9, each) for each in (1, "yes", None)),
    *(put("opened", FILE, 10, each) for each in (0, None)),
    *(put("opened", FILE, each, 1 << 30) for each in (11, 12)),
    *(put("opened", DIRECTORY, 13, each) for each in (-1, 23, 25, 1 << 50, "24")),
    put("opened", FILE, []),
    put("opened", FILE, {}),
    put("opened", None),
    put("opened", [index()["opened"][FILE]] * 2),
    put(
        "opened",
        [[n + 3, 4, "a", None, 1, None, 0, 0, 0, True, False, 0, 0, None] for n in range(17)],
    ),
    put("preopened", 0, 0, 8),
    put("preopened", 0, 1, -1),
    put("preopened", 0, 2, 99),
    put("preopened", 0, 3, -1),
    put("preopened", 0, 4, 1 << 31),
    put("preopened", 1, 5, -24),
    put("preopened", [[3, 0, 0, 0, 0, None]] * 99),
    *(put("free", [each]) for each in (2, 8, 13, -1, "10", 1 << 40)),
    put("free", [10, 10]),
    put("free", [10] * 999),
    *(put("following", each) for each in (3, 12, 0, -1, 81, 1 << 40, "13")),
    put("nodes", []),
    put("nodes", {}),
    put("nodes", 0, 0, 4),
    *(put("nodes", 1, 0, each) for each in (0, 3, 7, 5, None)),
    *(put("nodes", 1, 1, each) for each in (0, 1, 10, -1, 1 << 70, None)),
    *(put("nodes", 1, each, -1) for each in (2, 3, 4)),
    put("nodes", 1, 4, 1 << 63),
    *(put("nodes", 1, 5, each) for each in (False, 1, None)),
    *(put("nodes", 1, 6, each) for each in (-1, 4, 6, 1 << 40, "5", None)),
    *(put("nodes", 2, 6, each) for each in ("", "/etc", "a\0b", "x" * 4097, 5)),
    put("nodes", 3, 6, "x"),
    put("nodes", 1, [4, 2]),
    put("nodes", index()["nodes"] * 9),
    *(put("names", 0, 0, each) for each in (1, 2, 3, -1, 5, None)),
    *(
        put("names", 0, 1, each)
        for each in ("", ".", "..", "a/b", "/", "a\0b", "x" * 256, "\udfff", 5, "below")
    ),
    *(put("names", 0, 2, each) for each in (0, 5, -1, None)),
    *(put("names", 1, 2, each) for each in (0, 1)),
    put("names", 2, 0, "x"),
    put("names", [[0, "file", 1], [0, "link", 2]]),
    put("names", [[0, "below", 3], [0, "again", 3], [0, "file", 1], [0, "link", 2]]),
    put("names", [[3, "below", 3], [0, "file", 1], [0, "link", 2]]),
    put("names", [[0, str(i), 1] for i in range(99)]),
    *(put("inodes", each) for each in (0, 8, -1, 1 << 70)),
    put("more", 1),
    *(without(name) for name in ("opened", "free", "nodes", "names", "inodes")),
]


@pytest.mark.parametrize("change", INDEXES)
def test_a_wrong_index_is_refused(
    template: Template, change: Callable[[dict[str, Any]], None]
) -> None:
    given = index()
    change(given)
    with pytest.raises(ProgramSnapshotRefused):
        state_of(made(template, listed=given), template)


def nested(depth: int) -> dict[str, Any]:
    """An index of directories in directories."""
    directories = [[3, i, 1, 2, 3, True, ""] for i in range(1, depth + 2)]
    names = [[i, "d", i + 1] for i in range(depth)]
    return {**index(), "opened": [], "nodes": directories, "names": names, "inodes": depth + 1}


def test_directories_are_nested_as_deeply_as_a_guest_may(template: Template) -> None:
    policy = ExecutionPolicy(memory_bytes=64 << 20)
    listing = bytes(24)
    assert state_of(made(template, listed=nested(128), content=listing), template, policy)
    with pytest.raises(ProgramSnapshotDamaged, match="nested too deeply"):
        state_of(made(template, listed=nested(129), content=listing), template, policy)


def test_limits_are_those_of_the_policy(template: Template) -> None:
    large = {**description_of(template), "memory_size": 1 << 27}
    with pytest.raises(ProgramSnapshotRefused, match=r"67,108,864 are allowed.*raise the limit"):
        state_of(made(template, large), template)
    many, listings = index(), bytes((4 << 20) + 1 - 24)
    many["opened"][DIRECTORY][13] = len(listings)
    with pytest.raises(ProgramSnapshotRefused, match="listings are too long"):
        state_of(made(template, listed=many, content=CONTENT[:31] + listings), template)
    many["opened"][DIRECTORY][13] -= 1
    assert state_of(made(template, listed=many, content=CONTENT[:31] + listings[:-1]), template)


NO_SNAPSHOTS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "empty": lambda data: b"",
    "a head alone": lambda data: data[: HEAD.size],
    "half a head": lambda data: data[:20],
    "another magic": lambda data: b"AFLIVE02" + data[8:],
    "cut short": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "a bit of the head": lambda data: data[:14] + bytes([data[14] ^ 1]) + data[15:],
    "a bit of the digest": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "a bit of the end": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "lengths past the end": lambda data: HEAD.pack(b"AFLIVE01", 1, 1 << 63, 1 << 63, 0, 0, b""),
    "a description that is too long": lambda data: sealed(
        (b" " * (1 << 20) + b"{}", b"", b"", b"")
    ),
    "no JSON": lambda data: sealed((b"{", b"", b"", b"")),
    "nested JSON": lambda data: sealed((b"[" * 100_000, b"", b"", b"")),
    "no object": lambda data: sealed((b"[]", b"", b"", b"")),
    "no text": lambda data: sealed((b"\xff\xfe", b"", b"", b"")),
}


@pytest.mark.parametrize("change", NO_SNAPSHOTS.values(), ids=NO_SNAPSHOTS)
def test_what_is_no_snapshot_is_refused(
    template: Template, change: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(ProgramSnapshotDamaged):
        ProgramSnapshot(change(made(template)))


def test_another_form_is_refused_by_its_number(template: Template) -> None:
    with pytest.raises(ProgramSnapshotRefused, match=r"form 2.*the release that saved it"):
        ProgramSnapshot(made(template, form=2))


def test_another_interpreter_or_template_is_refused(template: Template) -> None:
    snapshot = ProgramSnapshot(made(template))
    for interpreter, found in (
        (INTERPRETER._replace(module="c" * 64), template),
        (INTERPRETER._replace(library="c" * 64), template),
        (INTERPRETER, None),
    ):
        with pytest.raises(ProgramSnapshotRefused, match="restore it with the release") as refused:
            snapshot.state(
                interpreter=interpreter, template_of=lambda _, one=found: one, limits=POLICY
            )
        assert isinstance(refused.value, SandboxError)
    wrong = {**description_of(template), "template": "d" * 64}
    with pytest.raises(ProgramSnapshotRefused):
        ProgramSnapshot(made(template, wrong)).state(
            interpreter=INTERPRETER, template_of=lambda _: template, limits=POLICY
        )


@pytest.mark.parametrize(
    "pages",
    [b"", b"x", pack(bytes(3 * UNIT + 1)), pack(bytes(3 * UNIT - 1)), pack(bytes(3 * UNIT)) + b"x",
     pack(bytes(3 * UNIT)) * 2, pack(b"")],
)  # fmt: skip
def test_pages_are_unpacked_to_exactly_their_size(template: Template, pages: bytes) -> None:
    with pytest.raises(ProgramSnapshotDamaged):
        state_of(made(template, pages=pages), template)


def test_no_more_is_unpacked_than_a_snapshot_says() -> None:
    bomb = pack(bytes(64 << 20))
    assert len(bomb) < 10_000
    with pytest.raises(ProgramSnapshotDamaged, match="another size"):
        unpack(bomb, 100)


def test_what_is_attached_is_bounded_and_read_back(template: Template) -> None:
    state = state_of(made(template), template)
    snapshot = snapshot_of(
        state,
        interpreter=INTERPRETER,
        template=template,
        limits=POLICY,
        said={},
        attached=b"journal" * 999,
    )
    assert snapshot.attached(7000) == b"journal" * 999
    assert ProgramSnapshot(made(template)).attached(0) == b""
    with pytest.raises(ProgramSnapshotRefused, match="6,993 bytes attached"):
        snapshot.attached(6992)
    lies = {**description_of(template), "attached_bytes": 3}
    with pytest.raises(ProgramSnapshotDamaged):
        ProgramSnapshot(made(template, lies, attached=b"four")).attached(1 << 20)


def test_what_could_not_be_restored_is_not_saved(template: Template) -> None:
    state = state_of(made(template), template)
    nodes = list(state.temporary.nodes)
    nodes[1] = nodes[1]._replace(content=bytes((1 << 20) + 1))
    large = state._replace(temporary=state.temporary._replace(nodes=tuple(nodes)))
    for one, said, what in (
        (large, {}, "bytes in /tmp"),
        (state, {"x": "y" * (1 << 20)}, "bytes in its description"),
    ):
        with pytest.raises(ProgramSnapshotRefused, match=what):
            snapshot_of(one, interpreter=INTERPRETER, template=template, limits=POLICY, said=said)


def test_a_file_of_it_is_private_and_read_back(template: Template, tmp_path: Path) -> None:
    snapshot, place = ProgramSnapshot(made(template)), tmp_path / "state.aflive"
    old = os.umask(0)
    try:
        snapshot.save(place)
    finally:
        os.umask(old)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    again = ProgramSnapshot.load(place)
    assert again is not None
    assert (again.digest, bytes(again), len(again)) == (
        snapshot.digest,
        bytes(snapshot),
        place.stat().st_size,
    )
    assert os.listdir(tmp_path) == ["state.aflive"]


def test_no_file_is_no_snapshot_and_a_link_is_not_followed(
    template: Template, tmp_path: Path
) -> None:
    assert ProgramSnapshot.load(tmp_path / "none") is None
    ProgramSnapshot(made(template)).save(tmp_path / "one")
    (tmp_path / "link").symlink_to("one")
    for name, most in (("link", 1 << 20), ("one", 10)):
        with pytest.raises(ReadError):
            ProgramSnapshot.load(tmp_path / name, most=most)
