"""The nodes of examples/embedding/langgraph_node.py in a real graph with real checkpoints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, evolve, field

from agentforge_sessions.base.files import FileLock, OsFileSystem
from agentforge_sessions.harness import SessionManager, SessionState, SessionStore
from agentforge_sessions.sandbox import prepare
from agentforge_sessions.wiring.bootstrap import build_agent_runner
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel
from agentforge_sessions.workflows import SPEC, TDFLOW, AgentWork, AlreadyRunning, PhaseAgent
from agentforge_sessions.workflows.agents.port import AgentAnswer, AgentRequest
from agentforge_sessions.workflows.job import WORKFLOW_NAME
from tests.support.embedding import ROOT, CountingAgent, SilentAgent, WorkerDied
from tests.support.late import LateModule

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph import types as graph_types
    from langgraph.checkpoint import memory, sqlite
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

    from examples.embedding import langgraph_node
else:
    graph_types = LateModule("langgraph.types")
    memory = LateModule("langgraph.checkpoint.memory")
    sqlite = LateModule("langgraph.checkpoint.sqlite")
    langgraph_node = LateModule("examples.embedding.langgraph_node")

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

RUN = ROOT / "examples" / "embedding" / "run_langgraph.py"
ANSWERS = ["50 characters", "Drop them"]
THREAD: RunnableConfig = {"configurable": {"thread_id": "one"}}
WORK = AgentWork(workflow=SPEC, name="slugs", subject="Titles become short, safe file names.")
WHOLE = ["intake-1", "clarify-1", "clarify-1-2", "analyze-1", "draft-1", "draft-2"]


@pytest.fixture(autouse=True)
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trace of these runs goes anywhere, whatever the environment says."""
    for name in list(os.environ):
        if name.startswith(("LANGSMITH_", "LANGCHAIN_")):
            monkeypatch.delenv(name)


class FirstTakes:
    """Gives the recorded answer to the first attempt at a phase, whichever attempt it is."""

    description = "first takes"

    def answer(self, request: AgentRequest) -> AgentAnswer:
        return CountingAgent().answer(evolve(request, turn=1))


@define
class Channel:
    """The graph as an embedder has it: compiled anew whenever a worker comes."""

    base: Path
    checkpoints: BaseCheckpointSaver[Any]
    agent: PhaseAgent = field(factory=CountingAgent)
    work: AgentWork = WORK

    def graph(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        graph = langgraph_node.session_graph(self.work, self.agent, self.base)
        return graph.compile(checkpointer=self.checkpoints)

    def invoke(self, step: Any) -> dict[str, Any]:
        return self.graph().invoke(step, THREAD, durability="sync")

    def asked(self, state: dict[str, Any]) -> list[str]:
        (one,) = state["__interrupt__"]
        return [question["prompt"] for question in one.value["questions"]]

    @property
    def session_id(self) -> str:
        (only,) = SessionStore(self.base).list_sessions()
        return only

    @property
    def state(self) -> SessionState:
        session = SessionStore(self.base).load(self.session_id)
        assert session is not None
        return session.state


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Channel]:
    with sqlite.SqliteSaver.from_conn_string(str(tmp_path / "graph.sqlite")) as checkpoints:
        yield Channel(tmp_path / "sessions", checkpoints)


def test_questions_interrupt_the_graph_and_the_answers_complete_the_session(
    channel: Channel,
) -> None:
    state = channel.invoke({})
    (prompt, _) = channel.asked(state)
    assert prompt == "How long may a slug be at most?"
    state = channel.invoke(graph_types.Command(resume=ANSWERS))
    (approval,) = channel.asked(state)
    assert "Is it approved?" in approval
    state = channel.invoke(graph_types.Command(resume=["Approve"]))
    assert state["outcome"]["state"] == "completed"
    assert state["outcome"]["session_id"] == state["session_id"] == channel.session_id
    assert isinstance(channel.agent, CountingAgent)
    assert channel.agent.calls == WHOLE
    product = channel.base / channel.session_id / "workspace" / "specs" / "slugs.yaml"
    assert "status: approved" in product.read_text()
    assert "answer: Drop them" in product.read_text()


@pytest.mark.parametrize("again", [{}, None], ids=["begun again", "gone on with"])
@pytest.mark.parametrize("dies_at", ["clarify-1", "clarify-1-2", "draft-2"])
def test_worker_that_dies_in_a_node_is_followed_by_one_that_repeats_nothing(
    channel: Channel, dies_at: str, again: dict[str, Any] | None
) -> None:
    agent = channel.agent = CountingAgent(dies_at)
    steps: list[Any] = [
        {},
        graph_types.Command(resume=ANSWERS),
        graph_types.Command(resume=["Approve"]),
    ]
    state: dict[str, Any] = {}
    for step in steps:
        try:
            state = channel.invoke(step)
        except WorkerDied:
            before = channel.session_id
            state = channel.invoke(again)
            assert channel.session_id == state["session_id"] == before
    assert agent.dies_at is None
    assert state["outcome"]["state"] == "completed"
    assert agent.calls == WHOLE


def test_questions_that_wait_interrupt_again_when_the_graph_is_begun_again(
    channel: Channel,
) -> None:
    assert channel.asked(channel.invoke({})) == channel.asked(channel.invoke({}))
    assert (
        "Is it approved?" in channel.asked(channel.invoke(graph_types.Command(resume=ANSWERS)))[0]
    )
    assert channel.session_id


@pytest.mark.parametrize("again", [{}, None], ids=["begun again", "gone on with"])
def test_answers_given_elsewhere_let_the_graph_go_on_without_any(
    channel: Channel, again: dict[str, Any] | None
) -> None:
    channel.invoke({})
    outcome = build_agent_runner(channel.base).outcome(channel.session_id)
    assert outcome.waiting_for is not None
    QuestionSessionChannel(channel.base.parent / "questions").answer(outcome.waiting_for, ANSWERS)
    (approval,) = channel.asked(channel.invoke(again))
    assert "Is it approved?" in approval


@pytest.mark.parametrize("given", [["50 characters"], "50 characters", ["50 characters", " "], 7])
def test_answers_that_can_not_be_taken_interrupt_again_with_the_problem(
    channel: Channel, given: object
) -> None:
    channel.invoke({})
    state = channel.invoke(graph_types.Command(resume=given))
    assert state["__interrupt__"][0].value["problem"].startswith("answers")
    state = channel.invoke(graph_types.Command(resume=ANSWERS))
    assert "Is it approved?" in channel.asked(state)[0]


def test_attempts_used_up_are_an_outcome_with_its_reason_however_often_it_is_invoked(
    channel: Channel,
) -> None:
    channel.agent = SilentAgent()
    state = channel.invoke({})
    assert state["outcome"]["state"] == "paused"
    assert "phase 'intake' failed at attempt 3 of 3" in state["outcome"]["reason"]
    first = state["session_id"]
    again = channel.agent = CountingAgent()
    state = channel.invoke({})
    assert (state["session_id"], state["outcome"]["state"]) == (first, "paused")
    assert "phase 'intake' failed at attempt 3 of 3" in state["outcome"]["reason"]
    assert again.calls == []


def test_session_that_was_retried_elsewhere_goes_on_when_the_graph_is_invoked_again(
    channel: Channel,
) -> None:
    channel.agent = SilentAgent()
    first = channel.invoke({})["session_id"]
    runner = build_agent_runner(
        channel.base, channel=QuestionSessionChannel(channel.base.parent / "questions")
    )
    assert runner.retry(first, "a better agent", FirstTakes()).waiting_for is not None
    state = channel.invoke({})
    assert state["session_id"] == first
    assert channel.asked(state)[0] == "How long may a slug be at most?"


def test_session_that_ended_elsewhere_ends_the_graph_and_asks_nobody(channel: Channel) -> None:
    channel.invoke({})
    manager = SessionManager(SessionStore(channel.base))
    manager.load(channel.session_id)
    manager.abort("not wanted any more")
    agent = channel.agent = CountingAgent()
    state = channel.invoke({})
    assert state["outcome"]["state"] == "aborted"
    assert state["outcome"]["reason"] == "not wanted any more"
    assert agent.calls == []


def test_session_that_another_worker_runs_is_told_and_taken_up_later(channel: Channel) -> None:
    agent = channel.agent = CountingAgent(dies_at="intake-1")
    with pytest.raises(WorkerDied):
        channel.invoke({})
    lock = FileLock(OsFileSystem(), channel.base / channel.session_id / WORKFLOW_NAME, timeout_s=0)
    lock.acquire()
    try:
        with pytest.raises(AlreadyRunning):
            channel.invoke(None)
    finally:
        lock.release()
    assert agent.calls == []
    assert "__interrupt__" in channel.invoke(None)


def test_component_that_is_developed_asks_through_the_graph_just_so(channel: Channel) -> None:
    prepare()
    agent = channel.agent = CountingAgent(dies_at="green-1")
    specification = (ROOT / "examples" / "specs" / "slugs.yaml").read_bytes()
    channel.work = AgentWork(workflow=TDFLOW, name="slugs", specification=specification)
    assert channel.asked(channel.invoke({})) == ["Does an underscore in a title separate words?"]
    with pytest.raises(WorkerDied):
        channel.invoke(graph_types.Command(resume=["It separates"]))
    outcome = build_agent_runner(channel.base).outcome(channel.session_id)
    assert outcome.phases_done == ("red",)
    assert agent.calls == ["red-1", "red-1-2"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_graph_is_invoked_from_a_running_loop_just_so(tmp_path: Path) -> None:
    channel = Channel(tmp_path / "sessions", memory.InMemorySaver())
    await channel.graph().ainvoke({}, THREAD)
    state = await channel.graph().ainvoke(graph_types.Command(resume=ANSWERS), THREAD)
    assert "Is it approved?" in channel.asked(state)[0]


def test_process_that_is_killed_while_the_agent_thinks_is_followed_by_another(
    tmp_path: Path,
) -> None:
    (tmp_path / "agent.py").write_text(
        "import os, pathlib, sys, time\n"
        "parent = os.getppid()\n"
        "sys.stdin.read()\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "name = os.environ['AGENTFORGE_PHASE'] + '-1'\n"
        "name += '-2' if os.environ['AGENTFORGE_CALL'] == '2' else ''\n"
        "with open(here / 'calls', 'a') as calls:\n"
        "    calls.write(name + ' ')\n"
        "if name == 'clarify-1' and not (here / 'slept').exists():\n"
        "    (here / 'slept').touch()\n"
        "    while os.getppid() == parent:  # until the worker is killed\n"
        "        time.sleep(0.05)\n"
        "    sys.exit(1)\n"
        f"recorded = pathlib.Path({str(ROOT)!r}) / 'examples' / 'recordings' / 'slugs'\n"
        "print((recorded / (name + '.md')).read_text())\n"
    )
    words = [
        *(sys.executable, "-W", "error", str(RUN)),
        *("--base", str(tmp_path / "sessions")),
        *("--agent", f"{sys.executable} {tmp_path / 'agent.py'}"),
    ]
    worker = subprocess.Popen(
        words,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not (tmp_path / "slept").exists():
        assert worker.poll() is None
        time.sleep(0.02)
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    (session_id,) = SessionStore(tmp_path / "sessions").list_sessions()

    again = subprocess.run(
        words,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input="1\n1\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (again.returncode, again.stderr) == (1, "")
    assert "How long may a slug be at most?" in again.stdout
    assert SessionStore(tmp_path / "sessions").list_sessions() == [session_id]
    calls = (tmp_path / "calls").read_text().split()
    assert calls[:4] == ["intake-1", "clarify-1", "clarify-1", "clarify-1-2"]
    assert calls.count("intake-1") == 1
