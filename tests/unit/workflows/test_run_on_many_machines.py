"""A run whose worker dies at any call, and goes on on another machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import define

from agentforge_sessions.fleet.objects.folder_store import FolderStore
from agentforge_sessions.harness import SessionContext, SessionManager, SessionState
from agentforge_sessions.testing import MemorySessions, ScriptedAnswers, Shelf
from agentforge_sessions.workflows import Phase, Script, StopCause, Workflow, WorkflowRunner
from tests.support.agents import FakeGates, ScriptedAgent, tdflow_work
from tests.support.executors import WaitingExecutor
from tests.support.machines import Fleet, Machine
from tests.support.mortal_filesystem import Killed
from tests.support.object_stores import FaultyStore
from tests.support.soak import SOAKING
from tests.support.trees import Tree


class MortalSessions(MemorySessions):
    """Sessions whose worker may die before a save, or before a step is kept."""

    def __init__(self, base: Path, shelf: Shelf, step: Callable[[], None]) -> None:
        super().__init__(base, shelf)
        self._step = step

    def save(
        self,
        session: SessionContext,
        *,
        attachments: Mapping[str, bytes] | None = None,
        inherited: Mapping[str, bytes] | None = None,
    ) -> None:
        self._step()
        super().save(session, attachments=attachments, inherited=inherited)

    def keep_step(self, session_id: str, name: str, data: bytes) -> None:
        self._step()
        super().keep_step(session_id, name, data)


@define
class Deaths:
    """Counts the calls that others see, and dies before one of them."""

    at: int | None = None
    calls: int = 0

    def __call__(self, *_: object) -> None:
        if self.calls == self.at:
            raise Killed
        self.calls += 1


class Runs:
    """A fleet, and the runs of one session on it."""

    def __init__(self, folder: Path) -> None:
        self.fleet = Fleet.at(folder)
        self.objects = FolderStore(folder / "objects")
        self.agent = ScriptedAgent()
        self.machine: Machine | None = None

    @property
    def session_id(self) -> str | None:
        found = list(self.fleet.shelf.documents)
        assert len(found) <= 1
        return found[0] if found else None

    def go_on(self, name: str, deaths: Deaths) -> Any:
        """Begin the session, or go on with it, on a machine."""
        fleet = self.fleet
        fleet.objects = FaultyStore(self.objects, deaths)
        fleet.index.before = deaths
        self.machine = machine = fleet.machine(
            name, sessions=lambda base: MortalSessions(base, fleet.shelf, deaths)
        )
        manager = SessionManager(machine.sessions, snapshots=machine.snapshots)
        runner = WorkflowRunner(manager, FakeGates(), lock_timeout_s=0, monotonic=lambda: 0.0)
        session_id = self.session_id
        if session_id is None:
            return runner.start(tdflow_work(), self.agent)
        return runner.resume(session_id, self.agent)

    def files(self) -> Tree:
        session_id = self.session_id
        assert session_id is not None
        assert self.machine is not None
        return self.machine.files(session_id)

    def session(self) -> SessionContext:
        session_id = self.session_id
        assert session_id is not None
        found = MemorySessions(self.fleet.folder, self.fleet.shelf).load(session_id)
        assert found is not None
        return found


def finished(runs: Runs) -> Mapping[str, int]:
    session = runs.session()
    assert session.state is SessionState.COMPLETED
    return Counter(one.action for one in session.history)


# Dying at 8 leaves a verdict that the session does not know yet, at 3 inputs of which it knows.
@pytest.mark.parametrize("second_death", [None, 3], ids=["once", "again"])
def test_wherever_a_worker_dies_one_on_another_machine_finishes_the_run(
    tmp_path: Path, second_death: int | None
) -> None:
    clean = Runs(tmp_path / "clean")
    deaths = Deaths()
    clean.go_on("a", deaths)
    wanted, counted = clean.files(), finished(clean)
    assert deaths.calls > 30
    for at in range(deaths.calls) if SOAKING else (3, 8, 20):
        runs = Runs(tmp_path / f"{at}")
        with pytest.raises(Killed):
            runs.go_on("a", Deaths(at))
        if second_death is not None and runs.session_id is not None:
            with pytest.raises(Killed):
                runs.go_on("b", Deaths(second_death))
        outcome = runs.go_on("a" if second_death is not None else "b", Deaths())
        if outcome.state is SessionState.PAUSED:
            runs.go_on("b", Deaths())
        assert finished(runs) == counted, at
        assert runs.files() == wanted, at
        asked = Counter(one.phase for one in runs.agent.requests)
        assert all(count <= 2 + bool(second_death) for count in asked.values())


def test_script_that_waits_goes_on_at_its_line_on_another_machine(tmp_path: Path) -> None:
    fleet, person = Fleet.at(tmp_path), ScriptedAnswers()
    code = "append log begun,\nask Deploy?\nappend log done"
    work = Workflow(
        name="w",
        workflow_type="t",
        token_budget=100,
        phases=[Phase(name="deploy", gate=Script(code=code, artifacts=("log",)))],
    )

    def runner(name: str) -> tuple[Machine, WaitingExecutor, WorkflowRunner]:
        machine = fleet.machine(name)
        executor = WaitingExecutor(machine.sessions.workspace_path)
        manager = SessionManager(
            machine.sessions, snapshots=machine.snapshots, executor=executor, channel=person
        )
        return machine, executor, WorkflowRunner(manager, lock_timeout_s=0)

    _, _, first = runner("a")
    outcome = first.start(work)
    assert (outcome.state, outcome.cause) == (SessionState.PAUSED, StopCause.PERSON)
    assert outcome.waiting_for == "q-1"
    person.answer("q-1", text="yes")
    machine, executor, second = runner("b")
    assert second.resume(outcome.session_id).state is SessionState.COMPLETED
    assert executor.runs == ["resume {1: 'yes'}"]
    assert (machine.workspace(outcome.session_id) / "log").read_text() == "begun,done"
