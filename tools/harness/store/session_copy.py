"""Sessions copied from one store to another, as they are.

A copy has the id, the revision, the times, the history and all that is kept beside the session.
What only a machine has of it (its workspace, and snapshots of that) is no part of a store, and
stays.
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
    """Another session, or another version of it, has the id in the store that is copied to."""

    message = """session {session_id} is at revision {own_revision}, and {where} differs from it, at
    revision {revision}. Both were left as they are; delete the one that is not wanted, then repeat
    the copy."""
    session_id: str
    where: str
    revision: int
    own_revision: int


class SessionLed(HarnessError, kind=ErrorKind.CONFLICT, retryable=True):
    """A runner is at the session that was to be copied, or it changes all the time."""

    message = """session {session_id} is being worked on, and was not copied. Pause it ({where}) or
    let its run end, then repeat the copy."""
    session_id: str
    where: str


class CopyOutcome(StrEnum):
    """What became of a session that was to be copied."""

    COPIED = "copied"
    PRESENT = "already there"
    LEFT = "left"


@frozen
class CopiedSession:
    """A session that was to be copied.

    Attributes:
        session_id: Which.
        outcome: What became of it.
        error: Why it was left, or None.
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
    """Copy sessions, one after the other, each whole or not at all.

    A session that is there already, the same in everything, is left alone: a copy that was
    interrupted is finished by repeating it. One that differs from what is there, that a runner is
    at, or that can't be read is left, and the others are copied.

    Args:
        source: Where they are; nothing is changed there.
        target: Where they are copied to.
        session_ids: Which; all of them if None.
        dry_run: True: copy nothing, only say what would be copied.
        check: Raises a HarnessError of a session that is to be left.

    Yields:
        What became of each, when it is done.

    Raises:
        HarnessError: A store does not answer, or refuses everything; what was copied stays.
    """
    for session_id in source.list_sessions() if session_ids is None else session_ids:
        try:
            check(session_id)
            outcome = _copy(source, target, session_id, dry_run=dry_run)
        except HarnessError as error:
            own = error.session_id is not None and error.kind is not ErrorKind.STORAGE
            if not own and not isinstance(error, SessionCorrupted):
                raise  # it is not about this session alone
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
                raise  # something that is no session is in its place
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
    """Read a session and what is beside it, as they are at one moment."""
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
    raise SessionLed(session_id, where=store.where_is(session_id))
