"""Ask questions in a form that the client shows, if it can.

A form has two fields per question: one with the labels to choose from, and one for free text. Forms
are those of the 2025 protocol, in which a server may send requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult
from pydantic import ValidationError

from ...base.event_log import get_logger
from ...questions import Question, UserAnswer
from .calls import Call

_SINCE_LISTS: Final = "2025-11-25"
"""The first protocol version whose forms allow several labels to be chosen."""

_DECLINES_UNASKED: Final = frozenset({"codex-mcp-client"})
"""Clients that decline a form by themselves if they must not ask anyone: Codex 0.169 does so in
`codex exec`, and wherever its approval policy is "never"."""

_log = get_logger("agentforge.mcp")


async def shown(call: Call, questions: Sequence[Question]) -> ElicitResult | None:
    """Make the client show the questions, and return the form's result.

    Returns:
        The result, or None if the client can't show this form.
    """
    able = call.client_capabilities
    if able is None or able.elicitation is None:
        return None
    if able.elicitation.form is None and able.elicitation.url is not None:
        return None
    several = any(one.multi_select for one in questions)
    if several and (call.protocol_version or "") < _SINCE_LISTS:
        return None
    try:
        session: ServerSession = call.session
        result = await session.elicit_form(message(questions), form(questions), call.request_id)
    except (MCPError, ValidationError) as error:
        _log.info("mcp.form_not_shown", error=str(error))
        return None
    client = session.client_params and session.client_params.client_info.name
    if result.action == "decline" and client in _DECLINES_UNASKED:
        _log.info("mcp.form_not_shown", error="the client declined it, perhaps by itself")
        return None
    return result


def message(questions: Sequence[Question]) -> str:
    """Return the questions as text, with the meaning of each option."""
    lines = []
    for number, one in enumerate(questions, 1):
        lines.append(f"{number}. {one.prompt}")
        lines += [
            f"   - {each.label}: {each.description}" for each in one.options if each.description
        ]
    return "\n".join(lines)


def form(questions: Sequence[Question]) -> dict[str, Any]:
    """Return the schema of the form; no field is required."""
    fields: dict[str, Any] = {}
    for number, one in enumerate(questions, 1):
        labels = {"type": "string", "enum": [each.label for each in one.options]}
        several = {"type": "array", "items": labels}
        fields[f"q{number}"] = {**(several if one.multi_select else labels), "title": one.title}
        own = f"{one.title}: an answer of your own"
        fields[f"q{number}_own"] = {"type": "string", "title": own}
    return {"type": "object", "properties": fields}


def answers_in(content: Mapping[str, object], questions: Sequence[Question]) -> list[UserAnswer]:
    """Return the answers in a form; unanswered questions have none."""
    found = []
    for index, one in enumerate(questions):
        chosen, own = content.get(f"q{index + 1}"), content.get(f"q{index + 1}_own")
        known = {each.label for each in one.options}
        labels = chosen if isinstance(chosen, list) else [chosen]
        picked = tuple(label for label in labels if label in known)
        text = own.strip() if isinstance(own, str) else ""
        if picked or text:
            found.append(
                UserAnswer(
                    question_index=index,
                    selected_option=picked[0] if picked and not one.multi_select else None,
                    selected_options=picked if picked and one.multi_select else None,
                    custom_text=text or None,
                )
            )
    return found
