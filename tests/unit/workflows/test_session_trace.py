"""The trace of a session: its spans, and how it goes on with the next worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.trace import StatusCode
from structlog.testing import capture_logs

from agentforge_sessions.base.tracing import Attribute, Traced, carried, traced, using
from agentforge_sessions.base.tracing.conventions import SpanType
from agentforge_sessions.harness import SessionConflict, SessionManager, SessionStore
from agentforge_sessions.harness.session_layout import TRACE_FILE
from agentforge_sessions.wiring.bootstrap import build_manager
from agentforge_sessions.workflows import Phase, Script, Workflow
from agentforge_sessions.workflows.agents.port import (
    AgentAnswer,
    AgentIdentity,
    AgentQuestion,
    AgentRequest,
    AgentTimeout,
)
from agentforge_sessions.workflows.run.step_journal import StepJournal
from tests.support.agents import (
    GOOD,
    GREEN,
    RED,
    REFACTOR,
    WRONG,
    AgentGround,
    FakePerson,
    ScriptedAgent,
    block,
)
from tests.support.tracing import (
    BrokenTracing,
    Recorded,
    id_of,
    parent_of,
    recorded,
    trace_of,
)
from tests.unit.workflows.fakes import DyingFileSystem, Ground, Killed

ELSEWHERE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SCRIPTS = Workflow(
    name="two",
    workflow_type="two",
    token_budget=1000,
    phases=[
        Phase(name="one", tokens=10, gate=Script(code="write a.txt a")),
        Phase(name="two", tokens=20, gate=Script(code="write b.txt b"), max_attempts=2),
    ],
)


@pytest.fixture
def agents(tmp_path: Path) -> AgentGround:
    return AgentGround(tmp_path / "sessions")


def wrong_at_first() -> dict[str, Any]:
    return {"red": [RED], "green": [block("adder.py", WRONG), GREEN], "refactor": [REFACTOR]}


def test_an_agents_work_is_one_trace_from_the_session_down_to_each_save(
    agents: AgentGround,
) -> None:
    agents.agent = ScriptedAgent(wrong_at_first())
    with recorded() as kept:
        agents.start()
    assert kept.tree() == [
        "create_session",
        "  invoke_workflow tdflow",
        "    phase red",
        "      attempt red",
        "        invoke_agent scripted",
        "        gate tests_fail",
        "    phase green",
        "      attempt green",
        "        invoke_agent scripted",
        "        gate tests_pass",
        "      attempt green",
        "        invoke_agent scripted",
        "        gate tests_pass",
        "    phase refactor",
        "      attempt refactor",
        "        invoke_agent scripted",
        "        gate tests_pass",
        "    phase verify",
        "      attempt verify",
        "        gate suite",
    ]
    assert len({trace_of(one) for one in kept.spans}) == 1
    assert len(kept.named("save_session")) == agents.session.revision
    assert all(one.parent is not None for one in kept.named("save_session"))
    assert all(one.status.status_code is StatusCode.UNSET for one in kept.spans)


def test_attributes_say_what_was_done_and_what_it_cost(agents: AgentGround) -> None:
    agents.agent = ScriptedAgent(wrong_at_first())
    with recorded() as kept:
        agents.start()
    session_id = agents.session_id
    assert kept.only("invoke_workflow tdflow").attributes == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "tdflow",
        "gen_ai.conversation.id": session_id,
        "agentforge.session.id": session_id,
        "agentforge.run.operation": "run",
        "agentforge.session.state": "completed",
    }
    first, second = kept.named("attempt green")
    assert dict(first.attributes or {}) == {
        "agentforge.session.id": session_id,
        "agentforge.phase": "green",
        "agentforge.attempt": 1,
        "agentforge.outcome": "failed",
    }
    assert (second.attributes or {})["agentforge.outcome"] == "passed"
    assert kept.named("invoke_agent scripted")[0].attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "_OTHER",
        "gen_ai.agent.name": "scripted",
        "gen_ai.conversation.id": session_id,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 50,
        "agentforge.usage.estimated": False,
        "agentforge.session.id": session_id,
        "agentforge.phase": "red",
        "agentforge.attempt": 1,
        "agentforge.call": 1,
    }
    assert kept.metric("agentforge.session.tokens") == {
        ("red",): 150,
        ("green",): 300,
        ("refactor",): 150,
    }
    assert kept.metric("gen_ai.client.token.usage") == {
        ("invoke_agent", "_OTHER", "input"): 400,
        ("invoke_agent", "_OTHER", "output"): 200,
    }


def test_every_attribute_is_one_that_its_span_may_have(agents: AgentGround) -> None:
    agents.person = FakePerson([None])
    agents.agent = ScriptedAgent(GOOD | {"red": [asking, RED]})
    with recorded() as kept:
        agents.start()
        agents.person.answers.append(("yes",))
        agents.resume()
    types = [one for one in vars(Traced).values() if isinstance(one, SpanType)]
    by_prefix = {one.prefix: one for one in types if one.prefix}
    for span in kept.spans:
        span_type = by_prefix.get(span.name.split()[0], Traced.AGENT_CALL)
        assert set(span.attributes or {}) <= {*span_type.attributes, Attribute.ERROR_TYPE}


def asking(request: AgentRequest) -> AgentAnswer:
    question = AgentQuestion(prompt="May the tests be secretive?", title="Tests")
    return AgentAnswer(text="", questions=[question])


def test_no_word_of_prompts_answers_and_questions_is_in_a_trace(agents: AgentGround) -> None:
    agents.person = FakePerson([("yes, most secretive",)])
    failing = AgentTimeout(agent="scripted", timeout_s=1, output="the secretive output")
    agents.agent = ScriptedAgent(GOOD | {"red": [asking, RED], "green": [failing, GREEN]})
    with recorded() as kept:
        agents.start()
    text = "".join(one.to_json() for one in kept.spans)
    assert "secretive" in agents.agent.requests[1].prompt
    assert "secretive" not in text
    assert "Two numbers are added" not in text
    failed = kept.named("invoke_agent scripted")[2]
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"].endswith(".AgentTimeout")  # type: ignore[union-attr]


def test_an_agent_goes_by_its_identity(agents: AgentGround) -> None:
    class Model(ScriptedAgent):
        identity = AgentIdentity(
            name="m-1",
            provider="openai",
            operation="chat",
            model="m-1",
            host="localhost",
            port=8000,
        )

    agents.agent = Model()
    with recorded() as kept:
        agents.start()
    about = kept.named("chat m-1")[0].attributes or {}
    assert about["gen_ai.request.model"] == "m-1"
    assert about["gen_ai.provider.name"] == "openai"
    assert (about["server.address"], about["server.port"]) == ("localhost", 8000)
    assert "gen_ai.agent.name" not in about


def test_a_question_is_a_span_until_the_reply_and_waiting_is_no_error(agents: AgentGround) -> None:
    agents.person = FakePerson([None])
    agents.agent = ScriptedAgent(GOOD | {"red": [asking, RED]})
    with recorded() as kept:
        agents.start()
        agents.person.answers.append(("yes",))
        agents.resume()
    waited, answered = kept.named("ask_person")
    assert [(one.attributes or {})["agentforge.outcome"] for one in (waited, answered)] == [
        "waiting",
        "answered",
    ]
    assert waited.status.status_code is StatusCode.UNSET
    assert (answered.attributes or {})["agentforge.question.count"] == 1
    paused, _ = kept.named("invoke_workflow tdflow")
    assert (paused.attributes or {})["agentforge.stop.cause"] == "person"
    stopped = kept.named("attempt red")[0]
    assert (stopped.attributes or {})["agentforge.outcome"] == "stopped"


def test_the_agent_is_called_within_its_span(agents: AgentGround) -> None:
    seen: list[str] = []

    def look(request: AgentRequest) -> str:
        seen.append(carried()["traceparent"])
        return RED

    agents.agent = ScriptedAgent(GOOD | {"red": [look]})
    with recorded() as kept:
        agents.start()
    called = kept.named("invoke_agent scripted")[0]
    assert seen[0].split("-")[1:3] == [f"{trace_of(called):032x}", f"{id_of(called):016x}"]


# --------------------------------------------------------------------------- from worker to worker


def test_a_run_after_a_kill_goes_on_in_the_same_trace_and_is_linked(ground: Ground) -> None:
    dead, alive = Recorded(), Recorded()  # two processes: each has its own SDK
    disk = DyingFileSystem()
    worker = ground.worker(fs=disk)
    ground.executor.before = lambda _: setattr(disk, "die_at", disk.changes)
    with using(dead.tracing), pytest.raises(Killed):
        worker.start(SCRIPTS)
    ground.executor.before = lambda _: None
    session_id = ground.only_session()
    assert session_id is not None
    with using(alive.tracing):
        ground.worker().resume(session_id)
    created = dead.only("create_session")
    first, second = dead.only("invoke_workflow two"), alive.only("invoke_workflow two")
    assert parent_of(first) == parent_of(second) == id_of(created)
    assert {trace_of(one) for one in (*dead.spans, *alive.spans)} == {trace_of(created)}
    assert [one.context.span_id for one in second.links] == [id_of(first)]
    assert first.links == ()
    assert (second.attributes or {})["agentforge.run.operation"] == "resume"
    assert (first.attributes or {})["error.type"].endswith(".Killed")  # type: ignore[union-attr]


def test_each_run_is_linked_to_the_one_before_it(agents: AgentGround) -> None:
    agents.person = FakePerson([None, None])
    agents.agent = ScriptedAgent(GOOD | {"red": [asking, RED]})
    with recorded() as kept:
        agents.start()
        agents.resume()
        agents.person.answers.append(("yes",))
        agents.resume()
    first, second, third = kept.named("invoke_workflow tdflow")
    assert [one.context.span_id for one in second.links] == [id_of(first)]
    assert [one.context.span_id for one in third.links] == [id_of(second)]
    assert len({trace_of(one) for one in kept.spans}) == 1


def test_a_run_in_another_trace_is_a_child_there_and_linked_to_its_own(ground: Ground) -> None:
    with recorded() as kept:
        session_id = ground.worker().begin(SCRIPTS)
    with recorded({"TRACEPARENT": ELSEWHERE}) as other:
        ground.worker().resume(session_id)
    created, run = kept.only("create_session"), other.only("invoke_workflow two")
    assert f"{trace_of(run):032x}" == ELSEWHERE.split("-")[1]
    assert [one.context.span_id for one in run.links] == [id_of(created)]


def test_a_run_within_a_span_of_the_program_is_its_child(ground: Ground) -> None:
    with recorded() as kept, traced(Traced.GATE, detail="of the program"):
        ground.worker().start(SCRIPTS)
    around = kept.only("gate of the program")
    assert parent_of(kept.only("create_session")) == id_of(around)
    assert parent_of(kept.only("invoke_workflow two")) == id_of(around)


def test_a_session_that_was_begun_untraced_has_a_trace_from_its_first_traced_run(
    agents: AgentGround,
) -> None:
    agents.person = FakePerson([None, None])
    agents.agent = ScriptedAgent(GOOD | {"red": [asking, RED]})
    agents.start()
    with recorded() as kept:
        agents.resume()
        agents.person.answers.append(("yes",))
        agents.resume()
    first, second = kept.named("invoke_workflow tdflow")
    assert parent_of(first) is None
    assert parent_of(second) == id_of(first)
    assert first.links == ()


def test_a_fork_has_a_trace_of_its_own_linked_to_its_parents(tmp_path: Path) -> None:
    base = tmp_path / "sessions"
    executor = Ground(base).executor
    manager = build_manager(base, executor=executor)
    from agentforge_sessions.workflows import WorkflowRunner

    with recorded() as kept:
        parent = WorkflowRunner(manager).start(SCRIPTS).session_id
        manager.open(parent)
        child = manager.fork(1).session_id
        WorkflowRunner(build_manager(base, executor=executor)).resume(child)
    first, forked = kept.named("invoke_workflow two")
    assert trace_of(forked) != trace_of(first)
    assert [one.context.span_id for one in forked.links] == [
        id_of(first),
        id_of(kept.only("create_session")),
    ]
    document = json.loads(SessionStore(base).read_step(child, TRACE_FILE) or b"")
    assert document["session_id"] == child


# -------------------------------------------------------------------------------- no harm is done


def test_nothing_is_kept_where_nobody_traces(ground: Ground) -> None:
    with using(None):
        session_id = ground.worker().start(SCRIPTS).session_id
    store = SessionStore(ground.base)
    assert store.read_step(session_id, TRACE_FILE) is None
    assert store.read_attachment(session_id, TRACE_FILE) is None


def test_what_is_kept_of_a_trace_is_no_step_of_the_run(agents: AgentGround) -> None:
    with recorded():
        agents.start()
    store = SessionStore(agents.base)
    assert TRACE_FILE in store.step_names(agents.session_id)
    assert TRACE_FILE not in StepJournal(store, agents.session_id).names()


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b"[" * 100_000, b'{"run": 1, "session_id": []}', b"{}"]
)
def test_a_kept_trace_that_is_none_is_passed_over(ground: Ground, content: bytes) -> None:
    session_id = ground.worker().begin(SCRIPTS)
    SessionStore(ground.base).keep_step(session_id, TRACE_FILE, content)
    with recorded() as kept, capture_logs():
        outcome = ground.worker().resume(session_id)
    assert outcome.reason is None
    assert kept.only("invoke_workflow two").parent is None


def test_a_trace_that_can_not_be_kept_stops_no_run(ground: Ground) -> None:
    class Full(DyingFileSystem):
        def rename(self, source: str, target: str, **more: Any) -> None:  # type: ignore[override]
            if target == TRACE_FILE:
                raise OSError(28, "no space")
            super().rename(source, target, **more)

    with recorded(), capture_logs() as told:
        session_id = ground.worker().begin(SCRIPTS)
        assert ground.worker(fs=Full()).resume(session_id).reason is None
    assert "telemetry.trace_not_kept" in [one["event"] for one in told]


OPERATIONS = ("begin", "set", "fail", "measure", "carrier", "end", "count", "carried")


@given(breaks=st.sets(st.sampled_from(OPERATIONS), min_size=1))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_tracing_raises_the_work_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, breaks: set[str]
) -> None:
    def work() -> tuple[list[str], dict[str, str], list[str]]:
        ground = AgentGround(tmp_path_factory.mktemp("base") / "sessions")
        ground.agent = ScriptedAgent(wrong_at_first())
        ground.start()
        return ground.actions(), ground.files(), [one.prompt for one in ground.agent.requests]

    with using(None):
        expected = work()
    with using(BrokenTracing(breaks)):
        assert _without_ids(work()) == _without_ids(expected)


def _without_ids(worked: tuple[list[str], dict[str, str], list[str]]) -> object:
    actions, files, prompts = worked
    return actions, files, len(prompts)


# ------------------------------------------------------------------------- without a runner of ours


def test_a_phase_that_a_program_runs_itself_is_an_attempt(ground: Ground) -> None:
    ground.worker()
    manager = ground.manager
    with recorded() as kept:
        manager.create("own", "one", 1000)
        manager.run_phase("write a.txt a", tokens=5)
        manager.run_phase("exit 1")
    passed, failed = kept.named("attempt one")
    assert (passed.attributes or {})["agentforge.outcome"] == "passed"
    assert (failed.attributes or {})["agentforge.outcome"] == "failed"
    assert kept.metric("agentforge.session.tokens") == {("one",): 5}


def test_a_save_that_another_worker_was_ahead_of_is_counted(tmp_path: Path) -> None:
    first = SessionManager(tmp_path)
    session = first.create("own", "one", 1000)
    second = SessionManager(tmp_path)
    second.load(session.session_id)
    first.pause("lunch")
    with recorded() as kept, capture_logs(), pytest.raises(SessionConflict):
        second.pause("tea")
    assert kept.metric("agentforge.session.conflicts") == {(): 1}
    failed = kept.only("save_session")
    assert failed.status.status_code is StatusCode.ERROR
