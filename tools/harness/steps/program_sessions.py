"""The sessions of programs: found by their callers' keys, led by one process at a time.

A key leads to one session of its store: the id is a hash of it, so that two processes that start
together create one. The key itself, and the workflow that uses it, are in a document beside the
session, and compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...base.clock import Clock, utc_now
from ...base.event_log import get_logger
from ...base.files import LockTimeout
from ..domain.history_events import BudgetExtended, LimitCrossed, WarningCrossed
from ..errors import SessionCorrupted, SessionIdTaken, SessionNotFound
from ..events.session_events import SessionEvents
from ..services.session_recording import SessionChanges
from ..session_domain import SessionContext
from ..session_layout import PROGRAM_FILE, STEPS_KEY
from ..session_ports import require_own
from .entries import REWIND, STREAM, Kind, StepRecord, Sums, decode_record, is_step, microseconds
from .errors import ArgumentsDiffer, KeyTaken, SessionLed
from .step_log import StepLog, append_apart

if TYPE_CHECKING:
    from ..domain.session_observer import SessionObserver
    from ..session_ports import LocalSessions, SessionRepository

_NOTHING: Final = dict(zip(("recorded", "tokens", "micro_usd"), Sums()[1:], strict=True))


class ProgramKey(NamedTuple):
    """What a session belongs to.

    Attributes:
        workflow: The program's name for this kind of work.
        key: The caller's key.
        arguments: A digest of the arguments, or None if they are not compared.
    """

    workflow: str
    key: str
    arguments: str | None = None

    @property
    def document(self) -> bytes:
        """The document beside the session."""
        return json.dumps(self._asdict(), ensure_ascii=False).encode("utf-8", "surrogatepass")


def hashed_session_id(kind: str, name: str) -> str:
    """Return the session id that belongs to a name, which is arbitrary text, of a kind."""
    # The text may contain characters that UTF-8 can't encode.
    text = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(text).digest()
    digits = f"{int.from_bytes(digest[:8], 'big') % 10**14:014d}"
    return f"session_{digits[:8]}_{digits[8:]}_{digest[8:12].hex()}"


def program_session_id(key: str) -> str:
    """Return the id of the session of a program's key, existing or not."""
    return hashed_session_id("program", key)


def begin_or_go_on(
    sessions: LocalSessions,
    program: ProgramKey,
    *,
    budget: int,
    goal: str | None = None,
    title: str | None = None,
    tags: Iterable[str] = (),
    parent_id: str | None = None,
    clock: Clock = utc_now,
    observers: Iterable[SessionObserver] = (),
) -> SessionContext:
    """Return the session of a key; create it if there is none.

    Of processes that start together, one creates it and all return the same. What is given besides
    the program counts at creation only.

    Raises:
        KeyTaken: The key belongs to another workflow.
        ArgumentsDiffer: It was used with other arguments.
        SessionNotAdopted: Its session is not this person's own; nothing of it is believed.
        InvalidSession: A value is invalid.
        WriteError: The store refused.
    """
    session_id = program_session_id(program.key)
    found = sessions.load(session_id)
    if found is None:
        created = SessionContext.create(
            program.workflow,
            token_budget=budget,
            goal=goal,
            title=title,
            tags=tags,
            workflow_state={STEPS_KEY: _NOTHING},
            parent_id=parent_id,
            session_id=session_id,
            now=clock(),
        )
        with suppress(SessionIdTaken):  # another process creates it, too
            sessions.save(created, attachments={PROGRAM_FILE: program.document})
            _events(clock, observers).added(created, 0)
            return created
        found = sessions.load(session_id)
    if found is None:
        raise SessionNotFound(session_id, path=sessions.where)
    require_own(sessions, session_id)
    _require_program(sessions, session_id, program)
    return found


def _require_program(sessions: LocalSessions, session_id: str, program: ProgramKey) -> None:
    own = program_of(sessions, session_id)
    if own.key != program.key or own.workflow != program.workflow:
        raise KeyTaken(session_id, key=program.key, workflow=program.workflow, owner=own.workflow)
    if program.arguments is not None and own.arguments != program.arguments:
        raise ArgumentsDiffer(session_id, key=program.key)


def program_of(sessions: SessionRepository, session_id: str) -> ProgramKey:
    """Return what a session belongs to.

    Raises:
        SessionNotFound: It is no program's session, or does not exist.
        SessionCorrupted: The document beside it can't be read.
    """
    document = sessions.read_attachment(session_id, PROGRAM_FILE)
    if document is None:
        raise SessionNotFound(session_id, path=sessions.where)
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(document.decode("utf-8", "surrogatepass"))
    if isinstance(found, dict) and found.keys() == set(ProgramKey._fields):
        key, workflow = found["key"], found["workflow"]
        if isinstance(key, str) and isinstance(workflow, str):
            return ProgramKey(workflow, key, found["arguments"])
    where = sessions.where_is(session_id, PROGRAM_FILE)
    raise SessionCorrupted(path=where, faults=["names no program"], session_id=session_id)


@contextmanager
def led(
    sessions: LocalSessions, session_id: str, *, wait_s: float = 0.0, clock: Clock = utc_now
) -> Iterator[StepLog]:
    """Lead a session for the block; what its log has is read first.

    The lead ends with the process, however it dies. A process that was stopped, and overtaken where
    the store can tell, records nothing more.

    Args:
        sessions: The store.
        session_id: The session.
        wait_s: How long to wait for another process that leads it, in seconds.
        clock: The time.

    Raises:
        SessionLed: Another process leads it.
        SessionNotFound: There is no such session, or it is no program's.
    """
    lock = sessions.run_lock(session_id, PROGRAM_FILE, timeout_s=wait_s)
    try:
        lock.acquire()
    except FileNotFoundError:
        raise SessionNotFound(session_id, path=sessions.where) from None
    except LockTimeout as error:
        raise SessionLed(session_id, waited_s=wait_s) from error
    try:
        log = StepLog(sessions, session_id, clock=clock)
        log.take_lead()
        yield log
    finally:
        lock.release()


def checkpoint(
    log: StepLog,
    change: Callable[[SessionContext], object] = lambda _: None,
    *,
    observers: Iterable[SessionObserver] = (),
) -> None:
    """Write the session's file as its log has it, with the budget's limits that were crossed.

    It includes what others recorded since this process read the log: it is as the store loads it.

    Args:
        log: The log.
        change: Changes the session further, in the same save.
        observers: The observers of the change.

    Raises:
        WriteError: The store refused; the log has everything.
    """

    def changed(session: SessionContext) -> bool:
        if session.state.is_terminal:
            return False
        now = log.clock()
        change(session)
        session.touch(now)
        for event in _crossed(session):
            session.add_event(event, now=now)
        return True

    changes = SessionChanges(log.store, _events(log.clock, observers))
    changes.change_elsewhere(log.session_id, changed)


def _crossed(session: SessionContext) -> Iterator[WarningCrossed | LimitCrossed]:
    """Yield the crossings of the budget that are not in the history since it was last extended."""
    budget = session.token_budget.snapshot()
    if not budget.is_warning:
        return
    known = set()
    for entry in reversed(session.history):
        if entry.event_type is BudgetExtended:
            break
        known.add(entry.event_type)
    kinds = (WarningCrossed, LimitCrossed) if budget.is_over_budget else (WarningCrossed,)
    for kind in kinds:
        if kind not in known:
            yield kind(tokens_used=budget.tokens_used, total_budget=budget.total_budget)


def _events(clock: Clock, observers: Iterable[SessionObserver]) -> SessionEvents:
    return SessionEvents(get_logger("agentforge.session"), observers=observers, clock=clock)


def send_signal(
    sessions: SessionRepository,
    session_id: str,
    name: str,
    value: object = None,
    *,
    by: str,
    clock: Clock = utc_now,
) -> None:
    """Send a signal to a program, from any process; it may wait for it now, or come to it later.

    Args:
        sessions: The store.
        session_id: The session.
        name: What the program waits for.
        value: Its value: JSON.
        by: Who sends it.
        clock: The time.

    Raises:
        ValueError: The value is not JSON.
        SessionNotFound: It is no program's session, or does not exist.
        InvalidStateTransition: It has ended.
        WriteError: The store refused.
    """
    program_of(sessions, session_id)
    body = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    append_apart(sessions, session_id, Kind.SIGNAL, (name, by, microseconds(clock())), body)


def rewind_to(
    sessions: SessionRepository, session_id: str, sequence: int, *, clock: Clock = utc_now
) -> None:
    """Go back to an entry of the log: the steps recorded after it run again.

    What they cost stays spent. The caller makes sure that no process leads the session.
    """
    append_apart(sessions, session_id, Kind.REWIND, (sequence, microseconds(clock())))


def steps_of(
    sessions: SessionRepository, session_id: str, *, last: int | None = None
) -> list[StepRecord]:
    """Return the recorded steps of a session, oldest first; none if it is no program's.

    Args:
        sessions: The store.
        session_id: The session.
        last: How many of the last ones, at a cost that does not grow with their number (unless
            the program went back just before); all if None.
    """
    if last is None:
        return list(StepLog(sessions, session_id).history.records())
    count = last
    while count > 0:
        tail = sessions.read_last(session_id, STREAM, count)
        heads = [entry for entry in tail.entries if is_step(entry.head)]
        if any(entry.head.startswith(REWIND) for entry in tail.entries):
            break
        if tail.whole or len(heads) >= last:
            return [decode_record(session_id, entry) for entry in heads[-last:]]
        count *= 4
    return steps_of(sessions, session_id)[-last:] if last else []
