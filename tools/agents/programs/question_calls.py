"""Parse an agent's call of our own tool that asks a person: which question, and its status; pure.

The tool is `ask` of our MCP server, under the prefix that each program puts before its name. Of an
answer Gemini CLI passes on the text alone, which has only the beginning of the question's id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from .hook_event import AskedQuestion
from .meter import object_of

_NAMES: Final = ("agentforge_ask", "agentforge__ask")
_STRUCTURED: Final = ("structuredContent", "structured_content")
_TEXT: Final = "returnDisplay"
_TOLD: Final = re.compile(
    r"\[Session: ([0-9a-f]{8})(?: \| Questions: \d+)?(?: \| Status: ([\w-]+))?\]\s+(.*)", re.DOTALL
)
"""The beginning of our texts (`questions.formatting`); without a status, the question has ended."""
_REJECTED: Final = "User rejected"


def question_of(payload: Mapping[str, Any]) -> AskedQuestion | None:
    """Parse the event after a call of the tool; None for any other event.

    Args:
        payload: The event: `tool_name`, `tool_input` and `tool_response`.
    """
    name = payload.get("tool_name")
    if not isinstance(name, str) or not name.endswith(_NAMES):
        return None
    found = _structured(payload.get("tool_response"))
    question_id, status = found.get("session_id"), found.get("status")
    if not (isinstance(question_id, str) and question_id and isinstance(status, str)):
        return None
    text = found.get("text")
    return AskedQuestion(
        question_id=question_id,
        status=status,
        prompts=_prompts(payload.get("tool_input")),
        text=text if isinstance(text, str) else "",
    )


def _structured(response: object) -> Mapping[str, Any]:
    """Return the result's fields: as given, or from JSON, our text or the protocol's result."""
    if isinstance(response, Mapping) and isinstance(response.get(_TEXT), str):
        return _told(response[_TEXT])
    if isinstance(response, str):
        response = object_of(response)
    if not isinstance(response, Mapping):
        return {}
    for name in _STRUCTURED:
        inner = response.get(name)
        if isinstance(inner, Mapping):
            return inner
    return response


def _told(text: str) -> Mapping[str, Any]:
    found = _TOLD.match(text)
    if found is None:
        return {}
    question_id, status, rest = found.groups()
    ended = "rejected" if rest.startswith(_REJECTED) else "completed"
    return {"session_id": question_id, "status": status or ended, "text": text}


def _prompts(given: object) -> tuple[str, ...]:
    asked = given.get("question") if isinstance(given, Mapping) else None
    return (asked,) if isinstance(asked, str) else ()
