"""Agents of Pydantic AI in durable sessions: each request is paid once, each tool called once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any

import pytest

from agentforge_sessions import session
from agentforge_sessions.harness import LocalSessions
from agentforge_sessions.harness.steps.errors import BudgetReached
from agentforge_sessions.harness.steps.program_sessions import program_session_id, steps_of
from tests.support.late import LateModule

if TYPE_CHECKING:
    import pydantic_ai as ai
    from pydantic_ai.models import function as functions
    from pydantic_ai.models import test as test_models

    from agentforge_sessions.integrations.bridges import pydantic_ai as bridge
else:
    bridge = LateModule("agentforge_sessions.integrations.bridges.pydantic_ai")
    ai, functions = LateModule("pydantic_ai"), LateModule("pydantic_ai.models.function")
    test_models = LateModule("pydantic_ai.models.test")

Open = Callable[[], LocalSessions]
LOOK = "writer__function_toolset__<agent>.call_tool:look"
REQUEST = "writer__model.request"


class KilledError(RuntimeError):
    """Ends a start as a kill would."""


class Desk:
    """A model and a tool that note their calls, and an agent that uses the tool three times."""

    def __init__(self, *, die_in: int = 0, **durability: Any) -> None:
        self.requests: list[int] = []
        self.looked: list[int] = []
        self._die_in = die_in
        model = functions.FunctionModel(self._answer, stream_function=self._stream)
        capability = bridge.SessionDurability(**durability)
        self.agent = ai.Agent(model, name="writer", capabilities=[capability])
        self.agent.tool_plain(self.look)

    def look(self, at: int) -> dict[str, int]:
        self.looked.append(at)
        return {"at": at}

    def _turn(self, messages: list[Any]) -> int:
        turn = len(messages) // 2
        self.requests.append(turn)
        return turn

    def _dies(self) -> None:
        if len(self.requests) == self._die_in:
            raise KilledError

    def _answer(self, messages: list[Any], _: Any) -> Any:
        turn = self._turn(messages)
        self._dies()
        if turn == 3:
            return ai.ModelResponse(parts=[ai.TextPart("done")])
        call = ai.ToolCallPart("look", {"at": turn}, tool_call_id=f"call-{turn}")
        return ai.ModelResponse(parts=[call])

    async def _stream(self, messages: list[Any], _: Any) -> AsyncIterator[Any]:
        turn = self._turn(messages)
        if turn == 3:
            yield "do"
            self._dies()
            yield "ne"
            return
        called = functions.DeltaToolCall(name="look", tool_call_id=f"call-{turn}")
        yield {0: called}
        self._dies()
        yield {0: functions.DeltaToolCall(json_args=f'{{"at": {turn}}}')}


def now(call: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(call)


async def start(store: LocalSessions, desk: Desk, *, budget: int = 20_000) -> tuple[Any, int]:
    """Run the agent in the session of the key; return its result and what is left."""
    async with session("report", key="k", budget=budget, store=store) as s:
        with bridge.agent_steps(s):
            result = await desk.agent.run("Go.")
        left = s.budget.tokens
        assert left is not None
        return result, left


def responses(result: Any) -> list[Any]:
    """Return what the model said: the times of the requests differ at each start."""
    return [one for one in result.all_messages() if one.kind == "response"]


def paths(store: LocalSessions) -> list[str]:
    return [one.path for one in steps_of(store, program_session_id("k"))]


def test_a_second_start_pays_only_for_what_is_left(opened: Open) -> None:
    killed = Desk(die_in=3)
    with pytest.raises(KilledError):
        now(start(opened(), killed))
    assert (killed.requests, killed.looked) == ([0, 1, 2], [0, 1])

    second = Desk()
    result, left = now(start(opened(), second))
    assert result.output == "done"
    assert (second.requests, second.looked) == ([2, 3], [2])
    assert left == 20_000 - result.usage.total_tokens
    assert paths(opened()) == [
        *(f"{name}#{number}" for number in (1, 2, 3) for name in (REQUEST, LOOK)),
        f"{REQUEST}#4",
    ]
    steps = steps_of(opened(), program_session_id("k"))
    assert sum(one.spent.tokens for one in steps) == result.usage.total_tokens

    third = Desk()
    again, left_then = now(start(opened(), third))
    assert (third.requests, third.looked) == ([], [])
    assert responses(again) == responses(result)
    assert left_then == left


def test_a_streamed_request_is_recorded_when_it_is_complete(opened: Open) -> None:
    async def streamed(desk: Desk) -> list[str]:
        async with session("report", key="k", budget=20_000, store=opened()) as s:
            with bridge.agent_steps(s):
                async with desk.agent.run_stream("Go.") as result:
                    return [text async for text in result.stream_text(debounce_by=None)]

    killed, second, third = Desk(die_in=4), Desk(), Desk()
    with pytest.raises(KilledError):
        now(streamed(killed))
    assert len(paths(opened())) == 6
    assert now(streamed(second)) == ["done"]
    assert now(streamed(third)) == ["done"]
    assert [desk.requests for desk in (killed, second, third)] == [[0, 1, 2, 3], [3], []]
    assert [desk.looked for desk in (killed, second, third)] == [[0, 1, 2], [], []]


def test_a_request_that_may_exceed_the_budget_is_not_made(opened: Open) -> None:
    desk = Desk(model_steps={"spend": 500})
    with pytest.raises(BudgetReached):
        now(start(opened(), desk, budget=600))
    assert desk.requests == [0, 1]


def test_a_request_that_fails_is_tried_again_as_its_steps_say(opened: Open) -> None:
    desk = Desk(die_in=2, model_steps={"retry": 2})
    result, _ = now(start(opened(), desk))
    assert result.output == "done"
    assert desk.requests == [0, 1, 1, 2, 3]


def test_what_a_tool_asks_of_the_model_is_recorded(opened: Open) -> None:
    def scenario() -> tuple[Any, list[int]]:
        tried: list[int] = []
        desk = Desk()

        @desk.agent.tool_plain
        def choose(n: int) -> int:
            tried.append(n)
            if n == 0:
                raise ai.ModelRetry("choose another one")
            return n

        def answer(messages: list[Any], _: Any) -> Any:
            if len(messages) > 4:
                return ai.ModelResponse(parts=[ai.TextPart("chosen")])
            call = ai.ToolCallPart("choose", {"n": len(messages) // 2}, tool_call_id="same")
            return ai.ModelResponse(parts=[call])

        async def run() -> Any:
            async with session("report", key="k", store=opened()) as s:
                with bridge.agent_steps(s), desk.agent.override(model=model):
                    return responses(await desk.agent.run("Go.", model="other"))

        model = functions.FunctionModel(answer)
        desk = Desk(models={"other": model})
        desk.agent.tool_plain(choose)
        return now(run()), tried

    first, tried = scenario()
    assert tried == [0, 1]
    assert scenario() == (first, [])


def test_tools_of_one_response_run_in_its_order_at_each_start(opened: Open) -> None:
    def scenario() -> list[str]:
        done: list[str] = []
        agent = ai.Agent(
            test_models.TestModel(), name="writer", capabilities=[bridge.SessionDurability()]
        )

        async def slow() -> str:
            for _ in range(5):
                await asyncio.sleep(0)
            done.append("slow")
            return "slow"

        async def quick() -> str:
            done.append("quick")
            return "quick"

        for tool in (slow, quick):
            agent.tool_plain(tool)

        async def run() -> Any:
            async with session("report", key="k", store=opened()) as s:
                with bridge.agent_steps(s):
                    return (await agent.run("Go.")).output

        assert "quick" in now(run())
        return done

    assert scenario() == ["slow", "quick"]
    assert scenario() == []


def test_an_agent_within_a_tool_has_steps_within_its_step(opened: Open) -> None:
    def scenario() -> list[int]:
        inner, outer = Desk(), Desk()

        async def delegate() -> str:
            return str((await inner.agent.run("Go.")).output)

        agent = ai.Agent(
            test_models.TestModel(call_tools=["delegate"]),
            name="chief",
            capabilities=[bridge.SessionDurability()],
        )
        agent.tool_plain(delegate)

        async def run() -> Any:
            async with session("report", key="k", store=opened()) as s:
                with bridge.agent_steps(s):
                    return (await agent.run("Go.")).output

        assert "done" in now(run())
        return [*inner.requests, *outer.requests]

    assert scenario() == [0, 1, 2, 3]
    inside = [path for path in paths(opened()) if path.startswith("chief__function_toolset")]
    assert len(inside) == 8
    assert scenario() == []


def test_a_tool_that_its_metadata_leaves_out_is_called_at_each_start(opened: Open) -> None:
    def scenario() -> list[str]:
        seen: list[str] = []
        agent = ai.Agent(
            test_models.TestModel(), name="a/b#c", capabilities=[bridge.SessionDurability()]
        )

        @agent.tool_plain(metadata={"agentforge": False})
        def clock() -> str:
            seen.append("clock")
            return "now"

        async def run() -> None:
            async with session("report", key="k", store=opened()) as s:
                with bridge.agent_steps(s):
                    await agent.run("Go.")

        now(run())
        return seen

    assert scenario() == scenario() == ["clock"]
    assert paths(opened()) == ["a_b_c__model.request#1", "a_b_c__model.request#2"]


def test_outside_of_a_block_an_agent_runs_as_without_it(opened: Open) -> None:
    desk = Desk()
    for _ in range(2):
        assert now(desk.agent.run("Go.")).output == "done"
    assert desk.requests == [0, 1, 2, 3] * 2
    assert opened().list_sessions() == []


def test_the_session_of_a_synchronous_program_is_refused(opened: Open) -> None:
    with (
        session("report", key="k", store=opened()) as s,
        pytest.raises(TypeError, match="async with"),
        bridge.agent_steps(s),
    ):
        pass
