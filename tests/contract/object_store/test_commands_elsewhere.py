"""The commands that read results, on a machine that never ran the session, with a real database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.fleet.objects import open_objects
from agentforge_sessions.fleet.objects.workspace_packs import WorkspacePacks
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionManager
from agentforge_sessions.wiring.fleet import SessionRunners
from agentforge_sessions.wiring.pruning import collect_packs
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from tests.contract.conftest import database, migrated, server
from tests.support.machines import PLAN, Machine
from tests.support.object_stores import BUCKET, credentials, s3_service
from tests.support.repositories import new_checkout

__all__ = ["database", "migrated", "server"]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_service() as address, credentials():
        yield address


@pytest.fixture(params=["folder", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "s3":
        address = request.getfixturevalue("endpoint")
        return f"s3://{BUCKET}/{tmp_path.name}?endpoint={address}&region=us-east-1"
    (tmp_path / "objects").mkdir()
    return (tmp_path / "objects").as_uri()


Machines = Callable[[str], Machine]


@pytest.fixture
def machines(database: Database, objects: str, tmp_path: Path) -> Machines:
    def machine(name: str) -> Machine:
        store = PostgresStore(database, tmp_path / name)
        packs = WorkspacePacks(
            store.pack_index(), open_objects(objects), store.base_path, host=lambda: name
        )
        snapshots = SessionSnapshots(store, packs=packs)
        return Machine(name, store, snapshots, SessionManager(store, snapshots=snapshots))

    return machine


@pytest.fixture
def desk(
    database: Database, objects: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Any]]:
    """Run a command at a desk, and return its document."""

    def command(*words: str) -> Any:
        capsys.readouterr()
        place = ["--base", str(tmp_path / "desk"), "--store", database.url, "--objects", objects]
        code = run([*place, "--json", *words])
        written = capsys.readouterr()
        assert code == 0, written.out + written.err
        return json.loads(written.out)

    yield command
    structlog.reset_defaults()


def begun(machine: Machine, checkout: Path) -> str:
    base = machine.snapshots.attachments(checkout, "HEAD", with_uncommitted=False)
    session = machine.manager.create("work", "one", attachments={**PLAN, **base})
    machine.take_up(session.session_id)
    for text in ("two\n", "three\n"):
        machine.write(session.session_id, README=text, new=text)
        machine.manager.checkpoint_session()
    machine.write(session.session_id, half="not yet\n")
    return session.session_id


@pytest.mark.parametrize("objects", ["folder"], indirect=True)
def test_a_worker_of_the_fleet_has_the_files_of_the_last_checkpoint(
    machines: Machines, tmp_path: Path, database: Database, objects: str
) -> None:
    session_id = begun(machines("worker"), new_checkout(tmp_path / "theirs", {"README": "one\n"}))
    (tmp_path / "theirs").rename(tmp_path / "mine")
    runners = SessionRunners(database.url, tmp_path / "fleet", objects=objects)
    manager = runners.manager_of(session_id, 1)
    manager.open(session_id)
    manager.prepare_workspace()
    found = tmp_path / "fleet" / session_id / "workspace"
    assert {one.name for one in found.iterdir()} == {"README", "new"}
    assert (found / "new").read_text() == "three\n"


@pytest.mark.parametrize("objects", ["folder"], indirect=True)
def test_a_prune_collects_the_packs_of_deleted_sessions(
    machines: Machines, desk: Callable[..., Any], tmp_path: Path, objects: str
) -> None:
    worker = machines("worker")
    session_id = begun(worker, new_checkout(tmp_path / "theirs", {"README": "one\n"}))
    worker.manager.open(session_id)
    worker.manager.complete()
    stored = len(list(open_objects(objects).list()))
    desk("prune", "--kind", "agent", "--keep-last", "0", "--yes")
    assert not worker.sessions.exists(session_id)
    assert len(list(open_objects(objects).list())) == stored  # not a day old yet
    assert collect_packs(worker.sessions, objects, older_than_s=-60).objects == stored


def test_results_come_from_any_machine(
    machines: Machines, desk: Callable[..., Any], tmp_path: Path, database: Database, objects: str
) -> None:
    worker = machines("worker")
    session_id = begun(worker, new_checkout(tmp_path / "theirs", {"README": "one\n"}))
    (tmp_path / "theirs").rename(tmp_path / "mine")

    assert len(desk("session", "checkpoints", session_id)["checkpoints"]) == 3
    changed = desk("diff", session_id)["files"]
    assert [one["path"] for one in changed] == ["README", "new"]
    desk("session", "export", session_id, str(tmp_path / "exported"))
    assert {one.name for one in (tmp_path / "exported").iterdir()} == {"README", "new"}
    desk("apply", session_id, "--repo", str(tmp_path / "mine"), "--at", "2")
    assert (tmp_path / "mine" / "README").read_text() == "two\n"
    assert (worker.workspace(session_id) / "half").exists()

    fork = desk("session", "fork", session_id, "--at", "2")["session_id"]
    desk("session", "rewind", session_id, "--to", "2", "--yes")
    assert (tmp_path / "desk" / session_id / "workspace" / "new").read_text() == "two\n"
    other = machines("other")
    for one in (session_id, fork):
        other.take_up(one)
        assert other.names(one) == {"README", "new"}
        assert (other.workspace(one) / "new").read_text() == "two\n"
    worker.take_up(session_id)
    assert worker.names(session_id) == {"README", "new"}

    other.sessions.delete(session_id)
    assert collect_packs(other.sessions, objects).objects == 0
    assert collect_packs(other.sessions, objects, older_than_s=-60).objects > 0
    third = machines("third")
    third.take_up(fork)
    assert third.names(fork) == {"README", "new"}
