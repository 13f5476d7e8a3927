"""The head of a session's file: what stands before its lists, read from its first bytes alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from attrs import frozen

from ..identifiers import SESSION_ID_PATTERN
from .session_domain import (
    MAX_NAME_CHARS,
    SessionArtifact,
    SessionContext,
    SessionHistory,
    SessionState,
    TokenBudget,
)
from .session_scalars import (
    COUNT,
    HEADER,
    NAME,
    PLAIN,
    TIME,
    NotOurs,
    decode_name,
    decode_text,
    decode_time,
)

HEAD_BYTES: Final = 4096
"""How much of a file is enough to read its head (`goal`, the one long field, comes after it)."""


def _head_pattern(*, identity: str, name: str, count: str, positive: str) -> str:
    """Write the expression for a head whose fields look so."""
    return (
        re.escape(HEADER) + r"schema_version: 1\n"
        rf"session_id: ({identity})\n"
        rf"revision: ({count})\n"
        r"state: (active|paused|completed|aborted)\n"
        rf"workflow_type: ({name})\n"
        rf"current_phase: ({name})\n"
        rf"attempt_number: ({positive})\n"
        rf"created_at: ({TIME})\n"
        rf"updated_at: ({TIME})\n"
        rf"completed_at: (null|{TIME})\n"
        r"token_budget:\n"
        rf"  total_budget: ({positive})\n"
        rf"  tokens_used: ({count})\n"
        r"(?:  remaining: -?(?:0|[1-9][0-9]{0,18})\n)?(?=goal:)"  # former releases wrote none
    )


_HEAD: Final = _head_pattern(identity=NAME, name=NAME, count=COUNT, positive=COUNT)
HEAD_RE: Final = re.compile(_HEAD)
_SOUND_HEAD_RE: Final = re.compile(
    _head_pattern(
        identity=SESSION_ID_PATTERN,
        name=rf"(?=.{{1,{MAX_NAME_CHARS}}}\n){PLAIN}",
        count="(?:0|[1-9][0-9]{0,17})",
        positive="[1-9][0-9]{0,17}",
    )
)
"""What no rule of the domain has anything against, its times aside: most heads, judged cheaply."""


@frozen
class SessionHead:
    """What stands before the lists of a session's file: enough to list and to clean up.

    Attributes: as those of `SessionContext`; `total_budget` and `tokens_used` as those of its
        `token_budget`.
    """

    session_id: str
    revision: int
    state: SessionState
    workflow_type: str | None
    current_phase: str | None
    attempt_number: int
    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None
    total_budget: int
    tokens_used: int

    @classmethod
    def of(cls, session: SessionContext) -> SessionHead:
        """Take the head of a session that was read whole."""
        return cls(
            session_id=session.session_id,
            revision=session.revision,
            state=session.state,
            workflow_type=session.workflow_type,
            current_phase=session.current_phase,
            attempt_number=session.attempt_number,
            created_at=session.created_at,
            updated_at=session.updated_at,
            completed_at=session.completed_at,
            total_budget=session.token_budget.total_budget,
            tokens_used=session.token_budget.tokens_used,
        )


def make_head(match: re.Match[str]) -> SessionHead:
    """Build a head from what `HEAD_RE` found; `NotOurs` if a value is spelled otherwise."""
    fields = match.groups()
    return SessionHead(
        decode_name(fields[0]),
        int(fields[1]),
        SessionState(fields[2]),
        decode_text(fields[3]),
        decode_text(fields[4]),
        int(fields[5]),
        datetime.fromisoformat(fields[6][1:-1]),
        datetime.fromisoformat(fields[7][1:-1]),
        decode_time(fields[8]),
        int(fields[9]),
        int(fields[10]),
    )


def session_of(
    head: SessionHead,
    *,
    artifacts: Sequence[SessionArtifact] = (),
    history: Sequence[SessionHistory] = (),
    goal: str | None = None,
) -> SessionContext:
    """Build, and so judge, the session that a head begins."""
    return SessionContext(
        session_id=head.session_id,
        state=head.state,
        created_at=head.created_at,
        updated_at=head.updated_at,
        token_budget=TokenBudget(head.total_budget, head.tokens_used),
        workflow_type=head.workflow_type,
        current_phase=head.current_phase,
        attempt_number=head.attempt_number,
        completed_at=head.completed_at,
        artifacts=list(artifacts),
        history=list(history),
        goal=goal,
        revision=head.revision,
    )


def decode_head(data: bytes) -> SessionHead | None:
    """Read the head of a file from its first bytes, and judge it as the whole would be.

    Args:
        data: At least `HEAD_BYTES` of the file, or all of it.

    Returns:
        The head, or None if the file is not exactly as we write it, which says nothing about
        whether it is a session: `decode_session` does.
    """
    text = data.decode("utf-8", "surrogateescape")
    try:
        match = _SOUND_HEAD_RE.match(text)
        if match is not None:
            head = make_head(match)
            if _in_order(head):
                return head
        match = HEAD_RE.match(text)
        if match is None:
            return None
        head = make_head(match)
        session_of(head)
    except (NotOurs, ValueError):
        return None
    return head


def _in_order(head: SessionHead) -> bool:
    """Tell whether the times of a head are as `SessionContext.faults` asks."""
    ended = head.completed_at
    if ended is None:
        return not head.state.is_terminal and head.created_at <= head.updated_at
    return head.state.is_terminal and head.created_at <= min(head.updated_at, ended)


@frozen
class SessionStamp:
    """What a save compares with the stored session before it replaces it.

    Attributes: as those of `SessionContext`.
    """

    revision: int
    state: SessionState
    created_at: datetime


def decode_stamp(data: bytes) -> SessionStamp | None:
    """Read the stamp from the first `HEAD_BYTES` of a file.

    Returns:
        The stamp, or None if the file does not begin as we write it.
    """
    match = HEAD_RE.match(data.decode("utf-8", "surrogateescape"))
    if match is None:
        return None
    try:
        created_at = datetime.fromisoformat(match[7][1:-1])
    except ValueError:
        return None
    return SessionStamp(int(match[2]), SessionState(match[3]), created_at)
