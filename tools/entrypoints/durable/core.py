"""A led session and its steps: what the synchronous and the asynchronous face share."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...base.settings.spending import Amount, Limit
from ...harness.errors import HarnessError, NoActiveSession, SessionNotFound
from ...harness.session_domain import SessionContext, SessionState
from ...harness.steps.codec import JSON, check_kind, decode, encode
from ...harness.steps.entries import StepRecord, name_in
from ...harness.steps.errors import (
    LeadLost,
    ResultNotKept,
    SessionFinished,
    StepFailed,
    StepTimeout,
)
from ...harness.steps.program_sessions import checkpoint
from ...harness.steps.step_log import OWN, StepLog
from ...harness.steps.tail import included
from .flows import Flow, Io, Pause, Run, bound
from .options import SessionTerms, StepOptions
from .scopes import CallPlace, CallScope, Frame, StepAccount, running_frame
from .usage import usage_of

if TYPE_CHECKING:
    from pathlib import Path

    from ...harness.session_manager import SessionManager
    from ...harness.session_ports import LocalSessions
    from .limits import PersonLimits

_FAILED: Final = "error"
_CHECKPOINT_EVERY: Final = timedelta(seconds=1)
_REASON_CHARS: Final = 500
_NULL: Final = b"null"
_NOTHING: Final = Amount()


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


class Attempt(NamedTuple):
    """One attempt at a step.

    Attributes:
        place: The step.
        frame: The run of its function.
        number: Which attempt, from 1.
        started: When it started.
    """

    place: CallPlace
    frame: Frame
    number: int
    started: datetime


class SessionCore:
    """A session that this process leads, or that has finished. Usable from any thread.

    Attributes:
        store: Where it is.
        log: Its log.
        terms: On what terms it is led.
        root: The calls of the program itself.
        session: The session as it was last read.
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
        self._budget = Limit(None, terms.wanted.budget.limit.micro_usd)
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

    @property
    def workspace(self) -> Path:
        """Where its workspace is, or would be."""
        return self.store.workspace_path(self.session_id)

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
        usd = self._budget.micro_usd
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

    def _write_if_due(self, spent: Amount) -> None:
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
            yield self._manager

    # --------------------------------------------------------------------------- identity

    def scope(self) -> CallScope:
        """Return the scope of a call that is made now."""
        frame = running_frame(self)
        return self.root if frame is None else frame.scope

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

    # --------------------------------------------------------------------------- steps

    def step(
        self,
        place: CallPlace,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        options: StepOptions,
    ) -> Flow[Any]:
        """Return the result of a step: the recorded one, or that of a run."""
        record = self.recorded(place)
        if record is not None:
            return (yield from self.replayed(record, options.kind))
        check_kind(options.kind, step=place.path)
        outer = running_frame(self)
        names = (self.root if outer is None else outer.scope).names
        names |= {name_in(place.path)}
        for number in count(1):
            scope = CallScope(place.path, names)
            frame = Frame(
                self,
                place.path,
                scope,
                StepAccount(),
                self.key_of(place.path),
                options.budget,
                outer,
            )
            yield Io(self.look)
            yield Io(partial(self.reserve, frame, options))
            attempt = Attempt(place, frame, number, self.clock())
            work = bound(function, args, frame.key)
            try:
                value = yield Run(work, frame, options.timeout_s, self.session_id)
            except GeneratorExit:
                raise
            except BaseException as error:
                yield Io(partial(self._record_failure, attempt, error, options))
                if not self._again(attempt, error, options):
                    raise
                yield Pause(options.retry.wait_after(number))
            else:
                return (yield Io(partial(self._record_result, attempt, value, options)))
        raise AssertionError

    def key_of(self, path: str) -> str:
        """Return the idempotency key of a step: the same for all attempts, in all processes."""
        text = f"{self.session_id}/{path}".encode()
        return hashlib.sha256(text).hexdigest()[:32]

    def reserve(self, frame: Frame, options: StepOptions) -> None:
        """Reserve what a step may cost; one that names no cost is refused once all is overspent."""
        bounds = [] if self._budget == Limit() else [(OWN, self._budget)]
        within: Frame | None = frame
        while within is not None:
            if within.owner is self and within.budget is not None:
                bounds.append((within.path, within.budget))
            within = within.outer
        amount = Amount() if options.spend is None else options.spend
        if options.spend is not None or self._is_overspent(bounds):
            held = self.log.history.held()
            self.terms.limits.require(frame.path, self.spent_by_root(), held, amount)
            self.log.reserve(frame.path, amount, limits=bounds)

    def _is_overspent(self, bounds: Iterable[tuple[str, Limit]]) -> bool:
        inside = self.log.history.inside
        left = [*self.left()]
        for path, limit in bounds:
            if path != OWN:
                used = inside.get(path, Amount())
                pairs = zip(limit, used, strict=True)
                left += [None if most is None else most - one for most, one in pairs]
        return any(one is not None and one < 0 for one in left)

    def _record_result(self, attempt: Attempt, value: object, options: StepOptions) -> object:
        """Record a result and return it as it is read back, so that no run differs from another."""
        path, kind = attempt.place.path, options.kind
        spent = attempt.frame.account.close()
        if spent is None:
            usage = usage_of(value)
            spent = Amount() if usage is None else usage.amount
        try:
            codec, body = encode(value, kind, workspace=self.workspace, step=path)
            result = decode(codec, body, kind, workspace=self.workspace, step=path)
        except ResultNotKept as error:
            raise self._failed_for_good(attempt, error, spent) from error
        self._record(attempt, codec, body, spent)
        return result

    def _record_failure(self, attempt: Attempt, error: BaseException, options: StepOptions) -> None:
        """Record a failed attempt with its cost; raise if that is final."""
        spent = attempt.frame.account.close() or Amount()
        ours = _is_ours(error)
        if isinstance(error, LeadLost):
            return
        if not ours and isinstance(error, options.final):
            raise self._failed_for_good(attempt, error, spent) from error
        path = attempt.place.path
        if not ours or spent != Amount() or path in self.log.history.reserved:
            name, reason = described(error)
            text = f"{name}: {reason}"
            self.log.attempt_failed(
                path, attempt.place.call, error=text, spent=spent, started=attempt.started
            )
            self._write_if_due(spent)

    def _failed_for_good(self, attempt: Attempt, error: BaseException, spent: Amount) -> StepFailed:
        name, reason = described(error)
        body = json.dumps([name, reason]).encode()
        self._record(attempt, _FAILED, body, spent, outcome="failed")
        path = attempt.place.path
        return StepFailed(self.session_id, path=path, error_type=name, reason=reason)

    def _record(
        self, attempt: Attempt, codec: str, body: bytes, spent: Amount, outcome: str = "ok"
    ) -> None:
        took = self.clock() - attempt.started
        self.log.record(
            attempt.place.path,
            attempt.place.call,
            outcome=outcome,
            codec=codec,
            body=body,
            spent=spent,
            started=attempt.started,
            took_us=max(took // timedelta(microseconds=1), 0),
            attempts=attempt.number,
        )
        self._write_if_due(spent)

    def _again(self, attempt: Attempt, error: BaseException, options: StepOptions) -> bool:
        retry = options.retry
        return (
            not _is_ours(error)
            and attempt.number < retry.attempts
            and isinstance(error, Exception)
            and isinstance(error, retry.on)
        )

    def note(
        self,
        place: CallPlace,
        *,
        body: bytes = _NULL,
        spent: Amount = _NOTHING,
        failed: bool = False,
    ) -> None:
        """Record a call that runs no function of the program."""
        self.log.record(
            place.path,
            place.call,
            outcome="failed" if failed else "ok",
            codec=_FAILED if failed else JSON,
            body=body,
            spent=spent,
            started=self.clock(),
            took_us=0,
        )
        self._write_if_due(spent)

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


def _is_ours(error: BaseException) -> bool:
    """Return whether an exception is about the session itself: neither retried nor recorded."""
    return isinstance(error, HarnessError) and not isinstance(error, StepTimeout)


def described(error: BaseException) -> tuple[str, str]:
    """Return the qualified name of an exception's class, and its text."""
    kind = type(error)
    place = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    text = str(error)[:_REASON_CHARS].encode("utf-8", "backslashreplace").decode()
    return f"{place}{kind.__qualname__}", text
