"""Ask questions in a form that the client shows, if it can."""

from __future__ import annotations

from collections.abc import Sequence

from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult
from pydantic import ValidationError

from ...base.event_log import get_logger
from ...questions import Question
from .calls import Call
from .question_forms import DECLINES_UNASKED, SINCE_LISTS, form, message

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
    if several and (call.protocol_version or "") < SINCE_LISTS:
        return None
    try:
        session: ServerSession = call.session
        result = await session.elicit_form(message(questions), form(questions), call.request_id)
    except (MCPError, ValidationError) as error:
        _log.info("mcp.form_not_shown", error=str(error))
        return None
    client = session.client_params and session.client_params.client_info.name
    if result.action == "decline" and client in DECLINES_UNASKED:
        _log.info("mcp.form_not_shown", error="the client declined it, perhaps by itself")
        return None
    return result
