"""A session that is begun without being run, and looked at without being touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentforge_sessions.base.files import FileLock, OsFileSystem
from agentforge_sessions.harness import (
    QuestionEnded,
    SessionManager,
    SessionNotFound,
    SessionState,
    SessionStore,
)
from agentforge_sessions.workflows import (
    AgentWork,
    FileGroup,
    Gate,
    Phase,
    RunObserver,
    RunOutcome,
    Verdict,
    Workflow,
    WorkflowRunner,
)
from agentforge_sessions.workflows.agents.port import (
    AgentAnswer,
    AgentOption,
    AgentQuestion,
    AgentUnavailable,
)
from agentforge_sessions.workflows.errors import NotAWorkflowSession
from agentforge_sessions.workflows.job import WORKFLOW_NAME
from tests.support.agents import (
    GOOD,
    GREEN,
    WRONG,
    AgentGround,
    FakePerson,
    ScriptedAgent,
    block,
    rejected,
    tdflow_work,
)

ASKS = AgentAnswer(
    text="",
    questions=[AgentQuestion(prompt="Which?", title="Which", options=[AgentOption(label="This")])],
)

LETTER = Workflow(
    name="letter",
    workflow_type="letters",
    role="You write letters.",
    groups=[FileGroup(name="letters", paths=["letters/"])],
    phases=[
        Phase(
            name="write",
            mode="write",
            prompt="Write the letter.",
            writes=["letters"],
            gate=Gate(kind="files", require=["letters/one.md"]),
        ),
        Phase(
            name="check",
            mode="check",
            gate=Gate(kind="approval", require=["letters/one.md"]),
            max_attempts=1,
        ),
    ],
)
"""A workflow whose last phase needs a person."""


@pytest.fixture
def ground(tmp_path: Path) -> AgentGround:
    return AgentGround(tmp_path / "sessions")


def asking(
    *answers: tuple[str, ...] | QuestionEnded | None,
) -> tuple[ScriptedAgent, FakePerson]:
    agent = ScriptedAgent(script={**GOOD, "green": [ASKS, GREEN]})
    return agent, FakePerson(answers=list(answers))


# --- begin ------------------------------------------------------------------------------------


def test_begun_session_is_on_disk_and_nobody_was_asked(ground: AgentGround) -> None:
    session_id = ground.worker().begin(tdflow_work(), token_budget=50_000)
    assert ground.session_id == session_id
    assert ground.session.state is SessionState.ACTIVE
    assert ground.session.token_budget.total_budget == 50_000
    assert ground.actions() == ["session_created red"]
    assert ground.agent.requests == []
    assert ground.gates.runs == []


def test_begun_session_is_run_by_another_worker_as_if_it_had_been_started(
    ground: AgentGround, tmp_path: Path
) -> None:
    session_id = ground.worker().begin(tdflow_work())
    begun = ground.worker().resume(session_id, ground.agent)
    other = AgentGround(tmp_path / "others")
    assert begun.to_dict() | {"session_id": ""} == other.start().to_dict() | {"session_id": ""}
    assert ground.actions() == other.actions()


def test_one_runner_begins_any_number_of_sessions(ground: AgentGround) -> None:
    store = SessionStore(ground.base)
    runner = WorkflowRunner(SessionManager(store), ground.gates)
    begun = [runner.begin(tdflow_work()) for _ in range(3)]
    assert sorted(store.list_sessions()) == sorted(begun)
    assert len(set(begun)) == 3


# --- outcome ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "agent",
    [
        ScriptedAgent(),
        ScriptedAgent(script={**GOOD, "green": [block("adder.py", WRONG)]}),
        ScriptedAgent(script={**GOOD, "green": [ASKS]}),
    ],
    ids=["completed", "attempts used up", "nobody to ask"],
)
def test_outcome_of_a_session_is_what_the_run_of_it_returned(
    ground: AgentGround, agent: ScriptedAgent
) -> None:
    ground.agent = agent
    returned = ground.start()
    assert ground.worker().outcome(ground.session_id) == returned


def test_outcome_of_a_begun_session_says_that_nothing_is_done(ground: AgentGround) -> None:
    session_id = ground.worker().begin(tdflow_work())
    assert ground.worker().outcome(session_id) == RunOutcome(
        session_id=session_id, state=SessionState.ACTIVE, phases_done=(), attempts={"red": 1}
    )


def test_outcome_changes_nothing_and_waits_for_nobody(ground: AgentGround) -> None:
    session_id = ground.worker().begin(tdflow_work())
    before = SessionStore(ground.base).session_path(session_id).read_bytes()
    lock = FileLock(OsFileSystem(), ground.base / session_id / WORKFLOW_NAME, timeout_s=0)
    lock.acquire()
    try:
        ground.worker().outcome(session_id)
    finally:
        lock.release()
    assert SessionStore(ground.base).session_path(session_id).read_bytes() == before


def test_outcome_of_an_aborted_session_says_why(ground: AgentGround) -> None:
    ground.agent, ground.person = asking()
    session_id = ground.start().session_id
    ground.manager().abort("not wanted any more")
    outcome = ground.worker().outcome(session_id)
    assert (outcome.state, outcome.reason) == (SessionState.ABORTED, "not wanted any more")
    assert outcome.waiting_for is None


def test_outcome_of_a_session_that_was_paused_twice_says_why_it_is_paused_now(
    ground: AgentGround,
) -> None:
    ground.agent, ground.person = asking(None, ("This",))
    ground.agent.script = {**GOOD, "green": [ASKS, block("adder.py", WRONG)]}
    assert "waiting for an answer" in (ground.start().reason or "")
    returned = ground.resume()
    assert "failed at attempt 3 of 3" in (returned.reason or "")
    assert ground.worker().outcome(ground.session_id) == returned


def test_outcome_needs_a_session_and_one_of_an_agent(ground: AgentGround) -> None:
    with pytest.raises(SessionNotFound):
        ground.worker().outcome("session_20260101_000000_00000000")
    manager = SessionManager(SessionStore(ground.base))
    session_id = manager.create().session_id
    with pytest.raises(NotAWorkflowSession):
        ground.worker().outcome(session_id)


# --- what it waits for ------------------------------------------------------------------------


def test_session_waits_for_its_questions_until_their_answers_are_taken(
    ground: AgentGround,
) -> None:
    ground.agent, ground.person = asking(None, None, ("This",))
    assert ground.start().waiting_for == "q-1"
    assert ground.worker().outcome(ground.session_id).waiting_for == "q-1"
    assert ground.resume().waiting_for == "q-1"
    done = ground.resume()
    assert (done.state, done.waiting_for) == (SessionState.COMPLETED, None)


@pytest.mark.parametrize(
    ("answers", "then", "words", "waiting_for"),
    [
        ([("This",)], block("adder.py", WRONG), "failed at attempt 3 of 3", None),
        ([rejected(reason="no time")], block("adder.py", WRONG), "failed at attempt", None),
        (
            [("This",)],
            AgentUnavailable(agent="scripted", problem="there is no key"),
            "there is no key",
            None,
        ),
        ([("This",), None], ASKS, "waiting for an answer", "q-2"),
    ],
    ids=["fails after the answer", "fails after a rejection", "stops", "asks once more"],
)
def test_session_waits_only_for_questions_without_an_answer(
    ground: AgentGround,
    answers: list[tuple[str, ...] | QuestionEnded | None],
    then: object,
    words: str,
    waiting_for: str | None,
) -> None:
    ground.agent, ground.person = asking(*answers)
    ground.agent.script = {**GOOD, "green": [ASKS, then]}  # type: ignore[list-item]
    outcome = ground.start()
    assert outcome.state is SessionState.PAUSED
    assert words in (outcome.reason or "")
    assert outcome.waiting_for == waiting_for


def test_session_whose_approval_was_refused_waits_for_no_answer(ground: AgentGround) -> None:
    ground.person = FakePerson(answers=[("no",)])
    ground.agent = ScriptedAgent(script={"write": [block("letters/one.md", "Do!\n")]})
    outcome = ground.start(AgentWork(workflow=LETTER, name="one"))
    assert "phase 'check' failed at attempt 1 of 1" in (outcome.reason or "")
    assert outcome.waiting_for is None


def test_session_whose_worker_died_after_the_approval_waits_for_no_answer(
    ground: AgentGround,
) -> None:
    class Dies(RunObserver):
        def phase_finished(self, phase: Phase, verdict: Verdict, result: object) -> None:
            if phase.name == "check":
                raise KeyboardInterrupt

    ground.person = FakePerson(answers=[("Approve",)])
    ground.agent = ScriptedAgent(script={"write": [block("letters/one.md", "Do!\n")]})
    with pytest.raises(KeyboardInterrupt):
        ground.worker(observer=Dies()).start(AgentWork(workflow=LETTER, name="one"), ground.agent)
    outcome = ground.worker().outcome(ground.session_id)
    assert (outcome.state, outcome.phases_done) == (SessionState.ACTIVE, ("write", "check"))
    assert outcome.waiting_for is None


# --- as plain values --------------------------------------------------------------------------


def test_outcome_goes_through_json_unchanged(ground: AgentGround) -> None:
    ground.agent, ground.person = asking(None)
    outcome = ground.start()
    told = outcome.to_dict()
    assert json.loads(json.dumps(told)) == told
    assert told == {
        "session_id": outcome.session_id,
        "state": "paused",
        "phases_done": ["red"],
        "reason": outcome.reason,
        "attempts": {"red": 1, "green": 1},
        "waiting_for": "q-1",
        "cause": "person",
    }
