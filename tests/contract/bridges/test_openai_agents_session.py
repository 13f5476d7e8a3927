"""The session of the OpenAI Agents SDK: its protocol, its Runner, and what is promised beyond."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.harness import (
    InvalidStateTransition,
    LocalSessions,
    SessionContext,
    SessionManager,
    SessionState,
    SessionStore,
)
from agentforge_sessions.harness.stream_port import NewEntry
from agentforge_sessions.integrations.bridges.foreign_sessions import (
    ForeignEntryUnreadable,
    ForeignIdTaken,
)
from tests.support.filesystem import FaultyFileSystem
from tests.support.late import LateModule
from tests.support.observers import Remembering

if TYPE_CHECKING:
    import agents as sdk
    from agents import testing as scripted

    from agentforge_sessions.integrations.bridges import openai_agents as bridge
else:
    bridge = LateModule("agentforge_sessions.integrations.bridges.openai_agents")
    sdk, scripted = LateModule("agents"), LateModule("agents.testing")

Open = Callable[[], LocalSessions]


def now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def said(*words: str) -> list[Any]:
    return [{"role": "user", "content": one} for one in words]


def words(items: Any) -> list[str]:
    return [one["content"] for one in items]


def test_it_is_a_session_as_the_sdk_asks_for_it(opened: Open) -> None:
    session = bridge.AgentForgeSession("talk", opened())
    assert isinstance(session, sdk.Session)
    assert session.session_id == "talk"
    assert session.session_settings == sdk.SessionSettings()


def test_items_come_back_in_order_to_any_process(opened: Open) -> None:
    first, second = (bridge.AgentForgeSession("talk", opened()) for _ in range(2))
    assert now(first.get_items()) == []
    assert now(first.pop_item()) is None
    now(first.clear_session())
    now(first.add_items([]))
    assert opened().list_sessions() == []
    now(first.add_items(said("a", "b")))
    now(second.add_items(said("c")))
    for session in (first, second, bridge.AgentForgeSession("talk", opened())):
        assert words(now(session.get_items())) == ["a", "b", "c"]
        assert words(now(session.get_items(2))) == ["b", "c"]
        assert words(now(session.get_items(9))) == ["a", "b", "c"]
        assert words(now(session.get_items(0))) == []
    assert now(second.pop_item()) == said("c")[0]
    assert words(now(first.get_items(1))) == ["b"]
    now(second.clear_session())
    assert now(first.get_items()) == []
    assert now(first.pop_item()) is None
    now(first.add_items(said("d")))
    assert words(now(second.get_items())) == ["d"]


def test_the_last_items_of_a_long_conversation_come_to_any_process(opened: Open) -> None:
    first = bridge.AgentForgeSession("talk", opened())
    now(first.add_items(said(*(f"a{number}" for number in range(50)))))
    for number in range(50):
        now(first.add_items(said(f"b{number}")))
    expected = [*(f"a{number}" for number in range(50)), *(f"b{number}" for number in range(50))]
    for _ in range(60):
        other = bridge.AgentForgeSession("talk", opened())
        assert words([now(other.pop_item())]) == [expected.pop()]
    for most in (1, 20, 39, 40, 41):
        other = bridge.AgentForgeSession("talk", opened())
        assert words(now(other.get_items(most))) == expected[-most:]
        assert words(now(other.get_items())) == expected
    now(first.add_items(said("c")))
    assert words(now(other.get_items(2))) == [expected[-1], "c"]


def test_the_first_look_at_a_long_conversation_reads_its_end(base: Path) -> None:
    first = bridge.AgentForgeSession("talk", base)
    for number in range(300):
        now(first.add_items(said(f"{number} " + "x" * 5000)))
    fs = FaultyFileSystem()
    other = bridge.AgentForgeSession("talk", SessionStore(base, fs=fs))
    assert [one.split()[0] for one in words(now(other.get_items(3)))] == ["297", "298", "299"]
    assert now(other.pop_item())["content"].startswith("299 ")
    assert fs.bytes_read < 750_000  # of 1.5 million


def test_the_settings_say_how_many_items_are_read(opened: Open) -> None:
    for settings in (sdk.SessionSettings(limit=2), {"limit": 2}):
        session = bridge.AgentForgeSession("talk", opened(), session_settings=settings)
        now(session.clear_session())
        now(session.add_items(said("a", "b", "c")))
        assert words(now(session.get_items())) == ["b", "c"]
        assert words(now(session.get_items(1))) == ["c"]


def test_conversations_of_any_name_are_apart(opened: Open) -> None:
    names = ["../x", "", "a\0b", "\ud800", "ü" * 10_000, "session_1"]
    for name in names:
        now(bridge.AgentForgeSession(name, opened()).add_items(said(repr(name))))
    for name in names:
        assert words(now(bridge.AgentForgeSession(name, opened()).get_items())) == [repr(name)]
    assert len(opened().list_sessions()) == len(names)


def test_items_that_json_cannot_say_are_refused_together(opened: Open) -> None:
    session = bridge.AgentForgeSession("talk", opened())
    with pytest.raises(TypeError):
        now(session.add_items([*said("a"), {"role": "user", "content": b"bytes"}]))
    assert now(session.get_items()) == []
    strange = said("\ud800\0☃")
    now(session.add_items(strange))
    assert now(bridge.AgentForgeSession("talk", opened()).get_items()) == strange


def test_workers_lose_no_item_and_pop_none_twice(opened: Open) -> None:
    each, popped = 12, []

    def add(worker: int) -> None:
        session = bridge.AgentForgeSession("talk", opened())
        for number in range(each):
            now(session.add_items(said(f"{worker}-{number}", f"{worker}-{number}b")))

    def pop() -> None:
        session = bridge.AgentForgeSession("talk", opened())
        while len(popped) < each:
            item = now(session.pop_item())
            popped.extend([] if item is None else [item])

    threads = [threading.Thread(target=add, args=(worker,)) for worker in range(2)]
    threads += [threading.Thread(target=pop) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    left = words(now(bridge.AgentForgeSession("talk", opened()).get_items()))
    everything = sorted([*left, *words(popped)])
    assert everything == sorted(
        f"{worker}-{number}{end}"
        for worker in range(2)
        for number in range(each)
        for end in ("", "b")
    )


def test_what_was_popped_takes_no_room_for_good(opened: Open) -> None:
    sessions = opened()
    session = bridge.AgentForgeSession("talk", sessions)
    now(session.add_items(said("stays")))
    for _ in range(60):
        now(session.add_items(said("x" * 1000, "y" * 1000)))
        now(session.pop_item())
        now(session.pop_item())
    assert words(now(session.get_items())) == ["stays"]
    (kept,) = (
        content
        for name, content in sessions.read_attachments(session.agentforge_session_id).items()
        if name.startswith("streams/")
    )
    assert len(kept) < 120_000


def test_a_conversation_is_announced_once_as_other_sessions_are(opened: Open) -> None:
    seen = Remembering()
    session = bridge.AgentForgeSession("talk", opened(), observers=[seen])
    with capture_logs() as log:
        now(session.add_items(said("a")))
        now(session.add_items(said("b")))
        again = bridge.AgentForgeSession("talk", opened(), observers=[seen])
        now(again.add_items(said("c")))
    assert [(one.name, one.session_id) for one in seen.events] == [
        ("session.created", session.agentforge_session_id)
    ]
    assert [one["event"] for one in log] == ["session.created"]


def test_a_conversation_whose_session_has_ended_takes_no_item(opened: Open) -> None:
    session = bridge.AgentForgeSession("talk", opened())
    now(session.add_items(said("a")))
    manager = SessionManager(opened())
    manager.open(session.agentforge_session_id)
    assert manager.current_session is not None
    assert manager.current_session.workflow_type == "openai-agents"
    assert manager.current_session.goal == "OpenAI Agents conversation 'talk'"
    assert manager.current_session.title == "talk"
    assert manager.current_session.state is SessionState.ACTIVE
    manager.abort("enough")
    for call in (lambda: session.add_items(said("b")), session.pop_item, session.clear_session):
        with pytest.raises(InvalidStateTransition):
            now(call())
    assert words(now(session.get_items())) == ["a"]


def test_a_conversation_that_another_process_deleted_begins_anew(opened: Open) -> None:
    session = bridge.AgentForgeSession("talk", opened())
    now(session.add_items(said("a")))
    opened().delete(session.agentforge_session_id)
    now(session.clear_session())
    now(session.add_items(said("b")))
    assert words(now(session.get_items())) == ["b"]
    opened().delete(session.agentforge_session_id)
    assert now(session.get_items()) == []
    assert now(session.pop_item()) is None


def test_a_session_that_is_not_the_conversations_is_not_touched(opened: Open) -> None:
    sessions = opened()
    session = bridge.AgentForgeSession("talk", sessions)
    session_id = session.agentforge_session_id
    sessions.save(SessionContext.create("other", session_id=session_id))
    with pytest.raises(ForeignIdTaken):
        now(session.add_items(said("a")))
    with pytest.raises(ForeignIdTaken):
        now(session.get_items())


def test_what_this_program_did_not_write_is_an_error(opened: Open) -> None:
    sessions = opened()
    for head, body in ((b"new", b"{}"), (b"pop", b""), (b"", b"no JSON")):
        session = bridge.AgentForgeSession(repr((head, body)), sessions)
        now(session.add_items(said("a")))
        now(session.clear_session())
        entry = NewEntry(head, body)
        sessions.append_entries(session.agentforge_session_id, "openai-agents", [entry])
        for _ in range(2):
            with pytest.raises(ForeignEntryUnreadable):
                now(session.get_items())


def test_a_cancelled_call_has_ended_when_its_caller_goes_on(opened: Open) -> None:
    async def scenario() -> int:
        cancelled = 0
        session, other = (bridge.AgentForgeSession("talk", opened()) for _ in range(2))
        for number in range(12):
            task = asyncio.ensure_future(session.add_items(said(str(number), "pair")))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                cancelled += 1
            seen = await other.get_items()
            assert len(seen) % 2 == 0
            await asyncio.to_thread(lambda: None)
            assert await other.get_items() == seen
        return cancelled

    assert now(scenario()) > 3


def test_the_runner_of_the_sdk_keeps_and_resumes_a_conversation(opened: Open) -> None:
    def talk(words: str, answer: str) -> Any:
        model = scripted.ScriptedModel([[scripted.assistant_message(answer)]])
        agent = sdk.Agent(name="helper", model=model)
        session = bridge.AgentForgeSession("talk", opened())
        config = sdk.RunConfig(tracing_disabled=True)
        result = now(sdk.Runner.run(agent, words, session=session, run_config=config))
        assert result.final_output == answer
        return model.last_call.input

    talk("My name is Ada.", "Hello Ada.")
    shown = talk("What is my name?", "Ada.")
    assert [one.get("role") for one in shown] == ["user", "assistant", "user"]
    assert shown[0]["content"] == "My name is Ada."
    kept = now(bridge.AgentForgeSession("talk", opened()).get_items())
    assert [one["role"] for one in kept] == ["user", "assistant"] * 2
