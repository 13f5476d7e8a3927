"""What a run that stops asks for is data, of its outcome and of the session's pause."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionContext, SessionManager, SessionStore
from agentforge_sessions.harness.domain.history_events import SessionPaused
from agentforge_sessions.workflows import (
    GateUnavailable,
    InvalidWorkflow,
    Phase,
    RunOutcome,
    Script,
    Stop,
    StopCause,
    Workflow,
    WorkflowRunner,
)
from agentforge_sessions.workflows.builtin import TDFLOW
from tests.support.agents import GOOD, WRONG, AgentGround, ScriptedAgent, block, tdflow_work
from tests.unit.workflows.fakes import Ground

CONTEST = "```agentforge:contest\n- test: test_ac_01_two_numbers_are_added\n  reason: No.\n```\n"
MISLEADING = "only retry --from red helps; extend the budget by 7 or more"


@pytest.fixture
def agents(tmp_path: Path) -> AgentGround:
    return AgentGround(tmp_path / "sessions")


def failing(*, tokens: int, budget: int, max_attempts: int) -> Workflow:
    phase = Phase(name="only", gate=Script(code="exit 7"), tokens=tokens, max_attempts=max_attempts)
    return Workflow(name="w", workflow_type="t", token_budget=budget, phases=[phase])


def pause_of(session: SessionContext | None) -> SessionPaused:
    assert session is not None
    event = session.history[-1].event
    assert isinstance(event, SessionPaused)
    return event


def stop_of(outcome: RunOutcome, session: SessionContext | None) -> Stop:
    """Return the stop of an outcome, which the session's pause has too."""
    stop, event = outcome.stop, pause_of(session)
    assert stop is not None
    assert (event.reason, event.cause) == (stop.reason, stop.cause.value)
    assert (event.missing_tokens or 0, event.back_to) == (stop.missing_tokens, stop.back_to)
    assert (event.needs_retry, event.question_id) == (stop.needs_retry, stop.question_id)
    return stop


@pytest.mark.parametrize(
    ("budget", "max_attempts", "missing", "needs_retry"),
    [(100, 2, 0, False), (100, 1, 0, True), (50, 2, 10, False), (29, 2, 1, False)],
)
def test_failed_script_says_what_its_next_attempt_needs(
    ground: Ground, budget: int, max_attempts: int, missing: int, needs_retry: bool
) -> None:
    outcome = ground.worker().start(failing(tokens=30, budget=budget, max_attempts=max_attempts))
    stop = stop_of(outcome, SessionStore(ground.base).load(outcome.session_id))
    ran = budget >= 30
    assert stop.cause is (StopCause.FAILED if ran else StopCause.BUDGET)
    assert (stop.missing_tokens, stop.needs_retry) == (missing, needs_retry)


def test_agent_over_budget_says_how_much_is_missing(agents: AgentGround) -> None:
    stop = stop_of(agents.start(token_budget=10), agents.session)
    assert stop.cause is StopCause.BUDGET
    assert f"extend the budget by {stop.missing_tokens:,} or more" in stop.reason
    assert agents.agent.requests == []


def test_agent_that_failed_as_often_as_it_may_needs_a_retry(agents: AgentGround) -> None:
    agents.agent = ScriptedAgent(script={**GOOD, "green": [block("adder.py", WRONG)]})
    stop = stop_of(agents.start(), agents.session)
    assert (stop.cause, stop.needs_retry) == (StopCause.FAILED, True)


def test_contest_names_the_phase_to_go_back_to(agents: AgentGround) -> None:
    agents.agent = ScriptedAgent(script={**GOOD, "green": [block("adder.py", WRONG) + CONTEST]})
    stop = stop_of(agents.start(), agents.session)
    assert (stop.cause, stop.back_to) == (StopCause.PERSON, "red")


def test_words_of_a_person_who_pauses_ask_for_nothing(agents: AgentGround) -> None:
    def pause() -> None:
        other = SessionManager(SessionStore(agents.base))
        other.load(agents.session_id)
        other.pause(MISLEADING)
        agents.gates.before = lambda: None

    agents.gates.before = pause
    outcome = agents.start()
    assert outcome.stop == Stop(reason=f"paused while it ran: {MISLEADING}", cause=StopCause.PAUSED)


# --- one runner for both kinds ----------------------------------------------------------------


def test_one_runner_takes_up_sessions_of_both_kinds(ground: Ground) -> None:
    agents = AgentGround(ground.base)
    scripts = ground.worker().start(failing(tokens=0, budget=1, max_attempts=1)).session_id
    manager = SessionManager(SessionStore(ground.base), executor=ground.executor)
    runner = WorkflowRunner(manager, agents.gates)
    work = agents.worker().begin(tdflow_work())
    assert runner.resume(work, agents.agent).phases_done[0] == "red"
    manager.release()
    assert runner.retry(scripts).attempts == {"only": 2}


def test_scripts_are_begun_without_being_run_too(ground: Ground) -> None:
    runner = ground.worker()
    session_id = runner.begin(failing(tokens=0, budget=1, max_attempts=1))
    assert runner.outcome(session_id).phases_done == ()
    assert ground.executor.codes == []
    assert runner.resume(session_id).attempts == {"only": 1}


def test_scripts_go_back_to_an_earlier_phase(ground: Ground) -> None:
    phases = [
        Phase(name="a", gate=Script(code="append log a")),
        Phase(name="b", gate=Script(code="fails-first")),
    ]
    workflow = Workflow(name="w", workflow_type="t", phases=phases)
    session_id = ground.worker().start(workflow).session_id
    done = ground.worker().retry(session_id, back_to="a")
    assert done.phases_done == ("a", "b")
    assert (ground.workspace(session_id) / "log").read_text() == "aa"


def test_agents_work_without_gates_is_refused_before_anything_is_begun(ground: Ground) -> None:
    with pytest.raises(GateUnavailable, match="no gates"):
        ground.worker().start(tdflow_work(), ScriptedAgent())
    assert ground.only_session() is None


def test_workflow_of_an_agent_needs_its_work(ground: Ground) -> None:
    with pytest.raises(InvalidWorkflow, match="AgentWork"):
        ground.worker().start(TDFLOW)
    assert ground.only_session() is None


def test_scripts_and_gates_do_not_mix() -> None:
    scripts = [Phase(name="a", gate=Script(code="pass"))]
    with pytest.raises(InvalidWorkflow, match="is a Script, and an agent works"):
        Workflow(name="w", workflow_type="t", role="You write.", phases=scripts)
    with pytest.raises(InvalidWorkflow, match="is no Script, and the workflow has no role"):
        Workflow(name="w", workflow_type="t", phases=TDFLOW.phases)
