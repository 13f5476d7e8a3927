"""A session service of Google's Agent Development Kit that keeps its sessions in ours.

    python -m venv .venv-adk
    .venv-adk/bin/pip install -r examples/embedding/adk-requirements.txt agentforge-sessions
    .venv-adk/bin/python examples/embedding/adk_session_service.py "My name is Ada."
    .venv-adk/bin/python examples/embedding/adk_session_service.py "What is my name?"

It needs an environment of its own: ADK pins older OpenTelemetry and websockets than others do. The
agent is played by a class, so that it runs offline. Each event is one durable append; the state of a
session is made of its events' deltas. State of an app or a user is kept with the session alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.genai import types

from agentforge_sessions.harness.stream_port import NewEntry
from agentforge_sessions.integrations.bridges.foreign_sessions import (
    ForeignSessions,
    opened_sessions,
)

KIND = "google-adk"


class AgentForgeSessionService(BaseSessionService):
    """Keeps the events of ADK's sessions, each in a session of the workflow `google-adk`."""

    def __init__(self, store: Path | str | None = None) -> None:
        self._sessions = ForeignSessions(opened_sessions(store), KIND, words="ADK session")

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Begin a session; its first state is its first entry."""
        session_id = session_id or str(uuid.uuid4())
        begin = NewEntry(b"state", json.dumps(state or {}).encode())
        name = _name(app_name, user_id, session_id)
        if await asyncio.to_thread(self._sessions.find, name) is not None:
            raise ValueError(f"there is a session {session_id} of this user already")
        await asyncio.to_thread(self._sessions.append, name, [begin])
        return Session(id=session_id, app_name=app_name, user_id=user_id, state=state or {})

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Read a session; None if there is none."""
        session = await asyncio.to_thread(self._read, app_name, user_id, session_id)
        if session is not None and config is not None:
            if config.after_timestamp is not None:
                since = config.after_timestamp
                session.events = [one for one in session.events if one.timestamp >= since]
            if config.num_recent_events is not None:
                most = config.num_recent_events
                session.events = session.events[-most:] if most else []
        return session

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of an app, or of one of its users, without events and state."""

        def found() -> list[Session]:
            names = [json.loads(name) for name in self._sessions.names()]
            read = (
                self._read(app, user, session)
                for app, user, session in names
                if app == app_name and user_id in {None, user}
            )
            sessions = [one for one in read if one is not None]
            for one in sessions:
                one.events, one.state = [], {}
            return sorted(sessions, key=lambda one: one.last_update_time)

        return ListSessionsResponse(sessions=await asyncio.to_thread(found))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session, if it is there."""
        await asyncio.to_thread(self._sessions.remove, _name(app_name, user_id, session_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Keep an event durably, then have the session in memory hold it."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        entry = NewEntry(b"event", event.model_dump_json().encode())
        name = _name(session.app_name, session.user_id, session.id)
        await asyncio.to_thread(self._sessions.append, name, [entry])
        session.last_update_time = event.timestamp
        return self._commit_event_to_session(session, event)

    def _read(self, app_name: str, user_id: str, session_id: str) -> Session | None:
        kept_in = self._sessions.find(_name(app_name, user_id, session_id))
        if kept_in is None:
            return None
        store = self._sessions.sessions
        part = store.read_entries(kept_in, KIND)
        if not part.entries:
            return None
        session = Session(id=session_id, app_name=app_name, user_id=user_id)
        bodies = store.read_bodies(kept_in, KIND, part.entries, mark=part.mark)
        for entry, body in zip(part.entries, bodies, strict=True):
            if entry.head == b"state":
                session.state.update(json.loads(body))
                continue
            event = Event.model_validate_json(body)
            self._commit_event_to_session(session, event)
            session.last_update_time = event.timestamp
        return session


def _name(app_name: str, user_id: str, session_id: str) -> str:
    return json.dumps([app_name, user_id, session_id])


class Played(BaseAgent):
    """Answers as a model would: with what was said first, if there was anything."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        said = [
            part.text
            for event in ctx.session.events
            if event.author == "user" and event.content
            for part in event.content.parts or []
        ]
        answer = f"You began with: {said[0]}" if len(said) > 1 else "Hello."
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=types.Content(role="model", parts=[types.Part(text=answer)]),
            actions=EventActions(state_delta={"turns": len(said)}),
        )


async def talk(words: str, base: Path) -> str:
    """Say something in the user's session, and return the answer with the turns so far."""
    service = AgentForgeSessionService(base)
    about = {"app_name": "example", "user_id": "ada", "session_id": "talk"}
    if await service.get_session(**about) is None:
        await service.create_session(**about)
    runner = Runner(app_name="example", agent=Played(name="helper"), session_service=service)
    message = types.Content(role="user", parts=[types.Part(text=words)])
    answer = ""
    async for event in runner.run_async(user_id="ada", session_id="talk", new_message=message):
        if event.is_final_response() and event.content and event.content.parts:
            answer = event.content.parts[0].text or ""
    session = await service.get_session(**about)
    assert session is not None
    return f"{answer} ({session.state['turns']} turns)"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words")
    parser.add_argument("--base", type=Path, default=Path(".agentforge/sessions"))
    given = parser.parse_args()
    print(asyncio.run(talk(given.words, given.base)))
