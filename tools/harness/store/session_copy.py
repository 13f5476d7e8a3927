"""Copies sessions unchanged from one store to another.

A copy has the same id, revision, times and history, and everything that is stored beside the
session. What belongs to one machine (its workspace and the workspace's snapshots) is not part of a
store and is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final

from attrs import frozen

from ...base.errors import ErrorKind
from ..errors import HarnessError, SessionCorrupted, SessionIdTaken, SessionNotFound
from ..format.session_codec import encode_session
from ..session_domain import SessionContext
from ..session_ports import SessionRepository

_LOOKS: Final = 3
"""How often a session that changes while it is read is read again."""


class SessionDiffers(HarnessError, kind=ErrorKind.CONFLICT):
    """The target store has another session, or another version of it, under the id."""

    message = """session {session_id} is at revision {own_revision}, and {where} differs from it, at
    revision {revision}. Both were left as they are; delete the one that is not wanted, then repeat
    the copy."""
    session_id: str
    where: str
    revision: int
    own_revision: int


class SessionNotCopied(HarnessError, kind=ErrorKind.CONFLICT, retryable=True):
    """A runner leads the session to be copied, or it keeps changing."""

    message = """session {session_id} is being worked on, and was not copied. Pause it ({where}) or
    let its run end, then repeat the copy."""
    session_id: str
    where: str


class CopyOutcome(StrEnum):
    """The result of copying a session."""

    COPIED = "copied"
    PRESENT = "already there"
    LEFT = "left"


@frozen
class CopiedSession:
    """A session to be copied, and the result.

    Attributes:
        session_id: The session.
        outcome: The result.
        error: Why it was skipped, or None.
    """

    session_id: str
    outcome: CopyOutcome
    error: HarnessError | None = None


def copy_sessions(
    source: SessionRepository,
    target: SessionRepository,
    session_ids: Iterable[str] | None = None,
    *,
    dry_run: bool = False,
    check: Callable[[str], object] = lambda _: None,
) -> Iterator[CopiedSession]:
    """Copy sessions one by one, each completely or not at all.

    A session that already has an identical copy is left alone, so repeating an interrupted copy
    completes it. One that differs from the target's, that a runner leads, or that can't be read is
    skipped, and the others are copied.

    Args:
        source: The store to copy from; it is not changed.
        target: The store to copy to.
        session_ids: The sessions; all of them if None.
        dry_run: Copy nothing, only return what would be copied.
        check: Raises a HarnessError for a session to be skipped.

    Yields:
        The result for each session, once it is known.

    Raises:
        HarnessError: A store does not answer, or refuses everything; what was copied remains.
    """
    for session_id in source.list_sessions() if session_ids is None else session_ids:
        try:
            check(session_id)
            outcome = _copy(source, target, session_id, dry_run=dry_run)
        except HarnessError as error:
            own = error.session_id is not None and error.kind is not ErrorKind.STORAGE
            if not own and not isinstance(error, SessionCorrupted):
                raise  # it concerns more than this session
            yield CopiedSession(session_id, CopyOutcome.LEFT, error)
        else:
            yield CopiedSession(session_id, outcome)


def _copy(
    source: SessionRepository, target: SessionRepository, session_id: str, *, dry_run: bool
) -> CopyOutcome:
    session, documents = _read(source, session_id)
    if not target.exists(session_id):
        if dry_run:
            return CopyOutcome.COPIED
        try:
            target.adopt(session, documents=documents)
        except SessionIdTaken:
            if not target.exists(session_id):
                raise  # something other than a session is in its place
        else:
            return CopyOutcome.COPIED
    there, beside = _read(target, session_id)
    if encode_session(there) == encode_session(session) and beside == documents:
        return CopyOutcome.PRESENT
    raise SessionDiffers(
        session_id,
        where=target.where_is(session_id),
        revision=there.revision,
        own_revision=session.revision,
    )


def _read(store: SessionRepository, session_id: str) -> tuple[SessionContext, dict[str, bytes]]:
    """Read a session and the documents beside it, in one consistent state."""
    for _ in range(_LOOKS):
        mark = store.change_mark(session_id)
        if store.is_led(session_id):
            break
        session = store.load(session_id)
        if session is None:
            raise SessionNotFound(session_id, path=store.where)
        documents = store.read_attachments(session_id)
        if store.change_mark(session_id) == mark and not store.is_led(session_id):
            return session, documents
    raise SessionNotCopied(session_id, where=store.where_is(session_id))
