"""What a person reads of sessions that came and that ended meanwhile."""

from __future__ import annotations

from typing import Final

from ...questions import SessionStatus
from .question_queue import Ending, Listing
from .queue_view import SHORT_ID
from .text import counted, one_line

_BY_OTHERS: Final = frozenset({SessionStatus.COMPLETED, SessionStatus.REJECTED})
"""How another person may have ended a session that was open here."""


def ending_text(ending: Ending) -> str:
    """Return how a session ended, as the end of a sentence that begins with it."""
    if ending.status is None:
        return "was deleted"
    text, _, meaning = ending.status.told.partition(": ")
    if ending.status in _BY_OTHERS:
        text += " elsewhere"
    if ending.at is not None:
        text += f" at {ending.at.astimezone():%H:%M:%S}"
    if meaning:
        text += f": {meaning}"
    reason = one_line(ending.reason or "", 200)
    return f"{text} ({reason})" if reason else text


def arrivals_text(before: Listing, after: Listing) -> str:
    """Return which sessions came; "" if none did."""
    known = {one.session_id for one in before.waiting}
    new = [one for one in after.waiting if one.session_id not in known]
    if not new:
        return ""
    if len(new) > 1:
        return f"{counted(len(new), 'new session')} waiting"
    (one,) = new
    title = one_line(one.titles[0], 40) if one.titles else "no title"
    return f"New: {title} (session {one.session_id[:SHORT_ID]})"
