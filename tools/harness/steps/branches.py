"""Go back to a step of a program, or fork its session there; what was recorded before remains."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING, Final

from ...base.clock import Clock, utc_now
from ...base.errors import ErrorKind
from ...base.files import OsFileSystem
from ...base.files.filesystem import DIRECTORY_FLAGS
from ...base.files.log_frames import encode_log
from ...base.files.trees import copy_tree
from ..domain.token_budget import TokenBudget
from ..errors import HarnessError, SessionIdTaken, SessionNotFound
from ..session_domain import SessionContext
from ..session_layout import GUARDS, PROGRAM_FILE, STREAMS
from ..session_ports import require_own
from ..views.session_names import stream_file
from .entries import STREAM, Sums, decode_head
from .errors import KeyTaken
from .program_sessions import (
    ProgramKey,
    checkpoint,
    program_of,
    program_session_id,
    rewind_to,
    steps_of,
)
from .step_log import StepLog
from .tail import include

if TYPE_CHECKING:
    from ..session_ports import LocalSessions

_NAMED: Final = 8
_MOST_FORKS: Final = 1000


class StepNotFound(HarnessError, kind=ErrorKind.NOT_FOUND):
    """A session has no recorded step of this name."""

    message = """session {session_id} has no recorded step {step!r}; the last ones are
    {recorded:,}. Nothing was changed. Name a step as outline, draft#3 or outer#1/inner#2."""
    session_id: str
    step: str
    recorded: tuple[str, ...]
    """The paths of the last steps."""


def first_entry_of(sessions: LocalSessions, session_id: str, step: str) -> tuple[int, int]:
    """Return the number of the first entry of a step or of its parts, and how many steps follow.

    Args:
        sessions: The store.
        session_id: The session.
        step: The step's path; without its last ordinal, all steps of that name.

    Raises:
        StepNotFound: Nothing is recorded of it.
    """
    records = steps_of(sessions, session_id)
    found = [one.sequence for one in records if _is_within(one.path, step)]
    if not found:
        last = tuple(one.path for one in records[-_NAMED:])
        raise StepNotFound(session_id, step=step, recorded=last)
    first = min(found)
    return first, sum(1 for one in records if one.sequence >= first)


def _is_within(path: str, step: str) -> bool:
    names = path.split("/")
    above = ("/".join(names[:count]) for count in range(1, len(names) + 1))
    return any(step in {one, one.rpartition("#")[0]} for one in above)


def rewind_before(
    sessions: LocalSessions, session_id: str, step: str, *, clock: Clock = utc_now
) -> int:
    """Go back to where a step was not recorded; return how many steps run again.

    What they cost stays spent, and files stay as they are. The session's history says it.

    Raises:
        StepNotFound: Nothing is recorded of it.
        SessionInUse: A process leads the session.
        InvalidStateTransition: The session has ended; fork it.
    """
    with sessions.idle(session_id, GUARDS):
        first, again = first_entry_of(sessions, session_id, step)
        rewind_to(sessions, session_id, first - 1, clock=clock)
        log = StepLog(sessions, session_id, clock=clock)
        note = f"before {step}, to run {again} of its steps again"
        checkpoint(log, lambda session: session.add_history("rewound", details=note, now=clock()))
    return again


def fork_before(
    sessions: LocalSessions,
    session_id: str,
    step: str,
    *,
    key: str | None = None,
    token_budget: int | None = None,
    clock: Clock = utc_now,
) -> tuple[SessionContext, ProgramKey]:
    """Create a session that has what another recorded before a step, under a key of its own.

    The other one is not changed, and may have ended. Its workspace is copied as it is now.

    Args:
        sessions: The store.
        session_id: The other session.
        step: The step, as for `rewind_before`.
        key: The new key; the other's with a number after it if None.
        token_budget: Tokens allotted, nothing spent; if None, the other's budget with what it has
            spent.
        clock: The time.

    Raises:
        StepNotFound: Nothing is recorded of it.
        SessionInUse: A process leads the other session.
        KeyTaken: The key is in use.
        WriteError: The store refused.
    """
    require_own(sessions, session_id)
    with sessions.idle(session_id, GUARDS):
        parent = sessions.load(session_id)
        if parent is None:
            raise SessionNotFound(session_id, path=sessions.where)
        before = first_entry_of(sessions, session_id, step)[0] - 1
        part = sessions.read_entries(session_id, STREAM)
        entries = part.entries[:before]
        bodies = sessions.read_bodies(session_id, STREAM, entries, mark=part.mark)
        log = encode_log(zip((one.head for one in entries), bodies, strict=True))
        sums = decode_head(session_id, entries[-1].head).sums if entries else Sums()
        own = program_of(sessions, session_id)
        if key == own.key:
            raise _taken(own, session_id)
        for number in count(2):
            program = own._replace(key=f"{own.key}~{number}" if key is None else key)
            fork = _forked(parent, program, sums, token_budget, clock)
            note = f"from {session_id}, before {step}"
            fork.add_history("forked", details=note, now=clock())
            try:
                sessions.save(
                    fork,
                    attachments={PROGRAM_FILE: program.document},
                    inherited={f"{STREAMS}/{stream_file(STREAM)}": log},
                )
            except SessionIdTaken:
                if key is not None or number == _MOST_FORKS:
                    raise _taken(program, fork.session_id) from None
            else:
                break
        _copy_workspace(sessions, session_id, fork.session_id)
    return fork, program


def _taken(program: ProgramKey, session_id: str) -> KeyTaken:
    return KeyTaken(session_id, key=program.key, workflow="the fork", owner=program.workflow)


def _forked(
    parent: SessionContext,
    program: ProgramKey,
    sums: Sums,
    token_budget: int | None,
    clock: Clock,
) -> SessionContext:
    fork = SessionContext.create(
        program.workflow,
        token_budget=token_budget or parent.token_budget.total_budget,
        goal=parent.goal,
        title=parent.title,
        tags=parent.tags,
        metadata=parent.metadata,
        workflow_state=parent.workflow_state,
        parent_id=parent.session_id,
        session_id=program_session_id(program.key),
        now=clock(),
    )
    include(fork, sums)
    spent = parent.token_budget.tokens_used if token_budget is None else 0
    fork.token_budget = TokenBudget(fork.token_budget.total_budget, spent)
    return fork


def _copy_workspace(sessions: LocalSessions, source_id: str, target_id: str) -> None:
    """Copy the files of a session that nothing is at work in; none if it has none here."""
    source, target = map(sessions.workspace_path, (source_id, target_id))
    if source.is_symlink() or not source.is_dir():
        return
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    fds = [os.open(one, DIRECTORY_FLAGS) for one in (source, target)]
    try:
        copy_tree(OsFileSystem(), *fds)
    finally:
        for fd in fds:
            os.close(fd)
