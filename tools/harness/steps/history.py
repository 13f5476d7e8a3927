"""What a log of steps says, folded entry by entry; pure.

A recorded step costs a look at its path alone: of a log of 100,000 steps, only those that the
program comes to again are decoded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from ...base.settings.spending import Amount
from ..stream_port import StreamEntry
from .entries import (
    Kind,
    ReadHead,
    StepRecord,
    Sums,
    call_in,
    decode_head,
    decode_record,
    moment,
)
from .errors import StepsUnreadable

_SLASH: Final = ord("/")
"""As a number: bytes are searched for one much quicker than for bytes."""


class StepHistory:
    """The steps, timers, signals and reservations of a session, as far as its log was read.

    Attributes:
        session_id: The session.
        entries: All entries, in order.
        sums: The sums after the last one.
        lead: The token of the worker that leads the session; None if none ever did.
        leads: How many workers led it.
        finished: The codec and the number of the entry with the program's result; None without one.
        reserved: What is reserved, by holder.
        inside: What was spent by the parts of a step, by its path; also by those that no longer
            count.
        signals: The numbers of the entries with signals, by name, oldest first.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.entries: list[StreamEntry] = []
        self.sums = Sums()
        self.lead: str | None = None
        self.leads = 0
        self.finished: tuple[str, int] | None = None
        self.reserved: dict[str, Amount] = {}
        self.inside: defaultdict[str, Amount] = defaultdict(Amount)
        self.signals: defaultdict[str, list[int]] = defaultdict(list)
        self._steps: dict[bytes, int] = {}
        self._marks: dict[tuple[str, str], tuple[int, int, int]] = {}
        self._called: dict[bytes, bytes] | None = None

    def fold(self, entries: Sequence[StreamEntry]) -> None:
        """Add entries that follow those already read.

        Raises:
            StepsUnreadable: One is not in this program's format.
        """
        number = len(self.entries)
        self.entries += entries
        for _, _, _, head in entries:
            number += 1
            parts = head.split(b'"', 4)  # the quickest look; what is looked up is decoded
            if len(parts) == 5 and parts[1] == b"step":
                path = parts[3]
                self._steps[path] = number
                if self._called is not None:
                    self._called[call_in(head, path)] = path
                if self.reserved or _SLASH in path:
                    self._charged(self._decoded(number))
            else:
                self._other(decode_head(self.session_id, head), number)
        if entries:
            self.sums = decode_head(self.session_id, entries[-1].head).sums
            if self.sums.sequence != number:
                raise StepsUnreadable(
                    self.session_id, reason=f"entry {number} says that it is {self.sums.sequence}"
                )

    def _charged(self, record: StepRecord) -> None:
        """Give back what a recorded step reserved, and charge the steps that it is a part of."""
        self.reserved.pop(record.path, None)
        self._spent_within(record.path, record.spent)

    def _spent_within(self, path: str, spent: Amount) -> None:
        while path := path.rpartition("/")[0]:
            self.inside[path] = self.inside[path].plus(spent)

    def _other(self, read: ReadHead, number: int) -> None:
        fields = read.fields
        match read.kind:
            case Kind.FAILED:
                self.reserved.pop(fields[0], None)
                self._spent_within(f"{fields[0]}/", Amount(fields[3], fields[4]))
            case Kind.TIMER | Kind.VERSION:
                self._marks[read.kind, fields[0]] = (fields[1], fields[2], number)
                self._called = None
            case Kind.RESERVE:
                self.reserved[fields[0]] = Amount(fields[1], fields[2])
            case Kind.CHARGE:
                self.reserved.pop(fields[0], None)
                self._spent_within(fields[0], Amount(fields[1], fields[2]))
            case Kind.SIGNAL:
                self.signals[fields[0]].append(number)
            case Kind.LEAD:
                self.lead, self.leads = fields[0], self.leads + 1
                self.reserved.clear()  # nothing that an earlier worker reserved is called any more
            case Kind.FINISH:
                self.finished = (fields[0], number)
            case Kind.REWIND:
                self._go_back(fields[0])

    def _go_back(self, sequence: int) -> None:
        """Forget the steps after an entry; what they cost stays spent, and signals stay sent."""
        self._steps = {path: one for path, one in self._steps.items() if one <= sequence}
        self._marks = {key: one for key, one in self._marks.items() if one[2] <= sequence}
        self._called = None
        if self.finished is not None and self.finished[1] > sequence:
            self.finished = None

    # ------------------------------------------------------------------------------- looking up

    def record(self, path: str) -> StepRecord | None:
        """Return what is recorded of a step, or None.

        Raises:
            StepsUnreadable: It is not in this program's format.
        """
        number = self._steps.get(path.encode())
        return None if number is None else self._decoded(number)

    def records(self) -> Iterator[StepRecord]:
        """Yield the recorded steps, in the order in which they were recorded.

        Raises:
            StepsUnreadable: One is not in this program's format.
        """
        return map(self._decoded, sorted(self._steps.values()))

    def __len__(self) -> int:
        return len(self._steps)

    def _decoded(self, number: int) -> StepRecord:
        return decode_record(self.session_id, self.entries[number - 1])

    def timer(self, path: str) -> datetime | None:
        """Return until when a timer runs; None if it was not started."""
        found = self._marks.get((Kind.TIMER, path))
        return None if found is None else moment(found[1])

    def version(self, path: str) -> int | None:
        """Return the recorded version; None if there is none."""
        found = self._marks.get((Kind.VERSION, path))
        return None if found is None else found[1]

    def held(self) -> Amount:
        """Return everything that is reserved."""
        return _sum(self.reserved.values())

    def held_within(self, scope: str) -> Amount:
        """Return what the parts of a step have reserved."""
        return _sum(one for path, one in self.reserved.items() if path.startswith(f"{scope}/"))

    def called_at(self, scope: str, index: int) -> str | None:
        """Return the path of the call that is recorded under a number in a scope, or None.

        The first question costs a look at every recorded step.
        """
        if self._called is None:
            entries = self.entries
            self._called = {
                call_in(entries[number - 1].head, path): path
                for path, number in self._steps.items()
            }
            for (_, mark), (call, _, _) in self._marks.items():
                self._called[f"{mark.rpartition('/')[0]},{call}".encode()] = mark.encode()
        found = self._called.get(f"{scope},{index}".encode())
        return None if found is None else found.decode()


def _sum(amounts: Iterable[Amount]) -> Amount:
    total = Amount()
    for one in amounts:
        total = total.plus(one)
    return total
