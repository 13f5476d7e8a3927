"""Calls, their threads, and what is told of what goes wrong in them, without a wire."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import frozen
from mcp import Client
from mcp_types import CallToolResult

from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.base.files import WriteError
from agentforge_sessions.entrypoints.mcp_server.arguments import QuestionArgument
from agentforge_sessions.entrypoints.mcp_server.calls import CODE_THREADS, CancelScopes, Workers
from agentforge_sessions.entrypoints.mcp_server.results import ToolResult
from agentforge_sessions.entrypoints.mcp_server.server import HarnessServer
from agentforge_sessions.entrypoints.mcp_server.tool import Tool, tool, tools_of
from agentforge_sessions.entrypoints.mcp_server.tools.code_tool import CodeTool
from agentforge_sessions.entrypoints.mcp_server.tools.question_tools import QuestionTools
from agentforge_sessions.entrypoints.mcp_server.tools.session_access import SessionAccess
from agentforge_sessions.entrypoints.mcp_server.tools.session_tools import SessionTools
from agentforge_sessions.harness import PhaseResult, SessionConflict, SessionManager, SessionStore
from agentforge_sessions.harness.lazy import Lazy
from agentforge_sessions.questions import (
    QuestionsConfig,
    QuestionSession,
    QuestionSessions,
    SessionEnded,
    SessionStatus,
    current_directory,
    format_inactive,
    format_pending,
    format_rejected,
    format_rejection,
    format_submission,
    format_user_response,
)
from agentforge_sessions.questions.files.wire import question_document
from agentforge_sessions.sandbox import SandboxUnavailable
from agentforge_sessions.testing import ScriptedAnswers
from tests.support.executors import FAILED, TRAPPED, FakeExecutor, WaitingExecutor
from tests.support.mcp_calls import DirectCall, answer
from tests.support.mcp_processes import ASKED, text_of
from tests.support.questions import ANSWERS, DATABASE
from tests.support.questions import MISSING as FIRST_ID
from tests.support.recorded_programs import begin_program, recording

pytestmark = pytest.mark.anyio


class Said(ToolResult):
    """Says something."""

    words: str

    def in_words(self) -> str:
        """Say it."""
        return self.words


class Doing:
    """A tool that does what a test has it do."""

    def __init__(self, run: Callable[[], Awaitable[Said]]) -> None:
        self.run = run

    @tool("Do it")
    async def do_it(self) -> Said:
        """Does it."""
        return await self.run()


def doing(run: Callable[[], Awaitable[Said]]) -> Tool:
    (one,) = tools_of(Doing(run))
    return one


def raising(error: BaseException) -> Tool:
    async def run() -> Said:
        raise error

    return doing(run)


# --------------------------------------------------------------------------------------- errors


class Unheard(AgentForgeError):
    """Of no package that the server knows."""


UNSPELLABLE = WriteError(path=Path("/\udcff"), operation="fsync", cause=OSError(28, "full"))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            SessionConflict("s", path=Path("/p"), expected_revision=1, actual_revision=2),
            "Nothing was written; load it again and repeat the change.",
        ),
        (UNSPELLABLE, "\\udcff"),
        (UNSPELLABLE, "the old content is untouched. Free the disk"),
        (SandboxUnavailable("no memory", "add some"), "No code ran; add some"),
        (
            SessionEnded("s", status=SessionStatus.REJECTED, operation="answer"),
            "Nothing was changed; what it ended with is kept.",
        ),
        (OSError(28, "No space left"), "Free the disk or fix its permissions"),
        (Unheard("what to do"), "what to do"),
    ],
)
async def test_a_typed_error_is_reported_in_its_own_words(error: Exception, words: str) -> None:
    result = await answer([raising(error)], "do_it")
    assert result.is_error
    assert words in text_of(result)
    assert result.meta is not None
    assert result.meta["agentforge/error"]["type"] == type(error).__name__


class Hostile(AgentForgeError):
    """An error whose fields are of every kind."""

    retryable = True

    def __init__(self) -> None:
        super().__init__("the long text, for models")
        self.path = Path("/\udcff")
        self.names = ["x" * 1_000] * 100
        self.state = SessionStatus.PENDING
        self.count = 3
        self.cause = OSError(28, "full")
        self._private = "secret"

    @property
    def user_message(self) -> str:
        return "One sentence."


async def test_programs_read_of_an_error_what_people_and_they_need() -> None:
    result = await answer([raising(Hostile())], "do_it")
    assert text_of(result) == "the long text, for models"
    assert result.meta is not None
    assert result.meta["agentforge/error"] == {
        "type": "Hostile",
        "user_message": "One sentence.",
        "retryable": True,
        "fields": {
            "path": "/\\udcff",
            "names": ["x" * 500] * 50,
            "state": "pending",
            "count": 3,
            "cause": "[Errno 28] full",
        },
    }


async def test_a_fault_of_ours_is_reported_without_what_it_says_and_is_not_to_be_repeated() -> None:
    result = await answer([raising(ZeroDivisionError("secret"))], "do_it")
    assert result.is_error
    assert "unexpected ZeroDivisionError. This is a fault in agentforge itself" in text_of(result)
    assert result.meta is not None
    found = result.meta["agentforge/error"]
    assert (found["type"], found["retryable"], found["fields"]) == ("ZeroDivisionError", False, {})
    assert "secret" not in f"{text_of(result)}{found}"


async def test_a_long_message_is_bounded() -> None:
    result = await answer([raising(SandboxUnavailable("x" * 100_000, "y"))], "do_it")
    assert len(text_of(result)) <= 4_000


async def test_arguments_that_are_unknown_are_refused_before_anything_is_done() -> None:
    done = []

    async def run() -> Said:
        done.append(1)
        return Said(words="x")

    result = await answer([doing(run)], "do_it", **{"a": 1, "b" * 1000: 2})
    assert result.is_error
    assert "a: is no argument" in text_of(result)
    assert len(text_of(result)) < 400
    assert not done


# ------------------------------------------------------------------------------------- progress


async def test_a_call_that_waits_tells_of_it_every_few_seconds() -> None:
    slept: list[float] = []
    told: list[tuple[float, str | None]] = []
    enough = anyio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            enough.set()
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()

    async def report(done: float, total: float | None, message: str | None) -> None:
        assert total is None
        told.append((done, message))

    with anyio.fail_after(60):
        async with Workers(sleep=sleep).reporting(DirectCall(report), "waiting"):
            await enough.wait()
    assert slept == [3.0, 3.0, 3.0]
    assert told == [(0.0, "waiting (0 s)"), (3.0, "waiting (3 s)"), (6.0, "waiting (6 s)")]


async def test_what_goes_wrong_while_it_is_told_of_goes_to_the_caller_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        async with Workers().reporting(DirectCall(), "waiting"):
            raise ZeroDivisionError


# -------------------------------------------------------------------------------------- threads


async def test_short_work_goes_on_while_code_takes_all_its_threads() -> None:
    workers = Workers()
    go, began = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        began.release()
        go.wait(60)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(CODE_THREADS + 5):
                group.start_soon(lambda: workers.code(work, stop=go.set))
            for _ in range(CODE_THREADS):
                await anyio.to_thread.run_sync(began.acquire)
            with anyio.fail_after(30):
                assert await workers.quick(lambda: 7) == 7
            assert not began.acquire(blocking=False)  # the others wait for their turn
            go.set()


async def test_code_that_is_cancelled_is_stopped_and_waited_for() -> None:
    stopped, began, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        stopped.wait(60)
        ended.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: Workers().code(work, stop=stopped.set))
            await anyio.to_thread.run_sync(began.wait)
            group.cancel_scope.cancel()
    assert stopped.is_set()
    assert ended.is_set()


async def test_code_that_ends_of_itself_is_not_stopped() -> None:
    stopped = threading.Event()
    assert await Workers().code(lambda: 7, stop=stopped.set) == 7
    with pytest.raises(ZeroDivisionError):
        await Workers().code(lambda: 1 // 0, stop=stopped.set)
    assert not stopped.is_set()


async def test_a_server_that_stops_ends_calls_and_begins_none() -> None:
    under_way = CancelScopes()
    began = anyio.Event()
    results: list[CallToolResult] = []

    async def run() -> Said:
        began.set()
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(60):
        async with Client(HarnessServer([doing(run)], under_way=under_way)) as client:

            async def call() -> None:
                results.append(await client.call_tool("do_it", {}))

            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await began.wait()
                assert under_way.count == 1
                under_way.stop()
            await call()
    assert under_way.count == 0
    assert ["the server is stopping" in text_of(one) for one in results] == [True, True]


# ---------------------------------------------------------------------------- sessions and code


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def sessions(store: SessionStore, slept: list[float]) -> SessionAccess:
    return SessionAccess(store=store, sleep=slept.append, chance=lambda: 1.0)


def new(store: SessionStore) -> str:
    return SessionManager(store).create(goal="g", initial_phase="red").session_id


def interfere(store: SessionStore, session_id: str) -> None:
    other = SessionManager(store)
    other.load(session_id)
    other.record_tokens(1)


@pytest.mark.parametrize("overtaken", [1, 3, 12])
async def test_a_change_is_repeated_after_a_pause_when_somebody_else_was_faster(
    sessions: SessionAccess, store: SessionStore, slept: list[float], overtaken: int
) -> None:
    session_id = new(store)
    times = []

    def act(manager: SessionManager) -> None:
        times.append(1)
        if len(times) <= overtaken:
            interfere(store, session_id)
        manager.advance_phase("green")

    session, _ = await sessions.change(DirectCall(), session_id, act)
    assert (session.current_phase, session.token_budget.tokens_used) == ("green", overtaken)
    assert slept == [0.002, 0.004, 0.008, 0.016, 0.032, 0.064, *[0.1] * 6][:overtaken]


async def test_somebody_who_is_always_faster_is_told_of(
    sessions: SessionAccess, store: SessionStore
) -> None:
    session_id = new(store)

    def act(manager: SessionManager) -> None:
        interfere(store, session_id)
        manager.advance_phase("green")

    with pytest.raises(SessionConflict):
        await sessions.change(DirectCall(), session_id, act)


@pytest.mark.parametrize("damaged", [lambda whole: b"broken", lambda whole: whole[:-40]])
async def test_a_session_that_cant_be_read_is_listed_and_hides_none(
    sessions: SessionAccess, store: SessionStore, damaged: Callable[[bytes], bytes]
) -> None:
    broken, good = new(store), new(store)
    path = store.session_path(broken)
    path.write_bytes(damaged(path.read_bytes()))
    async with Client(HarnessServer(tools_of(SessionTools(sessions)))) as client:
        result = await client.call_tool("session_list", {})
        values = result.structured_content
        assert [one["session_id"] for one in values["sessions"]] == [good]
        assert [one["session_id"] for one in values["unreadable"]] == [broken]
        assert "can't be read" in text_of(result)
        shown = await client.call_tool("session_show", {"session_id": broken})
        assert shown.is_error
        assert "The file was left as it is" in text_of(shown)


async def test_the_values_of_an_entry_are_shown_beside_its_words(
    sessions: SessionAccess, store: SessionStore
) -> None:
    manager = SessionManager(store)
    session_id = manager.create(goal="g" * 3_000, initial_phase="red").session_id
    manager.advance_phase("green")
    manager.add_history("noted", "a note")
    result = await answer(SessionTools(sessions), "session_show", session_id=session_id)
    entries = manager.current_session.history  # type: ignore[union-attr]
    shown = result.structured_content["history"]
    assert [one["data"] for one in shown][1:] == [json.loads(json.dumps(entries[1].data)), {}]
    assert shown[1]["data"]
    assert set(shown[0]["data"]) == set(entries[0].data)
    assert all(len(str(one)) < 1_100 for one in shown[0]["data"].values())


async def test_the_last_steps_of_a_program_are_shown(
    sessions: SessionAccess, store: SessionStore
) -> None:
    session_id = begin_program(store, key="\ud800")
    with recording(store, session_id) as record:
        record(*(f"draft#{number}" for number in range(1, 101)))
        record("publish#1", error=("ValueError", "no place\n\ud800 " + "x" * 1_000))
    result = await answer(SessionTools(sessions), "session_show", session_id=session_id)
    program = result.structured_content["program"]
    assert (program["key"], program["recorded"], program["tokens"]) == (r"\ud800", 101, 10_100)
    steps = [one["step"] for one in program["steps"]]
    assert steps == [*(f"draft#{number}" for number in range(94, 101)), "publish#1"]
    assert program["steps"][-1]["error"].startswith(r"ValueError: no place \ud800 x")
    assert len(program["steps"][-1]["error"]) < 500
    assert "101 recorded by the program" in text_of(result)


async def test_a_long_history_is_shown_in_part(sessions: SessionTools, store: SessionStore) -> None:
    manager = SessionManager(store)
    session_id = manager.create(goal="g").session_id
    manager.add_history("noted", "x" * 100_000)
    async with Client(HarnessServer(tools_of(SessionTools(sessions)))) as client:
        result = await client.call_tool("session_show", {"session_id": session_id})
        last = result.structured_content["history"][-1]["details"]
        assert 1_000 <= len(last) < 1_100
        assert "99,000 characters left out" in last
        assert len(text_of(result)) < 2_000
        none = await client.call_tool(
            "session_show", {"session_id": session_id, "history_limit": 0, "artifacts_limit": 0}
        )
        assert none.structured_content["history"] == []
        assert none.structured_content["history_total"] == 2


def code_tool(store: SessionStore, *results: PhaseResult) -> tuple[CodeTool, FakeExecutor]:
    executor = FakeExecutor(list(results))
    return (
        CodeTool(SessionAccess(store=store), lambda _: executor),
        executor,
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (FAILED, "Failed: exit code 1; 0.25 s.\nstderr:\nAssertionError"),
        (TRAPPED, "Failed: stopped by the limit on deadline; 5.00 s."),
        (
            PhaseResult(success=True, exit_code=0, files_created=[f"{i:03}" for i in range(150)]),
            "(50 more files)",
        ),
        (PhaseResult(success=True, exit_code=0, truncated=True), "(Some output was cut off.)"),
    ],
)
async def test_what_code_did_is_told(store: SessionStore, given: PhaseResult, words: str) -> None:
    session_id = new(store)
    tools, executor = code_tool(store, given)
    result = await answer(tools, "run_code", session_id=session_id, code="x", deadline_s=9, fuel=5)
    assert not result.is_error
    assert words in text_of(result)
    assert result.structured_content["success"] is given.success
    (execution,) = executor.executions
    assert (execution.deadline_s, execution.fuel) == (9.0, 5)


async def test_code_that_asks_goes_on_at_the_same_call_after_the_answer(
    store: SessionStore,
) -> None:
    session_id, executor, person = new(store), WaitingExecutor(), ScriptedAnswers()
    tools = CodeTool(SessionAccess(store=store, channel=Lazy(lambda: person)), lambda _: executor)
    given = {"session_id": session_id, "code": "say first\nask Deploy?\nanswers"}
    asked = await answer(tools, "run_code", **given)
    assert not asked.is_error
    assert asked.structured_content["recorded"]
    assert (asked.structured_content["success"], asked.structured_content["stdout"]) == (
        *(False, "first"),
    )
    assert "Suspended: it waits at <phase>:1 in <module> for the answer" in text_of(asked)
    waiting = await answer(tools, "run_code", **given)
    assert waiting.is_error
    assert "q-1" in text_of(waiting)
    person.answer("q-1", text="yes")
    done = await answer(tools, "run_code", **given)
    assert (done.structured_content["success"], done.structured_content["stdout"]) == (True, "yes")
    assert executor.runs == ["execute", "resume {1: 'yes'}"]


async def test_code_of_a_session_that_is_not_active_does_not_run(store: SessionStore) -> None:
    manager = SessionManager(store)
    session_id = manager.create(goal="g").session_id
    manager.pause("lunch")
    tools, executor = code_tool(store)
    result = await answer(tools, "run_code", session_id=session_id, code="x")
    assert result.is_error
    assert "it is paused" in text_of(result)
    assert executor.executions == []


# ------------------------------------------------------------------------------------- questions


def asking(sessions: QuestionSessions, **more: Any) -> Sequence[Tool]:
    return QuestionTools(sessions=sessions, workers=Workers(), **more).tools()


class SlowTeller:
    """Takes its time to tell a person."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.told: list[str] = []

    def tell(self, session: QuestionSession) -> None:
        self.began.set()
        self.go.wait(60)
        self.told.append(session.session_id)


@pytest.mark.parametrize("non_blocking", [False, True])
async def test_questions_whose_call_ends_before_its_client_knows_them_are_withdrawn(
    tmp_path: Path, non_blocking: bool
) -> None:
    sessions, teller = QuestionSessions(tmp_path), SlowTeller()
    tools = QuestionTools(sessions=sessions, workers=Workers(), notify=teller.tell)
    options = [{"label": "a"}, {"label": "b"}]
    asked = QuestionArgument.model_validate({"prompt": "?", "title": "t", "options": options})
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(tools.ask_user_questions, DirectCall(), [asked], non_blocking)
            await anyio.to_thread.run_sync(teller.began.wait)
            group.cancel_scope.cancel()
            teller.go.set()
    (session,) = sessions.list_sessions()
    assert teller.told == [session.session_id]
    assert session.status is SessionStatus.ABANDONED


async def test_questions_that_cant_be_asked_leave_nothing_behind(tmp_path: Path) -> None:
    result = await answer(asking(QuestionSessions(tmp_path)), "ask_user_questions", questions=[])
    assert result.is_error
    assert "At least one question is required to create a session" in text_of(result)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("end", "blocking", "text"),
    [
        (lambda s, one: s.time_out_session(one), False, format_inactive(FIRST_ID, "timed_out")),
        (
            lambda s, one: s.abandon_session(one, "no"),
            False,
            format_inactive(FIRST_ID, "abandoned"),
        ),
        (lambda s, one: s.reject_session(one, "no"), False, format_rejected(FIRST_ID, "no")),
        (lambda s, one: s.reject_session(one, "no"), True, format_rejected(FIRST_ID, "no")),
        (lambda _, one: None, False, format_pending(FIRST_ID)),
    ],
    ids=["timed out", "abandoned", "rejected", "rejected and waited for", "pending"],
)
async def test_the_state_of_questions_is_written_as_the_format_has_it(
    tmp_path: Path, end: Callable[[QuestionSessions, str], object], blocking: bool, text: str
) -> None:
    sessions = QuestionSessions(tmp_path)
    session_id = sessions.create_session([DATABASE], session_id=FIRST_ID)
    end(sessions, session_id)
    fetch = {"session_id": session_id, "blocking": blocking}
    result = await answer(asking(sessions), "get_answered_questions", **fetch)
    assert not result.is_error
    assert text_of(result) == text


async def test_answers_that_are_fetched_are_headed_and_noted_as_read(tmp_path: Path) -> None:
    sessions = QuestionSessions(tmp_path)
    session_id = sessions.create_session([DATABASE])
    sessions.save_session_answers(session_id, ANSWERS[:1])
    result = await answer(asking(sessions), "get_answered_questions", session_id=session_id)
    answers = sessions.get(session_id).answers
    assert answers is not None
    assert answers.last_read_at is not None
    assert text_of(result) == format_user_response(answers, [DATABASE], session_id)
    assert text_of(result).startswith(f"[Session: {session_id[:8]} | Questions: 1]\n\n")


async def test_questions_that_are_not_waited_for_say_how_the_answers_are_fetched(
    tmp_path: Path,
) -> None:
    sessions = QuestionSessions(tmp_path)
    asked = [question_document(DATABASE)]
    result = await answer(
        asking(sessions), "ask_user_questions", questions=asked, non_blocking=True
    )
    (session,) = sessions.list_sessions()
    assert text_of(result) == format_submission(session.session_id, 1)
    assert session.asker is None  # the questions outlive this server on purpose
    assert session.working_directory == current_directory()


@pytest.mark.parametrize("reason", ["not now", None])
async def test_a_rejection_is_written_as_in_the_shared_format(
    tmp_path: Path, reason: str | None
) -> None:
    sessions = QuestionSessions(tmp_path)
    tools = asking(sessions, notify=Rejecting(sessions, reason).tell)
    result = await answer(tools, "ask_user_questions", **ASKED)
    session_id = str((result.structured_content or {})["session_id"])
    assert text_of(result) == format_rejection(reason, session_id=session_id, question_count=1)
    assert text_of(result).startswith(f"[Session: {session_id[:8]} | Questions: 1]\n\n")
    assert (f'Rejection reason: "{reason}"' if reason else "No reason provided.") in text_of(result)


@frozen
class Rejecting:
    """A person who rejects each question on sight."""

    sessions: QuestionSessions
    reason: str | None

    def tell(self, session: QuestionSession) -> None:
        self.sessions.reject_session(session.session_id, self.reason)


async def test_questions_whose_time_is_over_have_timed_out_before_anybody_writes_it(
    tmp_path: Path,
) -> None:
    sessions = QuestionSessions(tmp_path, config=QuestionsConfig(session_timeout_s=0.001))
    session_id = sessions.create_session([DATABASE])
    result = await answer(asking(sessions), "get_answered_questions", session_id=session_id)
    assert (result.structured_content or {})["status"] == "timed_out"
    assert text_of(result) == format_inactive(session_id, "timed_out")


async def test_a_session_is_begun_with_what_its_user_keeps_and_shown_with_it(
    sessions: SessionAccess, store: SessionStore
) -> None:
    given = {"title": "A title", "tags": ["b", "a"]}
    async with Client(HarnessServer(tools_of(SessionTools(sessions)))) as client:
        begun = await client.call_tool("session_create", {"goal": "g", **given})
        session_id = begun.structured_content["session_id"]
        shown = await client.call_tool("session_show", {"session_id": session_id})
        refused = await client.call_tool("session_create", {"goal": "g", "tags": ["a b"]})
    assert shown.structured_content["title"] == "A title"
    assert shown.structured_content["tags"] == ["a", "b"]
    assert shown.structured_content["metadata"] == {}
    assert "Title: A title\nTags: a, b" in text_of(shown)
    assert refused.is_error
    assert "holds a blank" in text_of(refused)
    assert store.list_sessions() == [session_id]
