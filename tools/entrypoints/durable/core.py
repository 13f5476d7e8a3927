"""A led session and its steps: what the synchronous and the asynchronous face share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...base.cancellation import OperationCancelled
from ...base.settings.spending import Amount, Limit
from ...harness.errors import NoActiveSession, SessionNotFound
from ...harness.session_domain import SessionContext, SessionState
from ...harness.steps.codec import JSON, decode, encode
from ...harness.steps.entries import StepRecord, name_in
from ...harness.steps.errors import (
    SessionFinished,
    StepFailed,
)
from ...harness.steps.program_sessions import checkpoint
from ...harness.steps.step_log import StepLog
from ...harness.steps.tail import included
from .flows import Flow, Io
from .options import SessionTerms
from .scopes import CallPlace, CallScope, running_frame

if TYPE_CHECKING:
    from ...harness.session_manager import SessionManager
    from ...harness.session_ports import LocalSessions
    from .limits import PersonLimits

_CHECKPOINT_EVERY: Final = timedelta(seconds=1)


class LeadTerms(NamedTuple):
    """On what terms a session is led.

    Attributes:
        key: The key that leads to it.
        limits: The person's own limits.
        manager: Builds the manager that asks questions and takes snapshots.
        wanted: What the caller asked for.
    """

    key: str
    limits: PersonLimits
    manager: Callable[[], SessionManager]
    wanted: SessionTerms


class StepBody(NamedTuple):
    """What is recorded of a step's end: its result, or an exception.

    Attributes:
        codec: The format.
        data: The content.
    """

    codec: str
    data: bytes

    @classmethod
    def of(cls, value: object) -> StepBody:
        """Return a JSON value as a result."""
        return cls(JSON, json.dumps(value).encode())

    @classmethod
    def failed(cls, kind: str, reason: str) -> StepBody:
        """Return an exception."""
        return cls(FAILED, json.dumps([kind, reason]).encode())


FAILED: Final = "error"
"""The codec of an exception."""
NOTHING: Final = StepBody.of(None)
_NO_AMOUNT: Final = Amount()


class SessionCore:
    """A session that this process leads, or that has finished. Usable from any thread.

    Attributes:
        store: Where it is.
        log: Its log.
        terms: On what terms it is led.
        root: The calls of the program itself.
        session: The session as it was last read.
        workspace: Where its workspace is, or would be.
        budget: The limits besides the session's own token budget.
        finished: Whether the program's result is recorded.
        parent: The session that it is a part of; None for none.
    """

    def __init__(
        self,
        store: LocalSessions,
        log: StepLog,
        session: SessionContext,
        terms: LeadTerms,
        parent: SessionCore | None = None,
    ) -> None:
        self.store = store
        self.log = log
        self.terms = terms
        self.root = CallScope()
        self.session = session
        self.finished = log.history.finished is not None
        self.parent = parent
        self.lock = RLock()
        self.workspace = store.workspace_path(log.session_id)
        self.budget = Limit(None, terms.wanted.budget.limit.micro_usd)
        self._parts: set[SessionCore] = set()
        self._mark: object = None
        self._written = terms.wanted.clock()
        self._manager: SessionManager | None = None
        self._waits: dict[str, dict[str, int]] = {}
        self._is_closed = False
        if parent is not None:
            parent._parts.add(self)

    # --------------------------------------------------------------------- the session's state

    def clock(self) -> datetime:
        """Return the present moment."""
        return self.terms.wanted.clock()

    @property
    def session_id(self) -> str:
        """Its id."""
        return self.log.session_id

    def look(self) -> None:
        """Notice what other processes did to the session since the last look.

        Raises:
            NoActiveSession: Its block has ended.
            InvalidStateTransition: It was paused or aborted.
        """
        if self._is_closed:
            raise NoActiveSession(operation="step", session_id=self.session_id)
        mark = self.store.change_mark(self.session_id)
        if mark is None or mark != self._mark:
            session = self.store.load(self.session_id)
            if session is None:
                raise SessionNotFound(self.session_id, path=self.store.where)
            self._mark, self.session = mark, session
        if not self.finished:
            self.session.require(SessionState.ACTIVE, operation="continue")

    def left(self) -> Limit:
        """Return what is left of the session's budget; negative if more was spent."""
        session, sums = self.session, self.log.history.sums
        more = sums.spent.minus(included(session).spent)
        usd = self.budget.micro_usd
        return Limit(
            session.token_budget.tokens_remaining - more.tokens,
            None if usd is None else usd - sums.micro_usd,
        )

    def spent_by_root(self) -> Amount:
        """Return what the person's limits count: a part is counted with the session around it."""
        core = self
        while core.parent is not None:
            core = core.parent
        return core._spent_with_parts()

    def _spent_with_parts(self) -> Amount:
        total = self.log.history.sums.spent
        for part in tuple(self._parts):
            total = total.plus(part._spent_with_parts())
        return total

    def write(self, *, change: Callable[[SessionContext], object] = lambda _: None) -> None:
        """Write the session's file as the log has it, and what was spent to the person's ledger."""
        with self.lock:
            checkpoint(self.log, change)
            self._written = self.clock()
        self.terms.limits.charge(self.spent_by_root())

    def write_if_due(self, spent: Amount) -> None:
        """Write the file, if it was not for a second, and the ledger of a person with limits."""
        if self.clock() - self._written >= _CHECKPOINT_EVERY:
            self.write()
        elif spent != Amount() and self.terms.limits.exist:
            self.terms.limits.charge(self.spent_by_root())

    def close(self) -> None:
        """Write the file for the last time; nothing is called in the session any more."""
        self._is_closed = True
        try:
            if self.log.lead is not None and not self.finished:
                self.log.catch_up()
                if self.log.history.lead == self.log.lead:
                    self.write()
        finally:
            if self.parent is not None:
                self.parent._parts.discard(self)

    @contextmanager
    def managed(self) -> Iterator[SessionManager]:
        """Yield a manager of the session as it is stored now, to one thread at a time."""
        with self.lock:
            if self._manager is None:
                self._manager = self.terms.manager()
                self._manager.open(self.session_id)
            else:
                self._manager.reload()
            yield self._manager

    # --------------------------------------------------------------------------- identity

    def scope(self) -> CallScope:
        """Return the scope of a call that is made now.

        Raises:
            OperationCancelled: It is made by a function whose step has ended without it.
        """
        frame = running_frame(self)
        if frame is None:
            return self.root
        if not frame.account.is_open:
            raise OperationCancelled
        return frame.scope

    def recorded(self, place: CallPlace) -> StepRecord | None:
        """Return what is recorded at a place; None if it is still to be done.

        Raises:
            ProgramChanged: Another call is recorded there, or it is recorded elsewhere.
            SessionFinished: Nothing is, and the session has finished.
        """
        self.log.check_order(*place)
        record = self.log.history.record(place.path)
        if record is None and self.finished:
            raise SessionFinished(self.session_id, path=place.path)
        return record

    def replayed(self, record: StepRecord, kind: object | None) -> Flow[Any]:
        """Return a recorded result, or raise a recorded exception."""
        body = yield Io(lambda: self.log.body(record))
        if record.outcome != "ok":
            name, reason = json.loads(body)
            raise StepFailed(self.session_id, path=record.path, error_type=name, reason=reason)
        return decode(record.codec, body, kind, workspace=self.workspace, step=record.path)

    # --------------------------------------------------------------------------- records

    def key_of(self, path: str) -> str:
        """Return the idempotency key of a step: the same for all attempts, in all processes."""
        text = f"{self.session_id}/{path}".encode()
        return hashlib.sha256(text).hexdigest()[:32]

    def record(
        self, place: CallPlace, body: StepBody, spent: Amount, started: datetime, attempts: int = 1
    ) -> None:
        """Record how a step ended, once.

        Raises:
            OperationCancelled: It is recorded: this is a run that nobody waits for any more.
        """
        took = self.clock() - started
        with self.lock:
            if self.log.history.record(place.path) is not None:
                self.charge_late(place.path, spent)
                raise OperationCancelled
            self.log.record(
                place.path,
                place.call,
                outcome="failed" if body.codec == FAILED else "ok",
                codec=body.codec,
                body=body.data,
                spent=spent,
                started=started,
                took_us=max(took // timedelta(microseconds=1), 0),
                attempts=attempts,
            )
        self.write_if_due(spent)

    def note(self, place: CallPlace, body: StepBody = NOTHING, spent: Amount = _NO_AMOUNT) -> None:
        """Record a call that runs no function of the program."""
        self.record(place, body, spent, self.clock())

    def number_of_wait(self, place: CallPlace) -> int:
        """Return how many waits of this name came before, so that each gets a signal of its own."""
        name = name_in(place.path)
        with self.lock:
            if name not in self._waits:
                records = [one for one in self.log.history.records() if one.name == name]
                self._waits[name] = {one.path: number for number, one in enumerate(records)}
            waits = self._waits[name]
            return waits.setdefault(place.path, len(waits))

    def charge_late(self, path: str, amount: Amount) -> None:
        """Charge what a function spent after its step had ended for the caller."""
        self.log.charge(f"{path}/late", amount)

    # --------------------------------------------------------------------------- the end

    def finish(self, result: object, kind: object | None) -> None:
        """Record the program's result and complete the session."""
        if self.finished:
            return
        self.look()
        self.log.finish(*encode(result, kind, workspace=self.workspace, step="the program"))
        self.complete()

    def complete(self) -> None:
        """Complete a session whose program's result is recorded."""

        def completed(session: SessionContext) -> None:
            if session.state is SessionState.ACTIVE:  # a paused one is completed once it is resumed
                session.apply("complete", now=self.clock())

        self.finished = True
        self.write(change=completed)

    def result(self, kind: object | None) -> object:
        """Return the recorded result of the program; None if it has not finished."""
        finished = self.log.history.finished
        if finished is None:
            return None
        codec, number = finished
        body = self.log.body_at(number)
        return decode(codec, body, kind, workspace=self.workspace, step="the program")
