"""The session service of Google's ADK: what its own do, and what ours promises beyond.

ADK pins older OpenTelemetry than ours, so it has an environment of its own; see CONTRIBUTING.md.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentforge_sessions.harness import (
    InvalidStateTransition,
    LocalSessions,
    SessionManager,
    SessionSummary,
)
from agentforge_sessions.harness.stream_port import NewEntry
from agentforge_sessions.integrations.bridges.foreign_sessions import ForeignEntryUnreadable
from agentforge_sessions.testing import MemorySessions
from tests.support.late import LateModule

if TYPE_CHECKING:
    from google import adk
    from google.adk import errors, events, runners, sessions
    from google.adk.agents import base_agent
    from google.adk.errors import already_exists_error, session_not_found_error
    from google.adk.sessions import base_session_service
    from google.genai import types

    from agentforge_sessions.integrations.bridges import google_adk as bridge
else:
    bridge = LateModule("agentforge_sessions.integrations.bridges.google_adk")
    adk, types = LateModule("google.adk"), LateModule("google.genai.types")
    errors, events = LateModule("google.adk.errors"), LateModule("google.adk.events")
    runners, sessions = LateModule("google.adk.runners"), LateModule("google.adk.sessions")
    base_agent = LateModule("google.adk.agents.base_agent")
    already_exists_error = LateModule("google.adk.errors.already_exists_error")
    session_not_found_error = LateModule("google.adk.errors.session_not_found_error")
    base_session_service = LateModule("google.adk.sessions.base_session_service")


def is_installed() -> bool:
    try:
        version("google-adk")
    except PackageNotFoundError:
        return False
    return True


pytestmark = pytest.mark.skipif(not is_installed(), reason="google-adk is not installed")

Open = Callable[[], LocalSessions]
ADA = {"app_name": "app", "user_id": "ada"}


def now(call: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(call)


def said(text: str, at: float = 0.0, **delta: Any) -> Any:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    actions = events.EventActions(state_delta=delta)
    about = {"timestamp": at} if at else {}
    return events.Event(author="user", content=content, actions=actions, **about)


def words(session: Any) -> list[str]:
    return [event.content.parts[0].text for event in session.events]


def shown(session: Any) -> Any:
    if session is None:
        return None
    whole = session.model_dump(mode="json")
    return {name: value for name, value in whole.items() if name != "last_update_time"}


async def talk(service: Any, seed: int) -> list[Any]:
    """Do things by chance, the same ones for a seed; return all that was seen."""
    chance, seen, at = random.Random(seed), [], 0.0
    configured = base_session_service.GetSessionConfig
    for number in range(60):
        at += 1.0
        about = {
            "app_name": chance.choice(("one", "two")),
            "user_id": chance.choice(("ada", "bob")),
            "session_id": chance.choice(("s", " t ", "u")),
        }
        what = chance.random()
        key = f"{chance.choice(('', '', 'app:', 'user:', 'temp:'))}{chance.choice('abc')}"
        delta = {key: chance.choice((number, [number], {"n": number}, None))}
        event = said(f"{number}", at, **delta).model_copy(update={"id": f"e{seed}-{number}"})
        if what < 0.2:
            try:
                seen.append(shown(await service.create_session(**about, state=delta)))
            except already_exists_error.AlreadyExistsError as error:
                seen.append(str(error))
        elif what < 0.7:
            session = await service.get_session(**about)
            if session is not None:
                await service.append_event(session, event)
            seen.append(shown(session))
        elif what < 0.9:
            recent = chance.choice((None, 0, 1, 3))
            after = chance.choice((None, None, at - 20))
            config = configured(num_recent_events=recent, after_timestamp=after)
            seen.append(shown(await service.get_session(**about, config=config)))
            del about["session_id"]
            state = await service.get_user_state(**about)
            seen.append(dict(sorted(state.items())))
        elif what < 0.95:
            await service.delete_session(**about)
        for user in (about["user_id"], None):
            found = await service.list_sessions(app_name=about["app_name"], user_id=user)
            listed = sorted((shown(one) for one in found.sessions), key=str)
            seen.append(listed)
    return seen


@pytest.mark.parametrize("seed", range(4))
def test_it_does_what_the_service_of_adk_does(opened: Open, seed: int) -> None:
    expected = now(talk(sessions.InMemorySessionService(), seed))
    assert now(talk(bridge.AgentForgeSessionService(opened()), seed)) == expected


def test_another_process_goes_on_with_a_session(opened: Open) -> None:
    first = bridge.AgentForgeSessionService(opened())
    session = now(first.create_session(**ADA, session_id="s", state={"n": 1, "user:name": "Ada"}))
    now(first.append_event(session, said("a", n=2, **{"app:kind": "x", "temp:t": 1})))
    assert session.state == {"n": 2, "user:name": "Ada", "app:kind": "x", "temp:t": 1}
    second = bridge.AgentForgeSessionService(opened())
    again = now(second.get_session(**ADA, session_id="s"))
    assert words(again) == ["a"]
    assert again.state == {"n": 2, "user:name": "Ada", "app:kind": "x"}
    other = now(second.create_session(**ADA))
    assert other.state == {"user:name": "Ada", "app:kind": "x"}
    assert now(second.get_user_state(**ADA)) == {"name": "Ada"}
    listed = [one for one in opened().summaries() if isinstance(one, SessionSummary)]
    kinds = sorted(one.head.workflow_type for one in listed)
    assert kinds == ["google-adk"] * 2 + ["google-adk-state"] * 2


def test_an_event_for_a_session_that_changed_is_refused(opened: Open) -> None:
    service, other = (bridge.AgentForgeSessionService(opened()) for _ in range(2))
    mine = now(service.create_session(**ADA, session_id="s"))
    theirs = now(other.get_session(**ADA, session_id="s"))
    now(other.append_event(theirs, said("theirs")))
    with pytest.raises(errors.StaleSessionError, match="not stored"):
        now(service.append_event(mine, said("mine", **{"app:a": 1})))
    assert mine.events == []
    by_hand = sessions.Session(id="s", **ADA)
    with pytest.raises(errors.StaleSessionError):
        now(service.append_event(by_hand, said("by hand")))
    again = now(service.get_session(**ADA, session_id="s"))
    assert words(again) == ["theirs"]
    assert again.state == {}
    now(service.append_event(again, said("mine")))
    by_hand.events = list(again.events)
    now(service.append_event(by_hand, said("by hand")))
    assert words(now(other.get_session(**ADA, session_id="s"))) == ["theirs", "mine", "by hand"]


class Overtaken(MemorySessions):
    """Has another process append in the moment before an append."""

    def __init__(self, *args: Any, first: list[Callable[[], object]]) -> None:
        super().__init__(*args)
        self._first = first

    def append_entries(self, *args: Any, **named: Any) -> Any:
        if self._first:
            self._first.pop()()
        return super().append_entries(*args, **named)


def test_an_event_that_another_process_overtakes_is_refused(base: Path) -> None:
    store = MemorySessions(base)
    other = bridge.AgentForgeSessionService(store)
    session = now(other.create_session(**ADA, session_id="s"))
    theirs = session.model_copy(deep=True)
    theirs._storage_update_marker = session._storage_update_marker

    def overtake() -> None:
        now(other.append_event(theirs, said("theirs")))

    service = bridge.AgentForgeSessionService(Overtaken(base, store.shelf, first=[overtake]))
    with pytest.raises(errors.StaleSessionError):
        now(service.append_event(session, said("mine")))
    assert words(now(other.get_session(**ADA, session_id="s"))) == ["theirs"]


def test_of_workers_that_append_at_once_each_event_is_stored_or_refused(opened: Open) -> None:
    def work(worker: int) -> list[str]:
        async def scenario() -> list[str]:
            service, stored = bridge.AgentForgeSessionService(opened()), []
            for number in range(6):
                session = await service.get_session(**ADA, session_id="s")
                assert session is not None
                try:
                    await service.append_event(session, said(f"{worker}-{number}"))
                except errors.StaleSessionError:
                    continue
                stored.append(f"{worker}-{number}")
            return stored

        return asyncio.run(scenario())

    async def all_at_once() -> list[str]:
        found = await asyncio.gather(*(asyncio.to_thread(work, worker) for worker in range(3)))
        return [one for stored in found for one in stored]

    service = bridge.AgentForgeSessionService(opened())
    now(service.create_session(**ADA, session_id="s"))
    stored = now(all_at_once())
    left = words(now(service.get_session(**ADA, session_id="s")))
    assert sorted(left) == sorted(stored)
    assert stored


def test_tasks_that_share_a_session_append_all_of_their_events(opened: Open) -> None:
    async def scenario() -> Any:
        service = bridge.AgentForgeSessionService(opened())
        session = await service.create_session(**ADA, session_id="s")
        await asyncio.gather(*(service.append_event(session, said(str(n))) for n in range(8)))
        again = await service.get_session(**ADA, session_id="s")
        return words(session), words(again)

    in_memory, stored = now(scenario())
    assert sorted(in_memory) == sorted(stored) == sorted(map(str, range(8)))


def test_of_two_that_create_a_session_at_once_one_does(opened: Open) -> None:
    async def scenario() -> list[Any]:
        services = [bridge.AgentForgeSessionService(opened()) for _ in range(4)]
        calls = (one.create_session(**ADA, session_id="s") for one in services)
        return await asyncio.gather(*calls, return_exceptions=True)

    found = now(scenario())
    kinds = sorted(type(one).__name__ for one in found)
    assert kinds == ["AlreadyExistsError"] * 3 + ["Session"]


def test_the_next_use_stores_what_a_killed_process_left_of_shared_state(opened: Open) -> None:
    service = bridge.AgentForgeSessionService(opened())
    session = now(service.create_session(**ADA, session_id="s"))
    now(service.append_event(session, said("a", **{"user:name": "Ada", "app:n": 1})))
    killed = opened()  # as if it had died between the event and the shared state
    for names in ('["app"]', '["app", "ada"]'):
        killed.delete(service._shared.sessions.session_id(names))
    other = bridge.AgentForgeSessionService(opened())
    again = now(other.get_session(**ADA, session_id="s"))
    assert again.state == {"user:name": "Ada", "app:n": 1}
    now(other.get_session(**ADA, session_id="s"))
    state_id = other._shared.sessions.session_id('["app"]')
    assert len(opened().read_entries(state_id, "google-adk-state").entries) == 1


def test_a_session_that_has_ended_or_was_deleted_takes_no_event(opened: Open) -> None:
    service = bridge.AgentForgeSessionService(opened())
    session = now(service.create_session(**ADA, session_id="s"))
    manager = SessionManager(opened())
    manager.open(service.agentforge_session_id(**ADA, session_id="s"))
    manager.complete()
    with pytest.raises(InvalidStateTransition):
        now(service.append_event(session, said("a")))
    assert session.events == []
    now(service.delete_session(**ADA, session_id="s"))
    now(service.delete_session(**ADA, session_id="s"))
    with pytest.raises(session_not_found_error.SessionNotFoundError):
        now(service.append_event(session, said("a")))
    assert now(service.get_session(**ADA, session_id="s")) is None
    assert now(service.list_sessions(**ADA)).sessions == []


def test_what_this_program_did_not_write_is_an_error(opened: Open) -> None:
    store = opened()
    service = bridge.AgentForgeSessionService(store)
    for number, head in enumerate((b"no JSON", b"[]", b'{"id":"1"}')):
        about = {**ADA, "session_id": f"s{number}"}
        now(service.create_session(**about))
        entry = NewEntry(head, b"")
        store.append_entries(service.agentforge_session_id(**about), "google-adk", [entry])
        with pytest.raises(ForeignEntryUnreadable, match="newer program"):
            now(service.get_session(**about))


def test_the_runner_of_adk_goes_on_with_a_session(opened: Open) -> None:
    class Counting(base_agent.BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> Any:
            turns = ctx.session.state.get("turns", 0) + 1
            actions = events.EventActions(state_delta={"turns": turns, "user:total": turns})
            content = types.Content(role="model", parts=[types.Part(text=f"turn {turns}")])
            yield events.Event(author=self.name, content=content, actions=actions)

    async def turn(text: str) -> list[str]:
        with bridge.AgentForgeSessionService(opened()) as service:
            if await service.get_session(**ADA, session_id="s") is None:
                await service.create_session(**ADA, session_id="s")
            runner = runners.Runner(
                app_name="app", agent=Counting(name="helper"), session_service=service
            )
            message = types.Content(role="user", parts=[types.Part(text=text)])
            asked = runner.run_async(user_id="ada", session_id="s", new_message=message)
            return [event.content.parts[0].text async for event in asked]

    assert [now(turn("hello")), now(turn("again"))] == [["turn 1"], ["turn 2"]]
    session = now(bridge.AgentForgeSessionService(opened()).get_session(**ADA, session_id="s"))
    assert words(session) == ["hello", "turn 1", "again", "turn 2"]
    assert session.state == {"turns": 2, "user:total": 2}
