"""The log of a session's steps: written by the worker that leads it, read by anybody.

Each change is one entry, appended if the log is as this process read it. A worker that was
overtaken finds the other's lead in what was appended meanwhile, and records nothing more: that is
the fence, on files and in a database alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable
from datetime import datetime
from threading import RLock
from typing import TYPE_CHECKING, Final

from ...base.clock import Clock, utc_now
from ...base.identifiers import new_uuid4
from ...base.settings.spending import Amount, Limit
from ..domain.history_events import dollars
from ..errors import SessionNotFound, StreamMoved
from ..stream_port import NewEntry, StreamEntry, StreamMark
from .entries import (
    NOTHING,
    STREAM,
    Kind,
    StepRecord,
    Sums,
    decode_head,
    encode_head,
    microseconds,
    moment,
    name_in,
)
from .errors import BudgetReached, LeadLost, ProgramChanged
from .history import StepHistory
from .tail import included

if TYPE_CHECKING:
    from ..session_ports import SessionRepository

_TRIES: Final = 1000
"""How often an append that others were faster than is repeated."""
_SHOWN: Final = 3
"""How many calls before and after a changed one an error names."""
OWN: Final = ""
"""The scope of the program itself."""


class StepLog:
    """The log of one session. Instances may be shared between threads.

    Guarantees: when a method returns, what it recorded survives the death of the process and a
    power failure; when it raises, nothing was recorded. No two workers record under one lead at
    once, and nothing is spent beyond a budget by what was reserved: not by threads, nor by
    processes that share a lead.

    Args:
        store: Where the session is.
        session_id: The session.
        lead: The token of a lead that another process of this worker took; None until `take_lead`.
        clock: The time.
        token: Returns new random text.
    """

    def __init__(
        self,
        store: SessionRepository,
        session_id: str,
        *,
        lead: str | None = None,
        clock: Clock = utc_now,
        token: Callable[[], str] = new_uuid4,
    ) -> None:
        self.store = store
        self.session_id = session_id
        self.lead = lead
        self.clock = clock
        self.history = StepHistory(session_id)
        self._token = token
        self._mark = StreamMark()
        self._lock = RLock()
        self._account: tuple[Hashable, int] | None = None
        self.catch_up()

    def catch_up(self) -> None:
        """Read what was appended by others.

        Raises:
            StepsUnreadable: It is not in this program's format.
            ReadError: What is stored is damaged, or the store refused.
        """
        with self._lock:
            entries, mark, replaced = self.store.read_entries(
                self.session_id, STREAM, since=self._mark
            )
            if replaced:
                self.history = StepHistory(self.session_id)
            self.history.fold(entries)
            self._mark = mark

    def take_lead(self) -> None:
        """Become the worker that records; what an earlier one reserved is free again.

        The caller holds the run lock of the session.
        """
        with self._lock:
            self.lead = None
            token = self._token()
            worker = f"{os.uname().nodename}:{os.getpid()}"
            self._append(Kind.LEAD, (token, worker, self._now()))
            self.lead = token

    # ------------------------------------------------------------------------------- steps

    def record(
        self,
        path: str,
        index: int,
        *,
        outcome: str = "ok",
        codec: str,
        body: bytes,
        spent: Amount = NOTHING,
        started: datetime,
        took_us: int,
        attempts: int = 1,
    ) -> StepRecord:
        """Record how a step ended, with what it cost; what it reserved is given back.

        Args:
            path: The step.
            index: The number of the call in its scope.
            outcome: "ok", or "failed" if its exception is final.
            codec: The format of the body.
            body: Its result, or its exception.
            spent: What it cost.
            started: When its last attempt started.
            took_us: How long that attempt took, in microseconds.
            attempts: How often it was tried.

        Raises:
            LeadLost: Another worker leads the session by now.
            InvalidStateTransition: The session has ended.
            WriteError: The store refused.
        """
        at = microseconds(started)
        fields = (path, index, outcome, codec, *spent, at, took_us, attempts)
        with self._lock:
            self._append(Kind.STEP, fields, body, spent=spent, recorded=1)
            entry = self.history.entries[-1]
            number = self.history.sums.sequence
        return StepRecord(path, index, outcome, codec, spent, at, took_us, attempts, number, entry)

    def body(self, record: StepRecord) -> bytes:
        """Return the body of a recorded step."""
        return self.body_at(record.sequence)

    def body_at(self, number: int) -> bytes:
        """Return the body of an entry, given its number."""
        with self._lock:
            entry = self.history.entries[number - 1]
            if entry.position < 0:  # this process appended it
                self._mark = StreamMark()
                self.history = StepHistory(self.session_id)
                self.catch_up()
                entry = self.history.entries[number - 1]
            found = self.store.read_bodies(self.session_id, STREAM, [entry], mark=self._mark)
        return found[0]

    def attempt_failed(
        self, path: str, index: int, *, error: str, spent: Amount, started: datetime
    ) -> None:
        """Record an attempt whose exception is not final, with what it cost; as `record`."""
        fields = (path, index, error, *spent, microseconds(started))
        self._append(Kind.FAILED, fields, spent=spent)

    def timer(self, path: str, index: int, until: datetime) -> datetime:
        """Return until when a timer runs: what the first call said, which is recorded."""
        with self._lock:
            found = self.history.timer(path)
            if found is None:
                self._append(Kind.TIMER, (path, index, microseconds(until)))
                found = moment(microseconds(until))
            return found

    def version(self, path: str, index: int, newest: int) -> int:
        """Return the version of a part of the program: what the first call said is recorded.

        0 where the program went on without such a call: an older one did, and the call takes no
        number in its scope.
        """
        with self._lock:
            found = self.history.version(path)
            if found is None and self.history.called_at(path.rpartition("/")[0], index):
                return 0
            if found is None:
                self._append(Kind.VERSION, (path, index, newest))
                found = newest
            return found

    def finish(self, codec: str, body: bytes) -> None:
        """Record the result of the program; the session's state is the caller's."""
        self._append(Kind.FINISH, (codec, self._now()), body)

    def check_order(self, scope: str, index: int, path: str) -> None:
        """Raise if something else is recorded where a program calls a step.

        Raises:
            ProgramChanged: It is recorded at another place, or another call at this one.
        """
        with self._lock:
            record = self.history.record(path)
            if record is not None and record.call == index:
                return
            before = self.history.called_at(scope, index)
            if before in (None, path):
                if record is None:
                    return
                before = f"{name_in(path)} (number {record.call})"
            else:
                before = name_in(before)
            near = range(max(0, index - _SHOWN), index + _SHOWN + 1)
            found = [self.history.called_at(scope, one) for one in near]
            names = [name_in(one) for one in found if one is not None]
            now = [name_in(one) for one in found[: index - near.start] if one is not None]
        raise ProgramChanged(
            self.session_id,
            scope=scope,
            index=index,
            called=name_in(path),
            recorded=before,
            before=names,
            now=[*now, name_in(path)],
        )

    # ------------------------------------------------------------------------------- spending

    def reserve(
        self, holder: str, amount: Amount, *, limits: Iterable[tuple[str, Limit]] = ()
    ) -> None:
        """Reserve what a call may cost, before it is made; `record` or `charge` gives it back.

        Args:
            holder: The path of the step.
            amount: What the call may cost.
            limits: Limits besides the session's token budget, by the scope that they are for:
                `OWN` for the whole session, or the path of a step, for all of its parts.

        Raises:
            BudgetReached: It is more than what is left.
            LeadLost: Another worker leads the session by now.
        """
        bounds = tuple(limits)

        def check() -> None:
            history = self.history
            rest = self._tokens_allotted() - history.sums.tokens - history.held().tokens
            self._require(holder, amount, OWN, Limit(tokens=rest))
            for scope, limit in bounds:
                held = history.held_within(scope) if scope else history.held()
                spent = history.inside[scope] if scope else history.sums.spent
                used = held.plus(spent)
                tokens, micro_usd = limit
                left = Limit(
                    None if tokens is None else tokens - used.tokens,
                    None if micro_usd is None else micro_usd - used.micro_usd,
                )
                self._require(holder, amount, scope, left)

        self._append(Kind.RESERVE, (holder, *amount), check=check)

    def charge(self, holder: str, spent: Amount) -> None:
        """Charge what was spent outside of a step's record; what was reserved is given back."""
        self._append(Kind.CHARGE, (holder, *spent), spent=spent)

    def _require(self, holder: str, amount: Amount, scope: str, left: Limit) -> None:
        required = rest = ""
        if left.tokens is not None and amount.tokens > left.tokens:
            required, rest = f"{amount.tokens:,} tokens", f"{max(left.tokens, 0):,}"
        elif left.micro_usd is not None and amount.micro_usd > left.micro_usd:
            required, rest = dollars(amount.micro_usd), dollars(max(left.micro_usd, 0))
        if required:
            raise BudgetReached(
                self.session_id, holder=holder, required=required, left=rest, scope=scope
            )

    def _tokens_allotted(self) -> int:
        """Return the session's budget without what was charged to it outside of this log."""
        mark = self.store.change_mark(self.session_id)
        if self._account is None or mark is None or self._account[0] != mark:
            session = self.store.load(self.session_id)
            if session is None:
                raise SessionNotFound(self.session_id, path=self.store.where)
            budget = session.token_budget
            apart = budget.tokens_used - included(session).tokens
            self._account = (mark, budget.total_budget - apart)
        return self._account[1]

    # ------------------------------------------------------------------------------- appending

    def _now(self) -> int:
        return microseconds(self.clock())

    def _append(
        self,
        kind: Kind,
        fields: tuple[object, ...],
        body: bytes = b"",
        *,
        spent: Amount = NOTHING,
        recorded: int = 0,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Append one entry, after all that others appended, if this worker still leads."""
        with self._lock:
            for left in reversed(range(_TRIES)):
                if self.lead is not None and self.history.lead != self.lead:
                    raise LeadLost(self.session_id)
                check()
                head = _next_head(self.history.sums, kind, fields, spent, recorded)
                try:
                    mark = self.store.append_entries(
                        self.session_id, STREAM, [NewEntry(head, body)], expected=self._mark
                    )
                except StreamMoved:
                    if not left:
                        raise
                    self.catch_up()
                    continue
                self._mark = mark
                self.history.fold([StreamEntry(-1, len(body), 0, head)])
                return


def _next_head(
    sums: Sums, kind: Kind, fields: tuple[object, ...], spent: Amount, recorded: int
) -> bytes:
    after = Sums(
        sums.sequence + 1,
        sums.recorded + recorded,
        sums.tokens + spent.tokens,
        sums.micro_usd + spent.micro_usd,
    )
    return encode_head(kind, fields, after)


def append_apart(
    store: SessionRepository,
    session_id: str,
    kind: Kind,
    fields: tuple[object, ...],
    body: bytes = b"",
) -> int:
    """Append an entry that needs no lead, as a signal does; return its number.

    Raises:
        SessionNotFound: There is no such session.
        InvalidStateTransition: It has ended.
        WriteError: The store refused.
    """
    for left in reversed(range(_TRIES)):
        tail = store.read_last(session_id, STREAM, 1)
        sums = decode_head(session_id, tail.entries[-1].head).sums if tail.entries else Sums()
        entry = NewEntry(_next_head(sums, kind, fields, Amount(), 0), body)
        try:
            store.append_entries(session_id, STREAM, [entry], expected=tail.mark)
        except StreamMoved:
            if not left:
                raise
        else:
            return sums.sequence + 1
    raise AssertionError
