"""Conversations of agent programs, as their hooks and files show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentforge_sessions.agents.hooks.binding import conversations_folder
from agentforge_sessions.agents.hooks.handler import MOST_WAIT_S, handle
from agentforge_sessions.fleet import stores
from agentforge_sessions.harness import SessionStore
from agentforge_sessions.harness.store.sessions_place import sessions_directory
from tests.support.clock import FakeClock
from tests.support.person import persons_folders
from tests.support.sessions import SessionsInUse


class Project(SessionsInUse):
    """A project with a data folder, and the sessions in it."""

    clock: FakeClock

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_folder = folder / ".agentforge"
        super().__init__(SessionStore(self._sessions()), FakeClock())

    def _sessions(self) -> Path:
        self.data_folder.mkdir(parents=True, exist_ok=True)
        return self.data_folder / "sessions"

    def begin(self, *, budget: int = 10_000, goal: str | None = "Build it") -> str:
        self.clock.advance()
        return super().begin(budget=budget, goal=goal)

    @property
    def conversations(self) -> Path:
        """Where the hook keeps what it knows of the project's conversations."""
        return conversations_folder(self.data_folder, persons_folders())

    def actions(self, session_id: str) -> list[str]:
        return [entry.action for entry in self.session(session_id).history]


class Repository(Project):
    """A Git repository in which nothing of ours is, with a branch checked out."""

    def _sessions(self) -> Path:
        self.folder.joinpath(".git").mkdir(parents=True, exist_ok=True)
        self.check_out("main")
        found = sessions_directory(self.folder)
        assert found is not None
        return found

    def check_out(self, branch: str) -> None:
        self.head(f"ref: refs/heads/{branch}\n")

    def head(self, text: str) -> None:
        """Write what is checked out."""
        self.folder.joinpath(".git", "HEAD").write_text(text)

    def goals(self) -> list[str | None]:
        """Return the goals of all sessions, the oldest first."""
        return [self.session(one).goal for one in sorted(self.store.list_sessions())]


class Conversation:
    """A conversation of Claude Code: its transcript, and the calls of its hooks."""

    program = "claude-code"

    def __init__(self, project: Project, name: str = "conversation-1") -> None:
        self.project = project
        self.name = name
        self.transcript = project.folder.parent / "transcripts" / f"{name}.jsonl"
        self.environment: dict[str, str] = {}
        self.patience_s = MOST_WAIT_S
        self._messages = 0

    def hook(self, event: str, **fields: Any) -> dict[str, Any]:
        """Call the hook, and return its answer; empty where it says nothing."""
        self.project.clock.advance()
        payload = self.payload(event, **fields)
        found = handle(
            self.program,
            payload,
            {**persons_folders(), **self.environment},
            stores=stores,
            clock=self.project.clock,
            patience_s=self.patience_s,
        )
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
    """A conversation of Codex: its rollouts, one for each subagent too, and the calls of its hooks.

    `subagent` names the one in which the next hooks are called.
    """

    program = "codex"
    subagent: str | None = None

    def __init__(self, project: Project, name: str = "conversation-1") -> None:
        super().__init__(project, name)
        self._folder = project.folder.parent / "codex" / "sessions" / "2026" / "11" / "23"
        self.transcript = self._rollout(name)
        self._totals: dict[str, int] = {}

    def _rollout(self, thread: str) -> Path:
        return self._folder / f"rollout-2026-11-23T0{min(len(thread), 9)}-00-00-{thread}.jsonl"

    def payload(self, event: str, **fields: Any) -> dict[str, Any]:
        payload = super().payload(event, **fields)
        if self.subagent is not None:
            payload["agent_id"] = self.subagent
            payload["transcript_path"] = str(self._rollout(f"{self.name}-{self.subagent}"))
        return payload

    def spend(self, tokens: int, *, name: str | None = None, blocks: int = 2) -> None:
        """Write the program's own total of a thread, as often as it is repeated."""
        thread = self.name if name is None else f"{self.name}-{name}"
        self._totals[thread] = self._totals.get(thread, 0) + tokens
        usage = {"total_tokens": self._totals[thread]}
        used = {"thread_id": thread, "session_id": self.name, "thread_token_usage": usage}
        count = {"type": "token_count", "info": {"total_token_usage": usage}}
        record = {"type": "token_usage_record", "payload": used}
        self.write(record, *[{"type": "event_msg", "payload": count}] * blocks, name=name)

    def write(self, *entries: dict[str, Any], name: str | None = None) -> None:
        path = self.transcript if name is None else self._rollout(f"{self.name}-{name}")
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            meta = {"account_scoped": True, "session_id": self.name, "id": name or self.name}
            path.write_text(f"{json.dumps({'type': 'session_meta', 'payload': meta})}\n")
        with path.open("a") as file:
            file.writelines(f"{json.dumps(entry)}\n" for entry in entries)


class OpencodeConversation(Conversation):
    """A conversation of opencode, as our plugin tells it."""

    program = "opencode"

    def start(self, source: str = "startup") -> str:
        return self.hook("session.started", source=source).get("context", "")

    def prompt(self, text: str = "do it") -> dict[str, Any]:
        return self.hook("chat.message", text=text)

    def used(self, *usage: tuple[str, int]) -> dict[str, Any]:
        """Report messages with what they cost, and return the answer."""
        reports = [
            {"id": key, "model": "model-o", "tokens": {"total": tokens}} for key, tokens in usage
        ]
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
