"""What docs/integrations.md promises to a program that leads sessions by a manager of its own."""

from __future__ import annotations

import json
from pathlib import Path

from opentelemetry import trace

from agentforge_sessions.harness import SessionManager
from agentforge_sessions.harness.session_layout import TRACE_FILE
from agentforge_sessions.workflows import Phase, Script, Workflow, WorkflowRunner
from tests.support.executors import FakeExecutor
from tests.support.tracing import id_of, parent_of, recorded, trace_of


def test_the_creation_of_a_session_is_a_span_with_its_conversation(base: Path) -> None:
    with recorded() as kept:
        session = SessionManager(base).create("tdflow", "red")
    span = kept.only("create_session")
    assert span.attributes is not None
    assert dict(span.attributes) == {
        "agentforge.session.id": session.session_id,
        "gen_ai.conversation.id": session.session_id,
        "gen_ai.workflow.name": "tdflow",
    }
    assert trace_of(kept.only("save_session")) == trace_of(span)


def test_its_context_is_kept_with_the_first_save_and_goes_on_in_another_process(
    base: Path,
) -> None:
    with recorded() as first:
        session_id = SessionManager(base).create(initial_phase="red").session_id
    made = first.only("create_session")
    file = json.loads((base / session_id / TRACE_FILE).read_text())
    assert f"{trace_of(made):032x}-{id_of(made):016x}" in file["origin"]["traceparent"]

    with recorded() as second:
        manager = SessionManager(base, executor=FakeExecutor())
        manager.open(session_id)
        manager.run_phase("pass")
        manager.pause()
    attempt = second.only("attempt red")
    assert (trace_of(attempt), parent_of(attempt)) == (trace_of(made), id_of(made))
    assert {trace_of(one) for one in second.spans} == {trace_of(made)}


def test_a_span_of_the_program_is_above_all_of_it(base: Path) -> None:
    with recorded() as kept:
        tracer = kept.tracers.get_tracer("program")
        with tracer.start_as_current_span("own"):
            manager = SessionManager(base)
            manager.create()
            manager.pause()
    assert kept.tree(but=()) == ["own", "  create_session", "    save_session", "  save_session"]


def test_a_session_that_a_runner_begins_has_one_span_for_it(base: Path) -> None:
    workflow = Workflow(
        name="one", workflow_type="scripts", phases=[Phase(name="red", gate=Script(code="pass"))]
    )
    with recorded() as kept:
        WorkflowRunner(SessionManager(base, executor=FakeExecutor())).start(workflow)
    made = kept.only("create_session")
    assert made.attributes is not None
    assert made.attributes["gen_ai.workflow.name"] == "one"
    assert {trace_of(one) for one in kept.spans} == {trace_of(made)}


def test_a_session_that_nobody_traces_keeps_no_context(base: Path) -> None:
    assert not trace.get_current_span().get_span_context().is_valid
    session_id = SessionManager(base).create().session_id
    assert not (base / session_id / TRACE_FILE).exists()


def test_a_context_that_can_not_be_read_ends_no_work(base: Path) -> None:
    with recorded():
        session_id = SessionManager(base).create(initial_phase="red").session_id
    (base / session_id / TRACE_FILE).write_text("[")
    with recorded() as kept:
        manager = SessionManager(base, executor=FakeExecutor())
        manager.open(session_id)
        assert manager.run_phase("pass").success
    assert parent_of(kept.only("attempt red")) is None
