"""A session whose object store is full or away waits for it, says why, and goes on later."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.worker.session_runs import look_at
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore, SubmittingStore
from agentforge_sessions.fleet.workers.decisions import LookAgain, decide
from agentforge_sessions.fleet.workers.messages import Ending, Look
from agentforge_sessions.fleet.workers.settings import FleetSettings
from agentforge_sessions.harness import SessionManager, SessionState
from agentforge_sessions.harness.submission import Submission
from agentforge_sessions.wiring.fleet import SessionRunners, SubmittingRunner
from tests.support.executors import FakeExecutor
from tests.support.fleet import QUICK, workflow
from tests.support.mounts import mounted_tmpfs

SETTINGS = FleetSettings()


class Ground:
    """Machines that share a database and an object store, with scripts that write a file each."""

    def __init__(self, database: Database, place: Path, objects: Path) -> None:
        self.database = database
        self.place = place
        self.objects = objects
        self.executor = FakeExecutor(during=self._write)
        submitting = SubmittingStore(database, place / "submitter", Submission())
        self.session_id = SubmittingRunner(SessionManager(submitting)).begin(workflow(QUICK, QUICK))

    def _write(self) -> None:
        folder = self.place / "sessions" / self.session_id / "workspace"
        (folder / f"{len(self.executor.executions)}.bin").write_bytes(os.urandom(64 << 10))

    def look(self, base: str = "sessions") -> Look:
        runners = SessionRunners(
            self.database.url,
            self.place / base,
            objects=self.objects.as_uri(),
            executor=self.executor,
        )
        try:
            return look_at(
                self.session_id, lambda: runners.manager_of(self.session_id, 1), runners.runner
            )
        finally:
            runners.close()

    @property
    def state(self) -> SessionState:
        session = PostgresStore(self.database, self.place).load(self.session_id)
        assert session is not None
        return session.state


def again(look: Look, failures: int) -> LookAgain:
    decision = decide(look, failures, SETTINGS, lambda: 0.0)
    assert isinstance(decision, LookAgain)
    return decision


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with mounted_tmpfs(tmp_path / "objects", options="size=96k") as path:
        yield path


def test_a_full_one_is_tried_again_and_the_session_goes_on_once_there_is_room(
    database: Database, tmp_path: Path, small: Path
) -> None:
    ground = Ground(database, tmp_path, small)
    for failures in (1, 2, 3):
        look = ground.look()
        assert look.ending is Ending.UNAVAILABLE
        assert "No space left on device" in str(look.reason)
        assert ground.state is SessionState.ACTIVE
        assert again(look, failures).after_s == [10.0, 20.0, 40.0][failures - 1]
    assert again(look, 1000).after_s == 600.0
    subprocess.run(["mount", "-o", "remount,size=8m", str(small)], check=True, timeout=30)
    assert ground.look().ending is Ending.COMPLETED
    ran = len(ground.executor.executions)
    assert ran == 5  # the phase whose file found no room, three times and once more; the first once


def test_one_that_is_away_is_tried_again_and_the_session_goes_on_once_it_is_back(
    database: Database, tmp_path: Path
) -> None:
    objects, elsewhere = tmp_path / "objects", tmp_path / "unmounted"
    objects.mkdir()
    ground = Ground(database, tmp_path, objects)
    objects.rename(elsewhere)
    look = ground.look()
    assert (look.ending, ground.state) == (Ending.UNAVAILABLE, SessionState.ACTIVE)
    assert "mount its disk" in str(look.reason)
    assert again(look, 1).after_s == 10.0
    elsewhere.rename(objects)
    assert ground.look().ending is Ending.COMPLETED


def test_one_that_is_away_when_another_machine_takes_the_session_up_is_tried_again(
    database: Database, tmp_path: Path, small: Path
) -> None:
    ground = Ground(database, tmp_path, small)
    assert ground.look().ending is Ending.UNAVAILABLE  # one phase is done, and is there
    ground.objects = tmp_path / "nowhere"
    look = ground.look("another")
    assert (look.ending, ground.state) == (Ending.UNAVAILABLE, SessionState.ACTIVE)
    assert again(look, 1).after_s == 10.0
