"""Workspaces go from machine to machine with the session that they belong to."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import IO

import pytest

from agentforge_sessions.base.clock import utc_now
from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.fleet.objects import ObjectDamaged, ObjectMissing, ObjectStoreUnavailable
from agentforge_sessions.fleet.objects.folder_store import FolderStore
from agentforge_sessions.fleet.objects.place import trim
from agentforge_sessions.fleet.objects.workspace_packs import (
    WorkspaceElsewhere,
    WorkspaceMoved,
    collect,
)
from agentforge_sessions.harness import SessionContext
from agentforge_sessions.harness.session_layout import AGENT_STATE
from agentforge_sessions.repository.apply.apply_plan import ApplyOptions
from tests.support.filesystem import FaultyFileSystem, nth_call
from tests.support.machines import PLAN, Fleet, Machine
from tests.support.memory_packs import MemoryPacks
from tests.support.mortal_filesystem import Killed, MortalFileSystem
from tests.support.object_stores import FaultyStore
from tests.support.repositories import new_checkout, plain_git
from tests.support.soak import SOAKING
from tests.support.trees import Tree, tree_of


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet.at(tmp_path / "fleet")


def begun(machine: Machine, **files: str) -> str:
    """Begin a session on a machine, with a checkpoint of these files."""
    machine.manager.release()
    session = machine.manager.create("work", "one", attachments=PLAN)
    session_id = session.session_id
    machine.take_up(session_id)
    machine.write(session_id, **files)
    machine.manager.checkpoint_session()
    return session_id


def test_a_session_goes_on_elsewhere_with_the_files_of_its_last_checkpoint(fleet: Fleet) -> None:
    a, b = fleet.machine("a"), fleet.machine("b")
    session_id = begun(a, kept="kept\n", src__changed="one\n", deleted="x\n")
    (a.workspace(session_id) / "kept").chmod(0o755)
    (a.workspace(session_id) / "empty").mkdir()
    a.write(session_id, src__changed="two\n")
    (a.workspace(session_id) / "deleted").unlink()
    a.manager.checkpoint_session()
    at_checkpoint = a.files(session_id)
    a.write(session_id, half="of what the phase would have done\n")

    b.take_up(session_id)
    assert b.files(session_id) == at_checkpoint
    b.write(session_id, by_b="b\n")
    b.manager.checkpoint_session()
    by_b = b.files(session_id)
    b.write(session_id, half="b's\n")

    a.take_up(session_id)
    assert a.files(session_id) == by_b
    a.write(session_id, by_a="a\n")
    a.manager.checkpoint_session()
    by_a = a.files(session_id)

    b.take_up(session_id)
    assert b.files(session_id) == by_a


def test_on_the_same_machine_a_worker_goes_on_with_what_the_killed_one_left(fleet: Fleet) -> None:
    session_id = begun(fleet.machine("a"), one="1\n")
    fleet.machine("a").write(session_id, half="half\n")
    again = fleet.machine("a")
    again.take_up(session_id)
    assert (again.workspace(session_id) / "half").read_text() == "half\n"


def test_a_session_without_a_checkpoint_begins_anew_elsewhere(fleet: Fleet) -> None:
    a, b = fleet.machine("a"), fleet.machine("b")
    session_id = a.manager.create("work", "one", attachments=PLAN).session_id
    a.take_up(session_id)
    a.write(session_id, placed="by a\n")
    b.take_up(session_id)
    assert b.files(session_id) == {}
    b.write(session_id, placed="by b\n")
    a.take_up(session_id)
    assert a.files(session_id) == {}


def test_what_is_known_at_both_ends_is_sent_once(fleet: Fleet) -> None:
    store = FaultyStore(fleet.objects)  # type: ignore[arg-type]
    fleet.objects = store
    a, b = fleet.machine("a"), fleet.machine("b")
    large = os.urandom(50_000).hex()
    session_id = begun(a, one="1\n", large=large)
    a.manager.checkpoint_session()  # nothing changed
    assert [operation for operation, _ in store.calls] == ["put"]
    for machine, text in ((b, "2\n"), (a, "3\n"), (b, "4\n")):
        machine.take_up(session_id)
        machine.write(session_id, one=text)
        machine.manager.checkpoint_session()
    gets = [key for operation, key in store.calls if operation == "get"]
    assert len(gets) == 3  # one for each move
    assert len(set(gets)) == 3
    sizes = sorted(one.size for one in store.list())
    assert len(sizes) == 4
    assert sizes[2] < 1000 < 50_000 < sizes[3]


def test_a_stale_folder_and_half_a_folder_become_what_the_checkpoint_says(fleet: Fleet) -> None:
    a, b = fleet.machine("a"), fleet.machine("b")
    session_id = begun(a, one="1\n")
    b.take_up(session_id)
    b.write(session_id, two="2\n")
    b.manager.checkpoint_session()
    wanted = b.files(session_id)
    shutil.rmtree(a.sessions.session_directory(session_id) / "snapshots.git")
    a.take_up(session_id)
    assert a.files(session_id) == wanted
    shutil.rmtree(a.workspace(session_id))
    a.take_up(session_id)
    assert a.files(session_id) == wanted
    shutil.rmtree(a.sessions.session_directory(session_id))
    a.take_up(session_id)
    assert a.files(session_id) == wanted


# ------------------------------------------------------------------------- going back, and forks


def test_going_back_elsewhere_is_done_once_and_what_came_after_it_stays(fleet: Fleet) -> None:
    a, b = fleet.machine("a"), fleet.machine("b")
    session_id = begun(a, one="1\n")
    first = a.files(session_id)
    a.write(session_id, two="2\n")
    a.manager.checkpoint_session()

    b.manager.open(session_id)
    b.manager.rewind(1)
    assert b.files(session_id) == first
    b.write(session_id, three="3\n")
    b.manager.checkpoint_session()
    after = b.files(session_id)

    a.take_up(session_id)
    assert a.files(session_id) == after
    a.take_up(session_id)
    assert a.files(session_id) == after


def test_a_fork_begins_on_any_machine_and_goes_on_on_another(fleet: Fleet) -> None:
    a, b, c = (fleet.machine(name) for name in "abc")
    session_id = begun(a, one="1\n")
    first = a.files(session_id)
    a.write(session_id, two="2\n")
    a.manager.checkpoint_session()

    b.manager.open(session_id)
    fork = b.manager.fork(1).session_id
    assert b.files(fork) == first
    c.take_up(fork)
    assert c.files(fork) == first
    c.write(fork, three="3\n")
    c.manager.checkpoint_session()
    c.sessions.delete(session_id)
    b.take_up(fork)
    assert b.files(fork) == c.files(fork)


def test_results_are_read_where_the_session_never_ran(fleet: Fleet, tmp_path: Path) -> None:
    a, desk = fleet.machine("a"), fleet.machine("desk")
    session_id = begun(a, one="1\n")
    a.write(session_id, one="2\n", two="2\n")
    a.manager.checkpoint_session()
    a.write(session_id, half="not yet\n")

    session = desk.manager.open(session_id)
    assert [one.path for one in desk.manager.diff(1, 2).files] == ["one", "two"]
    assert [one.path for one in desk.manager.diff().files] == ["one", "two"]
    desk.results.export(session, tmp_path / "exported")
    assert (tmp_path / "exported" / "one").read_text() == "2\n"
    assert not (tmp_path / "exported" / "half").exists()
    assert not desk.workspace(session_id).exists()
    a.take_up(session_id)
    assert (a.workspace(session_id) / "half").exists()  # reading elsewhere takes nothing away
    assert [one.path for one in a.manager.diff(2).files] == ["half"]


# ------------------------------------------------------------------------- a person's repository


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    top = new_checkout(tmp_path / "theirs", {"README": "one\n", "src/a": "a\n"})
    (top / "README").write_text("two\n")
    plain_git(top, "commit", "-qam", "second")
    return top


def on_repository(machine: Machine, checkout: Path, *, uncommitted: bool = False) -> str:
    attachments = machine.snapshots.attachments(checkout, "HEAD", with_uncommitted=uncommitted)
    manager = machine.manager
    return manager.create("work", "one", attachments={**PLAN, **attachments}).session_id


@pytest.mark.parametrize("uncommitted", [False, True])
def test_a_base_travels_without_the_repository_and_its_history(
    fleet: Fleet, checkout: Path, tmp_path: Path, uncommitted: bool
) -> None:
    history = plain_git(checkout, "rev-parse", "HEAD~1:README").stdout.decode().strip()
    (checkout / "src" / "a").write_text("not committed\n")
    a, b, c = (fleet.machine(name) for name in "abc")
    session_id = on_repository(a, checkout, uncommitted=uncommitted)
    begun_with = a.files(session_id)
    assert set(begun_with) == {b"README", b"src", b"src/a"}
    checkout.rename(tmp_path / "moved")

    b.take_up(session_id)
    assert b.files(session_id) == begun_with
    b.write(session_id, result="r\n")
    b.manager.checkpoint_session()
    kept = b.snapshots.of(session_id).repository.directory
    assert plain_git(kept, "cat-file", "-e", history, check=False).returncode != 0
    plain_git(kept, "fsck", "--strict", "--no-dangling")
    c.take_up(session_id)
    assert c.files(session_id) == b.files(session_id)

    session = c.manager.open(session_id)
    plain_git(tmp_path / "moved", "checkout", "-q", ".")
    c.results.apply(session, ApplyOptions(), checkout=tmp_path / "moved")
    assert (tmp_path / "moved" / "result").read_text() == "r\n"
    c.manager.open(session_id)
    fork = c.manager.fork(1).session_id
    a.take_up(fork)
    assert a.files(fork) == begun_with


def test_a_base_whose_checkout_was_not_yet_recorded_is_finished_elsewhere(
    fleet: Fleet, checkout: Path, tmp_path: Path
) -> None:
    a, b = fleet.machine("a"), fleet.machine("b")
    session_id = on_repository(a, checkout)
    begun_with = a.files(session_id)
    first = a.manager.open(session_id)
    fleet.shelf.documents[session_id] = _before_it_was_prepared(first, fleet)
    checkout.rename(tmp_path / "moved")
    b.take_up(session_id)
    assert b.files(session_id) == begun_with
    assert [one.action for one in b.manager.open(session_id).history][-1] == "workspace_prepared"


def _before_it_was_prepared(session: SessionContext, fleet: Fleet) -> bytes:
    from agentforge_sessions.harness.format.session_codec import SessionEncoder

    session.history = [one for one in session.history if one.action != "workspace_prepared"]
    return b"".join(SessionEncoder().encode(session, revision=session.revision))


def test_a_repository_that_was_never_stored_is_refused_with_words(
    fleet: Fleet, checkout: Path, tmp_path: Path
) -> None:
    fleet.objects = None
    a, b = fleet.machine("a"), fleet.machine("b")
    session_id = on_repository(a, checkout)
    checkout.rename(tmp_path / "moved")
    with pytest.raises(WorkspaceElsewhere, match="no object store") as refused:
        b.take_up(session_id)
    assert (refused.value.session_id, refused.value.host) == (session_id, "a")
    assert not b.workspace(session_id).exists()


# --------------------------------------------------------------------------------- what goes wrong


def test_without_an_object_store_a_worker_elsewhere_refuses(fleet: Fleet) -> None:
    fleet.objects = None
    a, b = fleet.machine("a"), fleet.machine("b")
    session_id = begun(a, one="1\n")
    a.take_up(session_id)
    with pytest.raises(WorkspaceElsewhere, match=r"the machine a.*AGENTFORGE_OBJECTS"):
        b.take_up(session_id)
    assert not b.workspace(session_id).exists()
    again = fleet.machine("a")
    again.take_up(session_id)
    assert again.names(session_id) == {"one"}


def test_a_store_that_is_configured_later_gets_what_was_kept_before(fleet: Fleet) -> None:
    objects, fleet.objects = fleet.objects, None
    session_id = begun(fleet.machine("a"), one="1\n")
    fleet.objects = objects
    a, b = fleet.machine("a"), fleet.machine("b")
    a.take_up(session_id)
    a.manager.checkpoint_session()
    b.take_up(session_id)
    assert b.files(session_id) == a.files(session_id)


def test_a_checkpoint_that_could_not_be_kept_is_refused_elsewhere(fleet: Fleet) -> None:
    a, b = fleet.machine("a"), fleet.machine("b")
    session_id = begun(a, one="1\n")
    os.mkfifo(a.workspace(session_id) / "pipe")
    a.manager.checkpoint_session()
    with pytest.raises(WorkspaceElsewhere, match="pipe"):
        b.take_up(session_id)
    b.manager.open(session_id)
    fork = b.manager.fork(1).session_id
    assert b.names(fork) == {"one"}


def test_a_store_that_is_away_fails_the_checkpoint_and_nothing_is_recorded(fleet: Fleet) -> None:
    objects, a = fleet.objects, fleet.machine("a")
    session_id = begun(a, one="1\n")

    def away(operation: str, key: str) -> None:
        raise ObjectStoreUnavailable(store="x", reason="it is away")

    fleet.objects = FaultyStore(objects, away)  # type: ignore[arg-type]
    cut_off = fleet.machine("a")
    cut_off.take_up(session_id)
    cut_off.write(session_id, two="2\n")
    before = fleet.shelf.documents[session_id]
    with pytest.raises(ObjectStoreUnavailable):
        cut_off.manager.checkpoint_session()
    assert fleet.shelf.documents[session_id] == before
    fleet.objects = objects
    again, b = fleet.machine("a"), fleet.machine("b")
    again.take_up(session_id)
    again.manager.checkpoint_session()
    b.take_up(session_id)
    assert b.names(session_id) == {"one", "two"}


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda file: file.unlink(), ObjectMissing),
        (lambda file: file.write_bytes(file.read_bytes()[:-9] + b"different"), ObjectDamaged),
        (lambda file: file.write_bytes(b""), ObjectDamaged),
    ],
    ids=["missing", "damaged", "empty"],
)
def test_a_pack_that_is_missing_or_damaged_is_named_and_nothing_begins(
    fleet: Fleet, spoil: Callable[[Path], object], error: type[AgentForgeError]
) -> None:
    a, b = fleet.machine("a"), fleet.machine("b")
    session_id = begun(a, one="1\n")
    a.write(session_id, two="2\n")
    a.manager.checkpoint_session()
    key = fleet.index.rows[session_id][1].key
    file = fleet.folder / "objects" / key
    whole = file.read_bytes()
    spoil(file)
    with pytest.raises(error) as raised:
        b.take_up(session_id)
    assert raised.value.fields["key"] == key
    assert not b.workspace(session_id).exists()
    assert fleet.index.places[session_id].host == "a"
    file.write_bytes(whole)
    b.take_up(session_id)
    assert b.files(session_id) == a.files(session_id)


def test_a_row_that_names_an_object_of_another_session_brings_nothing_of_it(fleet: Fleet) -> None:
    """A row is what whoever writes to the index says; the object store is everybody's."""
    a, b = fleet.machine("a"), fleet.machine("b")
    theirs, mine = begun(a, secret="theirs\n"), begun(a, one="1\n")
    (row,) = fleet.index.rows[theirs]
    fleet.index.rows[mine] = [row]
    with pytest.raises(ObjectMissing):
        b.take_up(mine)
    assert not b.workspace(mine).exists()


def test_a_pack_that_is_damaged_on_its_way_is_fetched_again(fleet: Fleet) -> None:
    a = fleet.machine("a")
    session_id = begun(a, one="1\n")
    fleet.objects = FaultyStore(fleet.objects, damage=1)  # type: ignore[arg-type]
    b = fleet.machine("b")
    b.take_up(session_id)
    assert b.files(session_id) == a.files(session_id)


def test_one_that_was_slow_to_take_a_session_up_lets_go_of_it(fleet: Fleet) -> None:
    a, b, c = (fleet.machine(name) for name in "abc")
    session_id = begun(a, one="1\n")
    inner = fleet.objects
    assert inner is not None

    def meanwhile(operation: str, key: str) -> None:
        slow.before = None
        c.take_up(session_id)
        c.write(session_id, by_c="c\n")
        c.manager.checkpoint_session()

    slow = FaultyStore(inner, meanwhile)
    fleet.objects = slow
    late = fleet.machine("b")
    with pytest.raises(WorkspaceMoved) as moved:
        late.take_up(session_id)
    assert moved.value.retryable
    assert fleet.index.places[session_id].host == "c"
    b.take_up(session_id)
    assert b.files(session_id) == c.files(session_id)


# ------------------------------------------------------------------------------------- housekeeping


def test_packs_that_no_session_names_are_collected_after_a_day(fleet: Fleet) -> None:
    a = fleet.machine("a")
    kept, deleted = begun(a, one="1\n"), begun(a, two="2\n")
    objects = fleet.objects
    assert isinstance(objects, FolderStore)
    (objects.root / "somebody").mkdir()
    (objects.root / "somebody" / "else").write_bytes(b"theirs")
    ours = objects.root / fleet.index.space
    (ours / kept / f".{'a' * 64}.pack.new-0123456789abcdef.tmp").write_bytes(b"killed")
    a.sessions.delete(deleted)

    assert collect(fleet.index, objects).objects == 0
    found = collect(fleet.index, objects, clock=lambda: utc_now() + timedelta(hours=25))
    assert found.objects == 2
    assert found.size > 0
    assert {one.key.split("/")[-2] for one in objects.list()} == {kept, "somebody"}
    b = fleet.machine("b")
    b.take_up(kept)
    assert b.names(kept) == {"one"}


def test_the_packs_of_another_store_in_the_same_place_are_not_collected(fleet: Fleet) -> None:
    begun(fleet.machine("a"), one="1\n")
    objects = fleet.objects
    assert objects is not None
    stored = [one.key for one in objects.list()]
    another = MemoryPacks(space="0123456789abcdef")
    assert collect(another, objects, clock=lambda: utc_now() + timedelta(days=9)).objects == 0
    assert [one.key for one in objects.list()] == stored != []


def test_a_pack_that_a_killed_worker_left_is_named_by_the_next_or_stored_again(
    fleet: Fleet,
) -> None:
    a = fleet.machine("a")
    session_id = begun(a, one="1\n")
    former = fleet.index.rows.pop(session_id)  # as if it had been killed before it named it
    objects = fleet.objects
    assert objects is not None

    def collected(operation: str) -> None:
        if operation == "exclusive":
            objects.delete(former[0].key)

    fleet.index.before = collected
    again = fleet.machine("a")
    again.take_up(session_id)
    again.manager.checkpoint_session()
    assert fleet.index.rows[session_id] == former
    fleet.index.before = lambda _: None
    b = fleet.machine("b")
    b.take_up(session_id)
    assert b.files(session_id) == a.files(session_id)


def test_many_packs_become_one_where_the_session_is_worked_in(fleet: Fleet) -> None:
    a, b = fleet.machine("a", many=6), fleet.machine("b", many=6)
    session_id = begun(a, one="1\n")
    for number in range(5):
        assert len(fleet.index.rows[session_id]) == number + 1
        a.manager.sweep_snapshots()
        a.write(session_id, one=f"n{number}\n")
        a.manager.checkpoint_session()
    b.take_up(session_id)
    b.manager.sweep_snapshots()
    rows = fleet.index.rows[session_id]
    assert len(rows) == 1
    a.manager.open(session_id)
    a.manager.sweep_snapshots()  # it is not worked in here
    assert fleet.index.rows[session_id] == rows
    c = fleet.machine("c")
    c.take_up(session_id)
    assert c.files(session_id) == b.files(session_id)
    c.manager.rewind(3)
    assert (c.workspace(session_id) / "one").read_text() == "n1\n"


def test_what_went_elsewhere_or_ended_makes_room_and_nothing_else(fleet: Fleet) -> None:
    a, b = fleet.machine("a"), fleet.machine("b")
    here, moved, ended, used = (begun(a, one=f"{number}\n" * 5000) for number in range(4))
    for session_id in (moved, used):
        b.take_up(session_id)
    a.manager.open(ended)
    a.manager.complete()
    a.write(here, half="not kept yet\n")
    (a.sessions.session_directory(moved) / "session.yaml").write_text("another store's")
    lock = a.sessions.run_lock(used, "workflow.yaml", timeout_s=0)
    lock.acquire()
    place = fleet.index.places[here].place
    base = a.sessions.base_path

    assert trim(a.sessions, fleet.index, place, max_bytes=1 << 40) == []
    assert trim(a.sessions, fleet.index, place, max_bytes=0) == [ended]
    lock.release()
    (a.sessions.session_directory(moved) / "session.yaml").unlink()
    assert set(trim(a.sessions, fleet.index, place, max_bytes=0)) == {moved, used}
    assert {one for one in os.listdir(base) if not one.startswith(".")} == {here}
    assert (a.workspace(here) / "half").exists()

    session = a.manager.open(ended)
    a.results.export(session, fleet.folder / "exported")
    assert (fleet.folder / "exported" / "one").stat().st_size == 10_000
    a.take_up(moved)
    assert a.names(moved) == {"one"}


def test_what_an_agents_program_keeps_travels_with_the_checkpoint(fleet: Fleet) -> None:
    a, b, c = (fleet.machine(name) for name in "abc")
    session_id = begun(a, one="1\n")

    def states(machine: Machine) -> Tree:
        return tree_of(machine.sessions.session_directory(session_id) / AGENT_STATE)

    state = a.sessions.session_directory(session_id) / AGENT_STATE / "one-1-1"
    state.mkdir(parents=True)
    (state / "conversation").write_text("hello\n")
    a.manager.checkpoint_session()
    b.take_up(session_id)
    assert states(b) == states(a)
    (b.sessions.session_directory(session_id) / AGENT_STATE / "one-1-1").rename(
        b.sessions.session_directory(session_id) / AGENT_STATE / "one-1-2"
    )
    b.manager.checkpoint_session()
    for machine in (a, c):
        machine.take_up(session_id)
        assert states(machine) == states(b)


def test_of_what_an_agents_program_kept_once_only_the_last_is_stored_on(fleet: Fleet) -> None:
    a, b = fleet.machine("a", many=4), fleet.machine("b")
    session_id = begun(a, one="1\n")
    state = a.sessions.session_directory(session_id) / AGENT_STATE / "one-1-1"
    state.mkdir(parents=True)
    for number in range(4):
        (state / "conversation").write_text(f"{number}\n")
        a.manager.checkpoint_session()
    a.manager.sweep_snapshots()
    (last,) = [one for one in fleet.index.rows[session_id] if one.kind == "agent"]
    assert len(last.snapshots) == 1
    b.take_up(session_id)
    there = b.sessions.session_directory(session_id) / AGENT_STATE / "one-1-1" / "conversation"
    assert there.read_text() == "3\n"


# ------------------------------------------------------------------------------------------- kills


class Kills:
    """Kills at the call of a number, among those of the disk, the index and the object store."""

    def __init__(self, fleet: Fleet, death: int | None) -> None:
        self.fs = MortalFileSystem(death)
        self.fleet = fleet
        self._inner = fleet.objects
        assert self._inner is not None
        fleet.objects = FaultyStore(self._inner, self._called)
        fleet.index.before = self._called

    def _called(self, operation: str, key: str = "") -> None:
        self.fs._step("writev", f"{operation} {key}")

    def end(self) -> None:
        self.fleet.objects = self._inner
        self.fleet.index.before = lambda _: None


def journey(fleet: Fleet, death: int | None) -> tuple[int, Tree, Tree]:
    """Let a session go from a to b to a; the worker of each move is killed at the same call.

    Returns:
        How many calls there were, the files that were recorded last, and those on the last machine.
    """
    a = fleet.machine("a")
    session_id = begun(a, one="1\n", src__two="2\n")
    calls = 0
    for number, name in enumerate(("b", "a")):
        kills = Kills(fleet, death)
        text = f"by {name} in {number}\n"
        try:
            worker = fleet.machine(name, fs=kills.fs)
            worker.take_up(session_id)
            worker.write(session_id, one=text)
            worker.manager.checkpoint_session()
        except Killed:
            pass
        finally:
            calls = max(calls, kills.fs.changes)
            kills.end()
        # whoever comes next, on either machine, finds a checkpoint and no mixture
        for next_name in ("c", name):
            heir = fleet.machine(next_name)
            heir.take_up(session_id)
            found = tree_of(heir.workspace(session_id))
            assert set(found) == {b"one", b"src", b"src/two"}
            last = heir.manager.checkpoints()[-1].snapshot
            assert last is not None
            exported = fleet.folder / f"exported-{death}-{number}-{next_name}"
            heir.snapshots.fetched(session_id).export(last, exported)
            assert tree_of(exported) == found
    heir.write(session_id, one="end\n")
    heir.manager.checkpoint_session()
    final = fleet.machine("d")
    final.take_up(session_id)
    return calls, heir.files(session_id), final.files(session_id)


def test_a_kill_at_each_call_of_a_move_loses_nothing(tmp_path: Path) -> None:
    calls, recorded, found = journey(Fleet.at(tmp_path / "clean"), None)
    assert recorded == found
    assert calls > 40
    step = 1 if SOAKING else 97
    for death in range(0, calls, step):
        _, recorded, found = journey(Fleet.at(tmp_path / f"{death}"), death)
        assert recorded == found


def test_each_fault_of_the_disk_is_told_and_the_next_take_up_is_whole(tmp_path: Path) -> None:
    fleet = Fleet.at(tmp_path)
    a = fleet.machine("a")
    session_id = begun(a, one="1\n", src__two="2\n")
    clean = FaultyFileSystem()
    fleet.machine("clean", fs=clean).take_up(session_id)
    calls = len(clean.trace)
    assert calls > 50
    for number in range(0, calls, 1 if SOAKING else 41):
        fs = FaultyFileSystem(plan=nth_call(number, errno.ENOSPC))
        with suppress(AgentForgeError, OSError):
            fleet.machine(f"b{number}", fs=fs).take_up(session_id)
        assert fs.open_descriptors == {}
        again = fleet.machine(f"b{number}")
        again.take_up(session_id)
        assert again.files(session_id) == a.files(session_id), number


def test_the_order_of_a_checkpoint_is_pack_then_row_then_session(fleet: Fleet) -> None:
    order: list[str] = []
    a = fleet.machine("a")
    session_id = begun(a, one="1\n")
    inner = fleet.objects
    assert inner is not None

    class Noting(FaultyStore):
        def put(self, key: str, content: IO[bytes]) -> bool:
            stored = self.inner.put(key, content)
            order.append("stored")
            return stored

    fleet.objects = Noting(inner)
    fleet.index.before = order.append
    worker = fleet.machine("a")
    worker.take_up(session_id)
    worker.write(session_id, one="2\n")
    order.clear()
    revision = worker.manager.open(session_id).revision
    fleet.index.before = lambda operation: order.append(
        f"{operation} at {_stored_revision(worker, session_id) - revision}"
    )
    worker.manager.checkpoint_session()
    assert order == ["packs at 0", "stored", "add at 0"]
    assert _stored_revision(worker, session_id) == revision + 1


def _stored_revision(machine: Machine, session_id: str) -> int:
    session = machine.sessions.load(session_id)
    assert session is not None
    return session.revision
