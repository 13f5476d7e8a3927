"""What a person sees of a run that is taken up again."""

from __future__ import annotations

from agentforge_sessions.entrypoints.cli.output.output import Output
from agentforge_sessions.entrypoints.cli.output.progress import RunView
from agentforge_sessions.harness import SessionManager
from agentforge_sessions.harness.domain.history_events import (
    AgentAnswered,
    PhaseFailed,
    PhaseSucceeded,
)
from agentforge_sessions.workflows import Job, Phase, Script, Workflow

JOB = Job(
    workflow=Workflow(
        name="work",
        workflow_type="work",
        phases=[Phase(name=name, gate=Script(code="pass")) for name in ("red", "green", "done")],
    )
)


def test_a_run_that_is_taken_up_shows_all_that_was_charged_before(manager: SessionManager) -> None:
    session = manager.create("work", "red", 100_000)
    manager.record(AgentAnswered(call=1, tokens=100))
    manager.record(PhaseSucceeded(attempt=1, tokens=100, seconds=1.0))
    manager.advance_phase("green")
    manager.record(AgentAnswered(call=1, tokens=30))
    manager.record(PhaseFailed(attempt=1, tokens=30))
    manager.advance_phase("red")
    manager.record(AgentAnswered(call=1, tokens=40))
    manager.record(PhaseSucceeded(attempt=1, tokens=45, seconds=2.0))  # and 5 by a script
    manager.advance_phase("green")
    manager.record(AgentAnswered(call=1, tokens=7))  # and the worker was killed
    view = RunView(manager, Output())
    view.run_started(session.session_id, JOB, resumed=True)
    assert [row.tokens for row in view.rows] == [145, 37, 0]
    assert view.row("red").duration_s == 3.0


def test_what_a_run_waits_for_in_the_sandbox_is_what_it_does(manager: SessionManager) -> None:
    lines: list[str] = []

    class Lines(RunView):
        def _line(self, text: str) -> None:
            lines.append(text)

    view = Lines(manager, Output())
    view.sandbox_prepares("compiling, about 40 %, 6 s so far")
    assert view.doing == "sandbox: compiling, about 40 %, 6 s so far"
    assert lines == ["Sandbox: compiling, about 40 %, 6 s so far"]
