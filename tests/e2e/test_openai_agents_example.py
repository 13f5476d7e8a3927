"""The tools of examples/embedding/openai_agents_tool.py, called by the SDK's own runner."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define

from agentforge_sessions.base.files import FileLock, OsFileSystem
from agentforge_sessions.harness import SessionState, SessionStore, answers_in_words
from agentforge_sessions.sandbox import prepare
from agentforge_sessions.wiring.bootstrap import build_agent_runner
from agentforge_sessions.workflows import PhaseAgent
from agentforge_sessions.workflows.agents.port import AgentAnswer, AgentRequest
from agentforge_sessions.workflows.job import WORKFLOW_NAME
from tests.support.embedding import ROOT, CountingAgent, SilentAgent, WorkerDied
from tests.support.late import LateModule

if TYPE_CHECKING:
    import agents as sdk
    from agents import testing as scripted

    from examples.embedding import openai_agents_tool as tools
    from examples.embedding import rehearsal as rehearsing
else:
    sdk, scripted = LateModule("agents"), LateModule("agents.testing")
    tools = LateModule("examples.embedding.openai_agents_tool")
    rehearsing = LateModule("examples.embedding.rehearsal")

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

RUN = ROOT / "examples" / "embedding" / "run_openai_agents.py"
SPECIFICATION = (ROOT / "examples" / "specs" / "slugs.yaml").read_bytes()
QUESTION = "Does an underscore in a title separate words?"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@define
class Chat:
    """A conversation on disk, and workers that come and go on it."""

    place: Path
    conversation: sdk.SQLiteSession

    @property
    def base(self) -> Path:
        return self.place / "sessions"

    async def say(
        self,
        words: Any,
        agent: PhaseAgent | None = None,
        model: scripted.ScriptedModel | None = None,
    ) -> sdk.RunResult:
        """A new process, as far as session and conversation can tell."""
        foreman = sdk.Agent[tools.Channel](
            name="foreman",
            tools=[tools.begin_component, tools.run_session, tools.answer_questions],
            model=model or rehearsing.rehearsal(),
        )
        channel = tools.Channel(
            base=self.base, specification=SPECIFICATION, agent=agent or CountingAgent()
        )
        config = sdk.RunConfig(tracing_disabled=True)
        return await sdk.Runner.run(
            foreman, words, context=channel, session=self.conversation, run_config=config
        )

    async def answer(self, words: str, agent: PhaseAgent | None = None) -> sdk.RunResult:
        """Say something and approve what the model makes of it."""
        result = await self.say(words, agent)
        (call,) = result.interruptions
        assert (call.name, json.loads(call.arguments or "")["answers"]) == (
            "answer_questions",
            [words],
        )
        state = result.to_state()
        state.approve(call)
        return await self.say(state, agent)

    @property
    def session_id(self) -> str:
        (only,) = SessionStore(self.base).list_sessions()
        return only

    @property
    def state(self) -> SessionState:
        return build_agent_runner(self.base).outcome(self.session_id).state


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Chat]:
    conversation = sdk.SQLiteSession("one", tmp_path / "conversations.sqlite")
    yield Chat(tmp_path, conversation)
    conversation.close()


def called(name: str, **arguments: object) -> scripted.ScriptedModel:
    """A model that calls one tool and then says what the tool gave back."""

    def repeat(call: Any) -> Any:
        return [scripted.assistant_message(call.input[-1]["output"])]

    return scripted.ScriptedModel(
        [
            [scripted.function_call(name, arguments, call_id="call-1")],
            scripted.ModelStep.respond(repeat),
        ]
    )


async def test_question_reaches_the_user_and_dead_workers_are_followed_by_others_that_go_on(
    chat: Chat,
) -> None:
    prepare()
    agent = CountingAgent(dies_at="green-1")
    assert QUESTION in (await chat.say("Please develop slugs", agent)).final_output
    before = chat.session_id
    with pytest.raises(WorkerDied):
        await chat.answer("It separates", agent)
    assert agent.calls == ["red-1", "red-1-2"]
    agent.dies_at = "refactor-1"
    with pytest.raises(WorkerDied):
        await chat.say("What became of it?", agent)
    outcome = build_agent_runner(chat.base).outcome(before)
    assert (outcome.state, outcome.phases_done) == (SessionState.ACTIVE, ("red", "green"))
    assert chat.session_id == before
    assert agent.calls == ["red-1", "red-1-2", "green-1"]


async def test_answer_that_the_user_does_not_approve_is_not_given(chat: Chat) -> None:
    await chat.say("Please develop slugs")
    result = await chat.say("It is left out")
    state = result.to_state()
    state.reject(result.interruptions[0])
    assert "not approved" in (await chat.say(state)).final_output
    outcome = build_agent_runner(chat.base).outcome(chat.session_id)
    assert outcome.waiting_for is not None
    assert tools.Channel(base=chat.base, specification=b"", agent=SilentAgent()).person.waiting(
        outcome.waiting_for
    )


async def test_attempts_used_up_are_a_report_with_its_reason_however_often_it_is_run(
    chat: Chat,
) -> None:
    result = await chat.say("Please develop slugs", SilentAgent())
    assert "phase 'red' failed at attempt 3 of 3: the answer holds no file" in result.final_output
    assert chat.state is SessionState.PAUSED
    agent = CountingAgent()
    result = await chat.say("Go on", agent)
    assert "phase 'red' failed at attempt 3 of 3: the answer holds no file" in result.final_output
    assert agent.calls == []


async def test_what_the_caller_can_mend_is_told_to_the_model(chat: Chat) -> None:
    result = await chat.say("Please develop widgets")
    assert "widgets" in result.final_output
    assert "slugs" in result.final_output
    assert SessionStore(chat.base).list_sessions() == []
    model = called("run_session", session_id="session_20260101_000000_00000000")
    result = await chat.say("Go on with that", model=model)
    assert "session_20260101_000000_00000000" in result.final_output


async def test_session_that_another_worker_runs_is_told_to_the_model(chat: Chat) -> None:
    await chat.say("Please develop slugs")
    lock = FileLock(OsFileSystem(), chat.base / chat.session_id / WORKFLOW_NAME, timeout_s=0)
    lock.acquire()
    try:
        model = called("run_session", session_id=chat.session_id)
        result = await chat.say("Go on", model=model)
    finally:
        lock.release()
    assert "is being run by another worker" in result.final_output


async def test_run_that_is_cancelled_leaves_its_tool_to_come_to_the_next_pause(chat: Chat) -> None:
    thinks, may_answer = threading.Event(), threading.Event()

    class SlowAgent:
        description = "slow"

        def answer(self, request: AgentRequest) -> AgentAnswer:
            thinks.set()
            assert may_answer.wait(60)
            return CountingAgent().answer(request)

    run = asyncio.create_task(chat.say("Please develop slugs", SlowAgent()))
    try:
        assert await asyncio.to_thread(thinks.wait, 60)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        model = called("run_session", session_id=chat.session_id)
        result = await chat.say("Go on", model=model)
        assert "is being run by another worker" in result.final_output
    finally:
        may_answer.set()
    while chat.state is SessionState.ACTIVE:
        await asyncio.sleep(0.01)
    assert build_agent_runner(chat.base).outcome(chat.session_id).waiting_for is not None


async def test_answers_are_given_once(chat: Chat) -> None:
    await chat.say("Please develop slugs")
    asked = build_agent_runner(chat.base).outcome(chat.session_id).waiting_for
    assert asked is not None
    channel = tools.Channel(base=chat.base, specification=b"", agent=SilentAgent())
    for words, told in (
        (["It separates", "and more"], "answers: expected 1, one for each question; got 2"),
        (["It separates"], "given"),
        (["It is left out"], "somebody answered before; those answers stand"),
    ):
        result = await chat.say(
            "Answer", model=called("answer_questions", asked=asked, answers=words)
        )
        state = result.to_state()
        state.approve(result.interruptions[0])
        assert told in (await chat.say(state, model=called("none"))).final_output
    reply = channel.person.wait(asked, 0)
    assert reply is not None
    assert answers_in_words(reply, 1) == ("It separates",)


async def test_disk_that_can_not_be_written_ends_the_run(chat: Chat) -> None:
    chat.base.write_text("no directory")
    with pytest.raises(sdk.UserError, match="could not write"):
        await chat.say("Please develop slugs")


def test_script_plays_a_conversation_without_a_key(tmp_path: Path) -> None:
    environment = {key: text for key, text in os.environ.items() if key != "OPENAI_API_KEY"}
    ran = subprocess.run(
        [
            *(sys.executable, "-W", "error", str(RUN)),
            *("--rehearse", "--base", str(tmp_path / "sessions")),
        ],
        env={**environment, "PYTHONPATH": str(ROOT)},
        input="Please develop slugs\nIt separates\nn\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert QUESTION in ran.stdout
    assert "Start again to go on" in ran.stdout
