"""A conversation of Google's Agent Development Kit that goes on in another process.

    python -m venv .venv-adk
    .venv-adk/bin/pip install 'agentforge-sessions[google-adk]'
    .venv-adk/bin/python examples/embedding/adk_conversation.py "My name is Ada."
    .venv-adk/bin/python examples/embedding/adk_conversation.py "What is my name?"

It needs an environment of its own: ADK needs older OpenTelemetry and websockets than others do. The
agent is played by a class, so that it runs offline.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events import Event, EventActions
from google.adk.runners import Runner
from google.genai import types

from agentforge_sessions.integrations.bridges.google_adk import AgentForgeSessionService


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
