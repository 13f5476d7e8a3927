"""The files of a person's folder go from machine to machine with the session of an agent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import define

from agentforge_sessions.agents.hooks.work_tree import WorkTree
from agentforge_sessions.fleet.objects import ObjectStoreRefused
from agentforge_sessions.harness.domain.history_events import CheckpointTaken
from agentforge_sessions.repository.git.git_objects import BLOB, COMMIT, TREE, commit_content
from agentforge_sessions.repository.snapshots.manifest import WorkspaceManifest
from agentforge_sessions.repository.snapshots.snapshot_restore import RestoreFailed
from tests.support.machines import Fleet, Machine
from tests.support.mortal_filesystem import Killed, MortalFileSystem
from tests.support.object_stores import FaultyStore
from tests.support.repositories import write_files
from tests.support.soak import SOAKING
from tests.support.trees import Tree, tree_of

FIRST = {"a": "1\n", "below/b": "1\n"}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return fleet_at(tmp_path)


def fleet_at(folder: Path) -> Fleet:
    """Return a fleet without an object store: the one beside the index is for work trees."""
    fleet = Fleet.at(folder / "fleet")
    fleet.index.objects, fleet.objects = fleet.objects, None
    return fleet


@define
class Place:
    """A clone on a machine."""

    machine: Machine
    folder: Path
    session_id: str

    def store(self, **files: str) -> None:
        """Store the files of the end of a turn, and send them."""
        write_files(self.folder, {name.replace("__", "/"): text for name, text in files.items()})
        self.tree().store()
        self.machine.manager.open(self.session_id)
        self.machine.manager.checkpoint_session()
        self.machine.snapshots.send(self.session_id)

    def tree(self) -> WorkTree:
        return WorkTree(self.folder, self.machine.sessions.session_directory(self.session_id))

    def bring(self) -> None:
        """Bring the files of the last checkpoint, as the person said."""
        here = set(self.machine.snapshots.arrive(self.session_id, self.folder).ids())
        self.machine.manager.open(self.session_id)
        known = [one for one in self.machine.manager.checkpoints() if one.snapshot in here]
        self.machine.manager.bring(known[-1].number)
        self.machine.snapshots.stay(self.session_id)

    def files(self) -> Tree:
        return tree_of(self.folder)


def place(fleet: Fleet, name: str, session_id: str | None = None, **machine: object) -> Place:
    """Return the clone of a machine; the first one begins a session there."""
    there = fleet.machine(name, **machine)  # type: ignore[arg-type]
    folder = fleet.folder.parent / f"clone-{name}"
    if not folder.exists():
        write_files(folder, FIRST)
    if session_id is None:
        session_id = there.manager.create("agent", None).session_id
        there.manager.release()
    there.sessions.session_directory(session_id).mkdir(parents=True, exist_ok=True)
    return Place(there, folder, session_id)


def test_files_come_by_the_store_beside_the_index_and_go_back(fleet: Fleet) -> None:
    a = place(fleet, "a")
    a.store(a="2\n", new="new\n")
    b = place(fleet, "b", a.session_id)
    (b.folder / "mine").write_text("of b\n")
    before = b.files()
    assert b.machine.snapshots.worked_on_at(a.session_id) == "a"
    b.bring()
    assert b.files() == a.files()
    assert b.machine.snapshots.worked_on_at(a.session_id) is None
    left = b.machine.manager.checkpoints()[-2]
    b.machine.manager.rewind(left.number)
    assert b.files() == before
    b.store(below__b="of b, too\n")
    assert a.machine.snapshots.worked_on_at(a.session_id) == "b"
    a.bring()
    assert a.files() == b.files()


def test_without_a_store_of_its_own_the_index_brings_nothing(fleet: Fleet) -> None:
    a = place(fleet, "a")
    objects, fleet.index.objects = fleet.index.objects, None
    a.store(a="2\n")
    assert fleet.index.rows == {}
    fleet.index.objects = objects
    assert place(fleet, "b", a.session_id).machine.snapshots.worked_on_at(a.session_id) == "a"


def test_more_than_the_store_beside_the_index_takes_is_refused_before_it_is_packed(
    fleet: Fleet,
) -> None:
    a = place(fleet, "a", most_beside=1000)
    a.store(a="2\n")
    with pytest.raises(ObjectStoreRefused, match=r"\d,\d{3} bytes of new snapshots are too many"):
        a.store(large=os.urandom(3000).hex())
    assert len(fleet.index.rows[a.session_id]) == 1
    a = place(fleet, "a", a.session_id)
    a.machine.snapshots.send(a.session_id)
    b = place(fleet, "b", a.session_id)
    b.bring()
    assert b.files() == a.files()


# --------------------------------------------------------------------------------- what is hostile


def written(place: Place, tree: Callable[[Callable[[str, bytes], str]], bytes]) -> str:
    """Write a snapshot as no program of ours would, and return its id."""
    snapshots = place.tree().snapshots()
    with snapshots.repository.locked() as locked:

        def write(kind: str, content: bytes) -> str:
            return locked.objects.write(kind, content)

        root = write(TREE, tree(write))
        message = b"x\n\n" + WorkspaceManifest().encode() + b"\n"
        commit = write(COMMIT, commit_content(root, (), at_s=1, message=message))
        locked.objects.sync()
        refs = place.tree().directory / "snapshots.git" / "refs" / "snapshots"
        (refs / commit).write_text(f"{commit}\n")
    return commit


def entry(mode: str, name: str, oid: str) -> bytes:
    return f"{mode} {name}\0".encode() + bytes.fromhex(oid)


HOSTILE: dict[str, tuple[Callable[[Callable[[str, bytes], str]], bytes], str]] = {
    "a hook": (
        lambda write: entry(
            "40000",
            ".git",
            write(
                TREE,
                entry("40000", "hooks", write(TREE, entry("100755", "x", write(BLOB, b"x")))),
            ),
        ),
        "git refuses",
    ),
    "another case": (
        lambda write: entry("40000", ".GiT", write(TREE, entry("100644", "x", write(BLOB, b"x")))),
        "git refuses",
    ),
    "a name of Windows": (
        lambda write: entry("40000", "git~1", write(TREE, entry("100644", "x", write(BLOB, b"")))),
        "git refuses",
    ),
    "a name of macOS": (
        lambda write: entry(
            "40000", ".g\u200cit", write(TREE, entry("100644", "x", write(BLOB, b"")))
        ),
        "git refuses",
    ),
    "above": (
        lambda write: entry("40000", "..", write(TREE, entry("100644", "x", write(BLOB, b"x")))),
        "git refuses",
    ),
    "a path as a name": (
        lambda write: entry("100644", "../outside", write(BLOB, b"x")),
        "git refuses",
    ),
    "a link out": (lambda write: entry("120000", "x", write(BLOB, b"../outside")), "leads out"),
    "an absolute link": (lambda write: entry("120000", "x", write(BLOB, b"/etc")), "leads out"),
    "a link over a link": (
        lambda write: (
            entry("120000", "d", write(BLOB, b"."))
            + entry("120000", "x", write(BLOB, b"d/../outside"))
        ),
        "leads out",
    ),
    "a submodule": (lambda write: entry("160000", "x", "1" * 40), "submodule"),
    "our own folder": (
        lambda write: entry(
            "40000", ".agentforge", write(TREE, entry("100644", "config.toml", write(BLOB, b"x")))
        ),
        "no file of a work tree",
    ),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_what_another_machine_may_not_bring_changes_nothing(fleet: Fleet, name: str) -> None:
    tree, reason = HOSTILE[name]
    a = place(fleet, "a")
    a.store(a="2\n")
    commit = written(a, tree)
    session = a.machine.manager.open(a.session_id)
    session.add_event(CheckpointTaken(snapshot=commit))
    a.machine.sessions.save(session)
    a.machine.snapshots.send(a.session_id)
    b = place(fleet, "b", a.session_id)
    before, around = b.files(), sorted(os.listdir(b.folder.parent))
    with pytest.raises(RestoreFailed, match=reason):
        b.bring()
    assert b.files() == before
    assert sorted(os.listdir(b.folder.parent)) == around


# ------------------------------------------------------------------------------------------- kills


def killed(fleet: Fleet, name: str, session_id: str, death: int | None, act: str) -> int:
    """Bring or store the files on a machine, and die at a call; return how many there were."""
    fs, objects = MortalFileSystem(death), fleet.index.objects
    assert objects is not None

    def called(operation: str, key: str = "") -> None:
        fs._step("writev", f"{operation} {key}")

    fleet.index.objects = FaultyStore(objects, called)
    fleet.index.before = called
    try:
        there = place(fleet, name, session_id, fs=fs)
        if act == "bring":
            there.bring()
        else:
            there.store(a="of b\n", below__b="of b, too\n")
    except Killed:
        pass
    finally:
        fleet.index.objects = objects
        fleet.index.before = lambda _: None
    return fs.changes


def journey(folder: Path, death: int | None) -> int:
    """Let files go from a to b and back, dying at the same call of each step; count the calls."""
    fleet = fleet_at(folder)
    a = place(fleet, "a")
    a.store(a="2\n", new="new\n")
    b = place(fleet, "b", a.session_id)
    (b.folder / "a").write_text("of b, before\n")
    calls = killed(fleet, "b", a.session_id, death, "bring")
    heir = place(fleet, "b", a.session_id)
    if heir.machine.snapshots.worked_on_at(a.session_id) is not None:
        heir.bring()
    assert heir.files() == a.files()
    heir.machine.manager.open(a.session_id)
    stored = {one.snapshot for one in heir.machine.manager.checkpoints()}
    (folder / "known").mkdir()
    for number, one in enumerate(stored - {None}):
        heir.tree().snapshots().export(one or "", folder / "known" / str(number))
    assert any(one.read_text() == "of b, before\n" for one in (folder / "known").glob("*/a"))

    calls = max(calls, killed(fleet, "b", a.session_id, death, "store"))
    heir = place(fleet, "b", a.session_id)
    heir.store(a="of b\n", below__b="of b, too\n")
    a.bring()
    assert a.files() == heir.files()
    return calls


def test_a_kill_at_each_call_of_sending_and_bringing_loses_nothing(tmp_path: Path) -> None:
    calls = journey(tmp_path / "clean", None)
    assert calls > 40
    for death in range(0, calls, 1 if SOAKING else 23):
        journey(tmp_path / f"{death}", death)
