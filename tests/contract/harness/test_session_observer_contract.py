"""What observers can rely on, whatever leads the session: a manager, or a runner of either kind."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.harness import (
    SessionConflict,
    SessionContext,
    SessionEvent,
    SessionManager,
    SessionObserver,
    SessionStore,
)
from agentforge_sessions.harness.domain.history_events import (
    BudgetCrossed,
    CheckpointTaken,
    HistoryEvent,
    PhaseFailed,
    SessionPaused,
)
from agentforge_sessions.harness.domain.session_entries import EVENTS
from agentforge_sessions.harness.domain.session_observer import OBSERVED
from agentforge_sessions.wiring.bootstrap import build_agent_runner
from agentforge_sessions.workflows import Phase, RunObserver, Script, Workflow, WorkflowRunner
from tests.support.agents import GOOD, RED, FakeGates, FakePerson, ScriptedAgent, tdflow_work
from tests.support.clock import FakeClock
from tests.support.executors import FAILED, SUCCEEDED, FakeExecutor
from tests.support.observers import Failing, Remembering

ASKS = """\
```agentforge:questions
- prompt: How wide is an integer?
  title: Width
  options: [{label: "64 bits"}, {label: any}]
```
"""
Leader = Callable[[Path, Sequence[SessionObserver]], str]
"""Leads a session from its beginning to its end; returns its id."""


def a_manager(base: Path, observers: Sequence[SessionObserver]) -> str:
    executor = FakeExecutor.answering([SUCCEEDED, FAILED])
    manager = SessionManager(base, executor=executor, clock=FakeClock(), observers=observers)
    session_id = manager.create("tdflow", "red", 100, goal="secret goal").session_id
    manager.run_phase("code of the phase", tokens=85)
    manager.advance_phase("green")
    manager.run_phase("fail", tokens=30)
    manager.retry_phase("with care")
    manager.add_history("noted", "by hand")
    manager.record("looked", tokens=3, artifacts=[("a.py", "created")])
    manager.checkpoint_session()
    manager.extend_budget(50)
    manager.pause("for lunch", cause="person")
    manager.resume()
    manager.complete()
    return session_id


def a_script_runner(base: Path, observers: Sequence[SessionObserver]) -> str:
    manager = SessionManager(base, executor=FakeExecutor(), clock=FakeClock(), observers=observers)
    phases = [Phase(name=name, gate=Script(code="pass")) for name in ("one", "two")]
    return (
        WorkflowRunner(manager)
        .start(Workflow(name="two", workflow_type="scripts", phases=phases))
        .session_id
    )


def an_agent_runner(base: Path, observers: Sequence[SessionObserver]) -> str:
    manager = SessionManager(base, channel=FakePerson(), clock=FakeClock(), observers=observers)
    runner = WorkflowRunner(manager, FakeGates(), monotonic=lambda: 0.0)
    return runner.start(tdflow_work(), ScriptedAgent()).session_id


@pytest.fixture(params=[a_manager, a_script_runner, an_agent_runner], ids=lambda one: one.__name__)
def lead(request: pytest.FixtureRequest) -> Leader:
    leader: Leader = request.param
    return leader


def stored(base: Path, session_id: str) -> SessionContext:
    found = SessionStore(base).load(session_id)
    assert found is not None
    return found


def test_every_entry_of_the_history_is_observed_once_in_its_order(lead: Leader, base: Path) -> None:
    seen = Remembering()

    session = stored(base, lead(base, [seen]))

    entries = [entry.event for entry in session.history if entry.event is not None]
    apart = (BudgetCrossed, CheckpointTaken)  # told after the change that they belong to
    observed = [one.what for one in seen.events if isinstance(one.what, HistoryEvent)]
    assert [one for one in observed if not isinstance(one, apart)] == [
        one for one in entries if not isinstance(one, apart)
    ]
    assert sorted(one.log_name for one in observed if isinstance(one, BudgetCrossed)) == sorted(
        one.log_name for one in entries if isinstance(one, BudgetCrossed)
    )
    notes = [entry.action for entry in session.history if entry.event is None]
    assert [
        one.to_dict()["data"]["action"] for one in seen.events if one.name == "session.recorded"
    ] == notes


def test_an_event_is_observed_when_it_is_on_disk(lead: Leader, base: Path) -> None:
    def look(event: SessionEvent) -> None:
        if isinstance(event.what, HistoryEvent) and event.what.action in EVENTS:
            assert event.session_id is not None
            on_disk = stored(base, event.session_id).history
            assert event.what in [entry.event for entry in on_disk]

    seen = Remembering(at_each=look)

    with capture_logs() as logs:
        lead(base, [seen])

    assert not [one for one in logs if one["event"] == "observer.failed"]
    assert seen.names[0] == "session.created"


def test_events_say_where_and_when_and_can_be_written_as_json(lead: Leader, base: Path) -> None:
    seen = Remembering()

    session_id = lead(base, [seen])

    for one in seen.events:
        assert one.session_id == session_id
        assert one.at.utcoffset() == timedelta(0)
        assert OBSERVED[one.name] is type(one.what)
        written = json.loads(json.dumps(one.to_dict()))
        assert written == one.to_dict()
        assert (written["version"], written["type"]) == (1, one.name)
    assert "secret goal" not in json.dumps([one.to_dict() for one in seen.events])


def test_what_an_observer_raises_fails_nothing_and_no_later_observer(
    lead: Leader, base: Path, tmp_path: Path
) -> None:
    broken, seen, alone = Failing(), Remembering(), Remembering()
    lead(tmp_path / "alone", [alone])

    with capture_logs() as logs:
        session_id = lead(base, [broken, seen])

    assert stored(base, session_id).state.value == "completed"
    assert seen.names == alone.names
    failed = [one for one in logs if one["event"] == "observer.failed"]
    assert len(failed) == broken.asked == len(seen.events)
    assert failed[0] == {
        "event": "observer.failed",
        "log_level": "warning",
        "observer": "Failing",
        "observed": "session.created",
        "session_id": session_id,
        "error": "RuntimeError: the observer is broken",
    }


@pytest.mark.parametrize("seed", range(8))
def test_observers_that_fail_at_random_change_nothing_of_what_is_stored(
    lead: Leader, base: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    other = tmp_path / "other"
    without = lead(other, [])

    session_id = lead(
        base, [Failing(fails=lambda _: chance.random() < 0.5) for _ in range(seed % 3 + 1)]
    )

    assert _comparable(base, session_id) == _comparable(other, without)


def _comparable(base: Path, session_id: str) -> str:
    return SessionStore(base).session_path(session_id).read_text().replace(session_id, "ID")


def test_what_ends_the_program_passes_through_and_the_change_is_kept(base: Path) -> None:
    stop = Failing(error=KeyboardInterrupt, fails=lambda event: event.name == "session.paused")
    manager = SessionManager(base, observers=[stop])
    session = manager.create()

    with pytest.raises(KeyboardInterrupt):
        manager.pause()

    assert session.state.value == "paused"
    assert stored(base, session.session_id) == session


def test_a_change_that_was_not_saved_is_not_observed(base: Path) -> None:
    seen = Remembering()
    manager = SessionManager(base, observers=[seen])
    session = manager.create()
    other = SessionManager(base)
    other.open(session.session_id)
    other.add_history("first")
    seen.events.clear()

    with pytest.raises(SessionConflict):
        manager.pause()

    assert seen.names == ["session.conflict"]


def test_what_an_observer_causes_is_observed_after_what_it_observes(base: Path) -> None:
    def note(event: SessionEvent) -> None:
        if event.name == "session.paused":
            manager.add_history("noticed")

    first, second = Remembering(at_each=note), Remembering()
    manager = SessionManager(base, observers=[first, second])
    manager.create()
    manager.pause()

    expected = ["session.created", "session.paused", "session.recorded"]
    assert first.names == second.names == expected


def test_a_question_is_observed_from_being_asked_to_its_answer(base: Path) -> None:
    seen = Remembering()
    an_agent_runner_that_asks(base, [seen])

    asking = [name for name in seen.names if name.startswith("question")]
    assert asking == ["question.asked", "question.waiting", "question.answered"]
    assert "How wide" not in json.dumps([one.to_dict() for one in seen.events])


def an_agent_runner_that_asks(base: Path, observers: Sequence[SessionObserver]) -> None:
    agent = ScriptedAgent(script={**GOOD, "red": [ASKS, RED]})
    person = FakePerson(answers=[("any",)])
    manager = SessionManager(base, channel=person, clock=FakeClock(), observers=observers)
    WorkflowRunner(manager, FakeGates(), monotonic=lambda: 0.0).start(tdflow_work(), agent)


def test_the_steps_of_a_run_are_observed(base: Path) -> None:
    seen = Remembering()
    an_agent_runner(base, [seen])

    red = seen.names[: seen.names.index("phase.advanced")]
    assert [name for name in red if name != "session.loaded"] == [
        *("session.created", "run.started", "attempt.started"),
        *("agent.called", "agent.answered", "gate.started", "phase.succeeded"),
        "session.checkpoint",
    ]
    called = next(one for one in seen.events if one.name == "agent.called")
    assert (called.phase, called.attempt) == ("red", 1)


def test_a_failed_phase_says_why(base: Path) -> None:
    seen = Remembering()
    a_manager(base, [seen])

    [failed] = [one.what for one in seen.events if isinstance(one.what, PhaseFailed)]
    [paused] = [one.what for one in seen.events if isinstance(one.what, SessionPaused)]
    assert failed.problem == "exit code 1"
    assert (paused.reason, paused.cause) == ("for lunch", "person")


def test_a_deleted_session_and_a_clean_up_are_observed(base: Path) -> None:
    seen = Remembering()
    manager = SessionManager(base, observers=[seen])
    session = manager.create()
    manager.complete()
    seen.events.clear()

    manager.delete(session.session_id)
    assert not manager.delete(session.session_id, missing_ok=True)
    manager.cleanup_old_sessions(1)

    assert seen.names == ["session.deleted", "sessions.cleaned_up"]
    assert [one.session_id for one in seen.events] == [session.session_id, None]


def test_observers_belong_to_the_manager_that_a_runner_is_given(base: Path) -> None:
    with pytest.raises(ValueError, match="observers"):
        build_agent_runner(manager=SessionManager(base), observers=[Remembering()])


def test_a_run_observer_still_ends_a_run_where_it_raises(base: Path) -> None:
    class Stops:
        def __getattr__(self, name: str) -> Callable[..., None]:
            def refuse(*_: object, **__: object) -> None:
                raise RuntimeError(name)

            return refuse

    observer: RunObserver = Stops()  # type: ignore[assignment]
    seen = Remembering()
    manager = SessionManager(base, executor=FakeExecutor(), observers=[seen])
    runner = WorkflowRunner(manager, observer=observer)
    with pytest.raises(RuntimeError, match="run_started"):
        runner.start(
            Workflow(
                name="one",
                workflow_type="scripts",
                phases=[Phase(name="one", gate=Script(code="pass"))],
            )
        )

    assert seen.names[-1] == "run.started"
