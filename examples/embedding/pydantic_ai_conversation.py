"""A Pydantic AI conversation that is kept in a session, and goes on in another process.

    pip install 'agentforge-sessions[pydantic-ai]'
    python examples/embedding/pydantic_ai_conversation.py "My name is Ada."
    python examples/embedding/pydantic_ai_conversation.py "What is my name?" --session ID

The model is played by a function, so that it runs offline; give `Agent` a real one. Each turn's
messages are one append to a stream beside the session: they are there all together, or not at all.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pydantic_ai import Agent, ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from agentforge_sessions.harness import SessionManager
from agentforge_sessions.harness.stream_port import NewEntry

STREAM = "pydantic-ai"


class Conversation:
    """The messages of the manager's current session."""

    def __init__(self, manager: SessionManager, session_id: str) -> None:
        self._manager = manager
        self._session_id = session_id

    def messages(self) -> list[ModelMessage]:
        """Return all messages, the oldest first."""
        store = self._manager.store
        part = store.read_entries(self._session_id, STREAM)
        turns = store.read_bodies(self._session_id, STREAM, part.entries, mark=part.mark)
        return [one for turn in turns for one in ModelMessagesTypeAdapter.validate_json(turn)]

    def say(self, agent: Agent, words: str) -> str:
        """Have the agent answer, and keep what was said durably."""
        result = agent.run_sync(words, message_history=self.messages())
        turn = NewEntry(b"turn", result.new_messages_json())
        self._manager.store.append_entries(self._session_id, STREAM, [turn])
        used = result.usage.total_tokens
        if used:
            self._manager.record_tokens(used)
        return str(result.output)


def played(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Answer as a model would: with what was said first, if there was anything."""
    said = [
        str(part.content)
        for message in messages
        for part in message.parts
        if part.part_kind == "user-prompt"
    ]
    answer = f"You began with: {said[0]}" if len(said) > 1 else "Hello."
    return ModelResponse(parts=[TextPart(answer)])


def main() -> None:
    """Say something in a new conversation, or go on with one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words")
    parser.add_argument("--session", help="the session of an earlier conversation")
    parser.add_argument("--base", type=Path, default=Path(".agentforge/sessions"))
    given = parser.parse_args()
    manager = SessionManager(given.base)
    session = (
        manager.open(given.session)
        if given.session
        else manager.create("pydantic-ai", goal=given.words)
    )
    print(Conversation(manager, session.session_id).say(Agent(FunctionModel(played)), given.words))
    print(f"--session {session.session_id}")


if __name__ == "__main__":
    main()
