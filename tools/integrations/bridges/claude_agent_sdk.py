"""What a program leads through the Claude Agent SDK, recorded in sessions as our hook does it.

    from agentforge_sessions.integrations.bridges.claude_agent_sdk import recorded

    async with ClaudeSDKClient(recorded(ClaudeAgentOptions(cwd=project))) as client:

The hook is called in this process. The SDK registers it after the start of a conversation, so the
first prompt brings the start, too. It reports no end: so the end of a turn waits for what Claude
Code writes of it, and what it writes later is charged by the next conversation, as after a kill.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, Final, cast

from ...agents.hooks.handler import INSIDE_VARIABLE, PROJECT_VARIABLE, handle
from ...agents.programs.claude_code import EVENTS, NAME
from ...agents.programs.hook_event import text_of
from ...agents.programs.meter import object_of
from ...agents.setup.pieces import timeout_s
from ...base.errors import ExtraMissing
from ...base.event_log import get_logger
from ...base.files import Patience
from ...fleet import stores

try:
    from anyio import to_thread
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
    from claude_agent_sdk.types import HookContext, HookInput, HookJSONOutput
except ModuleNotFoundError as error:
    raise ExtraMissing("this bridge", "the Claude Agent SDK", "claude-agent-sdk") from error

_START: Final = "SessionStart"
_PROMPT: Final = "UserPromptSubmit"
_STOP: Final = "Stop"
_MOST_WAIT_S: Final = 1.0
_MOST_TAIL: Final = 1024 * 1024
_log = get_logger("agentforge.agents")


def recorded(options: ClaudeAgentOptions | None = None) -> ClaudeAgentOptions:
    """Return options whose conversation is recorded, charged, briefed and stopped at its budget.

    They have your own hooks, too. Ask for them once for each client or query. Where our hook is
    installed in Claude Code, it is silent for this conversation.
    """
    options = options or ClaudeAgentOptions()
    conversations, hooks = _Conversations(options), dict(options.hooks or {})
    for event in EVENTS:
        ours = HookMatcher(hooks=[conversations.called], timeout=timeout_s(event))
        # Claude Code calls those of a compaction as well, which the SDK's type does not name.
        hooks[cast(Any, event)] = [*hooks.get(cast(Any, event), ()), ours]
    return replace(options, hooks=hooks, env={INSIDE_VARIABLE: "1", **options.env})


class _Conversations:
    """The conversations of one client: one, unless the person clears it."""

    def __init__(self, options: ClaudeAgentOptions) -> None:
        folder = os.path.abspath(options.cwd or os.getcwd())
        self._environment = {**os.environ, **options.env, PROJECT_VARIABLE: folder}
        goes_on = options.resume or options.continue_conversation
        self._source = ("fork" if options.fork_session else "resume") if goes_on else "startup"
        self._briefings: dict[str, str] = {}
        """What the start of each conversation said to the model, until a prompt brings it."""

    async def called(
        self, event: HookInput, _tool: str | None, _context: HookContext
    ) -> HookJSONOutput:
        """Answer an event; the loop continues meanwhile."""
        answer = await to_thread.run_sync(self._answer, dict(event))
        return cast(HookJSONOutput, answer)

    def _answer(self, payload: dict[str, Any]) -> dict[str, Any]:
        name, conversation = payload.get("hook_event_name"), str(payload.get("session_id"))
        said = None
        if name == _START:
            self._briefings.setdefault(conversation, "")
        elif name == _PROMPT and conversation not in self._briefings:
            start = self._handled({**payload, "hook_event_name": _START, "source": self._source})
            self._briefings[conversation], said = _context_of(start), start.get("systemMessage")
            self._source = "startup"
        elif name == _STOP and (text := text_of(payload, "last_assistant_message")):
            wait_for_message(text_of(payload, "transcript_path"), text, Patience(_MOST_WAIT_S))
        answer = self._handled(payload)
        if name == _PROMPT and answer.get("decision") != "block":
            texts = [self._briefings[conversation], _context_of(answer)]
            self._briefings[conversation] = ""
            if any(texts):
                given = {
                    "hookEventName": name,
                    "additionalContext": "\n\n".join(filter(None, texts)),
                }
                answer["hookSpecificOutput"] = given
        if said:
            answer["systemMessage"] = "\n".join(filter(None, (said, answer.get("systemMessage"))))
        if "continue" in answer:
            answer["continue_"] = answer.pop("continue")
        return answer

    def _handled(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the hook's answer; after a failure nothing, so that the turn continues."""
        try:
            answer = handle(NAME, payload, self._environment, stores=stores, process=os.getpid())
        except Exception as error:  # noqa: BLE001 (the boundary: as in the hook's process)
            problem = f"{type(error).__name__}: {error}"
            _log.warning("hook.failed", hook=payload.get("hook_event_name"), problem=problem)
            return {}
        return dict(answer or {})


def wait_for_message(transcript: str, text: str, patience: Patience) -> None:
    """Wait until a transcript ends with the last message of a turn, which is written meanwhile."""
    while not _ends_with(transcript, text.strip()) and patience.pause():
        pass


def _ends_with(transcript: str, text: str) -> bool:
    """Return whether the last message of a transcript is, or ends, a text; true without a file."""
    try:
        with open(transcript, "rb") as file:
            file.seek(max(os.fstat(file.fileno()).st_size - _MOST_TAIL, 0))
            lines = file.read().splitlines()
    except OSError:
        return True
    for entry in filter(None, map(object_of, reversed(lines))):
        if entry.get("type") in {"assistant", "user"}:
            message = entry.get("message")
            blocks = message.get("content") if isinstance(message, dict) else None
            said = [one for one in blocks or () if isinstance(one, dict) and text_of(one, "text")]
            is_said = any(text.endswith(one["text"].strip()) for one in said)
            return entry["type"] == "assistant" and is_said
    return False


def _context_of(answer: dict[str, Any]) -> str:
    """Return the text for the model in an answer."""
    return str(answer.get("hookSpecificOutput", {}).get("additionalContext") or "")
