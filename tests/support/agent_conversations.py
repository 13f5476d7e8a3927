"""Conversations of agent programs, as their hooks and files show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentforge_sessions.agent_hooks.handler import handle
from agentforge_sessions.harness import SessionContext, SessionManager, SessionStore
from tests.support.clock import FakeClock


class Project:
    """A project with a data folder, and the sessions in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_folder = folder / ".agentforge"
        self.data_folder.mkdir(parents=True)
        self.store = SessionStore(self.data_folder / "sessions")
        self.clock = FakeClock()

    def begin(self, *, budget: int = 10_000, goal: str | None = "Build it") -> str:
        self.clock.advance()
        manager = SessionManager(self.store, clock=self.clock)
        return manager.create(token_budget=budget, goal=goal).session_id

    def open(self, session_id: str) -> SessionManager:
        manager = SessionManager(SessionStore(self.store.base_path), clock=self.clock)
        manager.open(session_id)
        return manager

    def session(self, session_id: str) -> SessionContext:
        found = SessionStore(self.store.base_path).load(session_id)
        assert found is not None
        return found

    def actions(self, session_id: str) -> list[str]:
        return [entry.action for entry in self.session(session_id).history]


class Conversation:
    """A conversation of Claude Code: its transcript, and the calls of its hooks."""

    program = "claude-code"

    def __init__(self, project: Project, name: str = "conversation-1") -> None:
        self.project = project
        self.name = name
        self.transcript = project.folder.parent / "transcripts" / f"{name}.jsonl"
        self.environment: dict[str, str] = {}
        self._messages = 0

    def hook(self, event: str, **fields: Any) -> dict[str, Any]:
        """Call the hook, and return its answer; empty where it says nothing."""
        self.project.clock.advance()
        payload = self.payload(event, **fields)
        found = handle(self.program, payload, self.environment, clock=self.project.clock)
        return json.loads(json.dumps(found)) if found is not None else {}

    def payload(self, event: str, **fields: Any) -> dict[str, Any]:
        return {
            "session_id": self.name,
            "transcript_path": str(self.transcript),
            "cwd": str(self.project.folder),
            "hook_event_name": event,
            **fields,
        }

    def spend(self, tokens: int, *, name: str | None = None, blocks: int = 2) -> None:
        """Write a message of the model, once for every block of its content."""
        self._messages += 1
        usage = {
            "input_tokens": tokens - 10,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 5,
            "output_tokens": 5,
        }
        message = {
            "id": f"msg_{self.name}_{self._messages}",
            "model": "model-a",
            "usage": usage,
        }
        self.write(*[{"type": "assistant", "message": message}] * blocks, name=name)

    def write(self, *entries: dict[str, Any], name: str | None = None) -> None:
        path = self.transcript
        if name is not None:
            path = path.with_suffix("") / "subagents" / f"agent-{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.writelines(f"{json.dumps(entry)}\n" for entry in entries)

    def start(self, source: str = "startup") -> str:
        """Begin a context, and return the briefing."""
        answer = self.hook("SessionStart", source=source)
        return answer.get("hookSpecificOutput", {}).get("additionalContext", "")

    def prompt(self, text: str = "do it") -> dict[str, Any]:
        return self.hook("UserPromptSubmit", prompt=text)

    def use_tool(self, name: str = "Bash", **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Call the hook before and after a tool, and return both answers."""
        response = given.pop("response", {})
        before = self.hook("PreToolUse", tool_name=name, tool_input=given)
        after = self.hook("PostToolUse", tool_name=name, tool_input=given, tool_response=response)
        return before, after


class CodexConversation(Conversation):
    """A conversation of Codex: its rollout, and the calls of its hooks."""

    program = "codex"
    _total = 0

    def spend(self, tokens: int, *, name: str | None = None, blocks: int = 2) -> None:
        """Write the program's own total, as often as it is repeated."""
        self._total += tokens
        usage = {"total_tokens": self._total}
        record = {"type": "token_usage_record", "payload": {"thread_token_usage": usage}}
        count = {"type": "token_count", "info": {"total_token_usage": usage}}
        self.write(record, *[{"type": "event_msg", "payload": count}] * blocks, name=name)


class OpencodeConversation(Conversation):
    """A conversation of opencode, as our plugin tells it."""

    program = "opencode"

    def start(self, source: str = "startup") -> str:
        return self.hook("session.started", source=source).get("context", "")

    def prompt(self, text: str = "do it") -> dict[str, Any]:
        return self.hook("chat.message", text=text)

    def used(self, *usage: tuple[str, int]) -> dict[str, Any]:
        """Report messages with what they cost, and return the answer."""
        reports = [{"id": key, "model": "model-o", "tokens": tokens} for key, tokens in usage]
        return self.hook("message.updated", usage=reports)


class GeminiConversation(Conversation):
    """A conversation of Gemini CLI: its chat file, and the calls of its hooks."""

    program = "gemini"

    def __init__(
        self, project: Project, name: str = "0a1b2c3d-0000-4000-8000-000000000000"
    ) -> None:
        super().__init__(project, name)
        chats = project.folder.parent / "chats"
        self.transcript = chats / f"session-2026-03-01T09-30-{name[:8]}.jsonl"

    def spend(self, tokens: int, *, name: str | None = None, blocks: int = 2) -> None:
        """Write a message, and again once its tools have run; `name` is a subagent's."""
        self._messages += 1
        message = {
            "id": f"{name}-{self._messages}",
            "type": "gemini",
            "model": "model-g",
            "tokens": {"input": tokens - 10, "output": 10, "total": tokens},
        }
        own = self.transcript
        if name is not None:
            self.transcript = own.parent / self.name / f"{name}.jsonl"
        self.write(*[message] * blocks)
        self.transcript = own

    def prompt(self, text: str = "do it") -> dict[str, Any]:
        return self.hook("BeforeAgent", prompt=text)

    def ask_model(self, *texts: str) -> dict[str, Any]:
        """Call the hook before a request with messages, a person's and the model's in turn."""
        roles = ("user", "model")
        messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
        return self.hook("BeforeModel", llm_request={"model": "m", "messages": messages})
