"""A run that asks a person ends its job, and the answer, given anywhere, has it go on."""

from __future__ import annotations

from agentforge_sessions.harness import SessionState
from agentforge_sessions.workflows import AgentWork, FileGroup, Gate, Input, Phase, Workflow
from agentforge_sessions.workflows.agents.port import AgentChoice
from tests.support.fleet import Fleet
from tests.support.promptness import wait_until

APPROVAL = Workflow(
    name="approval",
    workflow_type="approval",
    role="You write notes.",
    groups=[FileGroup(name="notes", paths=["notes/"])],
    phases=[Phase(name="approve", gate=Gate(kind="approval", require=["notes/a.md"]))],
)


def test_waiting_holds_no_worker_and_the_answer_wakes_the_session(fleet: Fleet) -> None:
    worker = fleet.worker("--agent-commands")
    session_id = fleet.submit(
        AgentWork(
            workflow=APPROVAL,
            name="notes",
            subject="notes",
            inputs=[Input(target="notes/a.md", content=b"a note\n")],
            agent=AgentChoice(kind="command", value="true"),
        )
    )
    fleet.wait_for(session_id, SessionState.PAUSED)
    wait_until(lambda: fleet.jobs(session_id) == ["succeeded"])
    assert worker.events("fleet.session.looked_at")[0]["cause"] == "person"
    (asked,) = [
        one
        for one in fleet.command("questions", "history")["sessions"]
        if one["status"] == "pending"
    ]
    fleet.command("answer", asked["session_id"], "--select", "Approve")
    fleet.wait_for(session_id, SessionState.COMPLETED)
    wait_until(lambda: fleet.jobs(session_id) == ["succeeded", "succeeded"])
