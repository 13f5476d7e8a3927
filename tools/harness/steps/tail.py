"""What a session's log of steps adds to its file; pure but for one look at the log's end.

The file says how much of the log is in it already, among its workflow's state:

    workflow_state:
      steps: {recorded: 12, tokens: 3400, micro_usd: 51000}

Every store adds the rest when it loads or lists a session, so that a session is never read without
what its steps cost. What a reader older than the log shows is what was spent when the file was
written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

from ...base.files import ReadError
from ..errors import HarnessError, SessionCorrupted
from ..session_layout import STEPS_KEY
from .entries import STREAM, Sums, decode_head

if TYPE_CHECKING:
    from ..session_domain import SessionContext
    from ..stream_port import SessionStreams
    from ..views.session_head import SessionHead

_COUNTS: Final = ("recorded", "tokens", "micro_usd")
_WRITTEN: Final = re.compile(
    rb"\nworkflow_state:(?:\n  [^\n]*|\n)*?\n  %b:\n    recorded: \d+\n    tokens: (\d{1,18})\n"
    % STEPS_KEY.encode()
)
"""What a file includes, as we write it; no text of a person's begins a line without blanks."""
_Session = TypeVar("_Session", bound="SessionContext | None")


def included(session: SessionContext) -> Sums:
    """Return what of its log a session includes; nothing if it has none.

    Raises:
        SessionCorrupted: Its workflow's state does not say so.
    """
    found = session.workflow_state.get(STEPS_KEY)
    if found is None:
        return Sums()
    if isinstance(found, Mapping):
        counts = [found.get(name) for name in _COUNTS]
        if all(type(one) is int and one >= 0 for one in counts):
            return Sums(0, *counts)  # type: ignore[arg-type]  # all are integers
    fault = f"workflow_state.{STEPS_KEY}: expected recorded, tokens and micro_usd as counts"
    raise SessionCorrupted(path=session.session_id, faults=[fault], session_id=session.session_id)


def include(session: SessionContext, sums: Sums) -> None:
    """Make a session include what its log has."""
    more = sums.tokens - included(session).tokens
    counts = {name: getattr(sums, name) for name in _COUNTS}
    session.workflow_state = {**session.workflow_state, STEPS_KEY: counts}
    if more > 0:
        session.token_budget.record_usage(more)


def sums_in(sessions: SessionStreams, session_id: str) -> Sums:
    """Return what a session's log has."""
    last = sessions.read_last(session_id, STREAM, 1).entries
    return decode_head(session_id, last[-1].head).sums if last else Sums()


def with_tail(sessions: SessionStreams, session: _Session) -> _Session:
    """Return a session that was just read, after adding what its log has since."""
    if session is not None and STEPS_KEY in session.workflow_state:
        sums = sums_in(sessions, session.session_id)
        if sums[1:] != included(session)[1:]:
            include(session, sums)
    return session


def head_with_tail(
    sessions: SessionStreams, head: SessionHead, beginning: bytes
) -> SessionHead | None:
    """Return a head with what the session's log has since; of the log, only its end is read.

    Args:
        sessions: The store.
        head: The head.
        beginning: The beginning of the session's file, which `may_have_steps`.

    Returns:
        The head, or None if the session has to be read completely.
    """
    written = _WRITTEN.search(beginning)
    with suppress(HarnessError, ReadError):  # who loads it is shown why
        sums = sums_in(sessions, head.session_id)
        if written is not None:
            return head.with_more(sums.tokens - int(written[1]))
        return None if sums.sequence else head
    return head


def tokens_since(session_id: str, workflow_state: str, head: bytes) -> int:
    """Return how many tokens a log has beyond what its session includes; 0 if it can't be read.

    Args:
        session_id: The session.
        workflow_state: Its workflow's state, as in a file.
        head: The head of the log's last entry.
    """
    written = _WRITTEN.search(f"\n{workflow_state}".encode())
    with suppress(HarnessError):
        if written is not None:
            return decode_head(session_id, head).sums.tokens - int(written[1])
    return 0
