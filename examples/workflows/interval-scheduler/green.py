"""Phase `green`: write the plainest component that passes the tests.

Plain means: lists and loops that follow the words of the specification, with no thought for
speed. A copy is kept in `history/`, so that the next phase can compare itself with it.

Exit codes: 0 when all tests pass, 1 when one does not, 2 when the workspace is not what `red` left.
"""

from __future__ import annotations

import sys
from pathlib import Path

WORKSPACE = Path("/app")
sys.path.insert(0, str(WORKSPACE / "kit"))

import tdkit  # noqa: E402

PHASE = "green"

COMPONENT = '''\
"""An agenda of half-open intervals in working hours, written for clearness."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class SchedulerError(Exception):
    """Anything that the scheduler refuses."""


class InvalidIntervalError(SchedulerError):
    """An interval that is not a pair of whole numbers."""


class ReversedIntervalError(InvalidIntervalError):
    """An interval that ends before it starts."""


class EmptyIntervalError(InvalidIntervalError):
    """An interval of no length where some length is needed."""


class InvalidDurationError(SchedulerError):
    """A length that is not a positive whole number."""


class OutsideHoursError(SchedulerError):
    """A booking that is not within one stretch of working hours."""


class UnknownBookingError(SchedulerError):
    """A booking that is not in the agenda."""


class Interval(NamedTuple):
    """The time from `start` up to, but without, `end`."""

    start: int
    end: int


class BookingConflictError(SchedulerError):
    """A booking whose time others have; `conflicts` holds theirs."""

    def __init__(self, message: str, conflicts: list[Interval]) -> None:
        super().__init__(message)
        self.conflicts = conflicts


class Booking(NamedTuple):
    """A stretch of time that is taken."""

    booking_id: str
    start: int
    end: int


def _checked(item: Iterable[int]) -> Interval:
    bounds = tuple(item)
    if len(bounds) != 2 or any(type(bound) is not int for bound in bounds):
        raise InvalidIntervalError(f"not a pair of whole numbers: {bounds!r}")
    if bounds[1] < bounds[0]:
        raise ReversedIntervalError(f"ends before it starts: {bounds!r}")
    return Interval(*bounds)


def merge(intervals: Iterable[Iterable[int]]) -> list[Interval]:
    """Return the covered time as sorted, disjoint, non-touching intervals."""
    merged: list[Interval] = []
    for item in intervals:
        new = _checked(item)
        if new.start == new.end:
            continue
        apart = []
        for other in merged:
            if other.end < new.start or new.end < other.start:
                apart.append(other)
            else:
                new = Interval(min(new.start, other.start), max(new.end, other.end))
        merged = [*apart, new]
    return sorted(merged)


def free_slots(
    busy: Iterable[Iterable[int]], hours: Iterable[Iterable[int]], minimum: int
) -> list[Interval]:
    """Return the gaps of at least `minimum` minutes that `busy` leaves in `hours`."""
    if type(minimum) is not int or minimum < 1:
        raise InvalidDurationError(f"not a positive number of minutes: {minimum!r}")
    free = merge(hours)
    for taken in merge(busy):
        left = []
        for slot in free:
            if taken.end <= slot.start or slot.end <= taken.start:
                left.append(slot)
                continue
            if slot.start < taken.start:
                left.append(Interval(slot.start, taken.start))
            if taken.end < slot.end:
                left.append(Interval(taken.end, slot.end))
        free = left
    return [slot for slot in free if slot.end - slot.start >= minimum]


class Scheduler:
    """An agenda over fixed working hours."""

    def __init__(self, hours: Iterable[Iterable[int]]) -> None:
        self._hours = merge(hours)
        self._bookings: list[Booking] = []
        self._count = 0

    def book(self, start: int, end: int) -> Booking:
        """Take the time from `start` to `end`."""
        wanted = _checked((start, end))
        if wanted.start == wanted.end:
            raise EmptyIntervalError(f"no length: {wanted!r}")
        if not any(open_.start <= start and end <= open_.end for open_ in self._hours):
            raise OutsideHoursError(f"not within working hours: {wanted!r}")
        conflicts = [
            Interval(booking.start, booking.end)
            for booking in self._bookings
            if booking.start < end and start < booking.end
        ]
        if conflicts:
            raise BookingConflictError(f"time is taken: {wanted!r}", sorted(conflicts))
        self._count += 1
        booking = Booking(f"b{self._count}", start, end)
        self._bookings.append(booking)
        return booking

    def cancel(self, booking_id: str) -> Booking:
        """Give the time of a booking back."""
        for booking in self._bookings:
            if booking.booking_id == booking_id:
                self._bookings.remove(booking)
                return booking
        raise UnknownBookingError(f"no such booking: {booking_id!r}")

    def bookings(self) -> list[Booking]:
        """Return all bookings by start time."""
        return sorted(self._bookings, key=lambda booking: booking.start)

    def free_slots(self, minimum: int) -> list[Interval]:
        """Return the free slots of the agenda."""
        busy = [(booking.start, booking.end) for booking in self._bookings]
        return free_slots(busy, self._hours, minimum)
'''


def main() -> int:
    """Write the component, run the tests and report."""
    try:
        tdkit.require_unchanged_tests()
        tdkit.write_text(tdkit.GREEN_COPY, COMPONENT)
        tdkit.write_text(tdkit.COMPONENT_FILE, COMPONENT)
        tdkit.say(PHASE, f"wrote {tdkit.COMPONENT_FILE}: {len(COMPONENT.splitlines())} lines")
        report = tdkit.run_tests(PHASE)
    except tdkit.PhaseError as error:
        tdkit.say(PHASE, f"stopped: {error}")
        return 2
    report["implementation"] = {
        "lines": len(COMPONENT.splitlines()),
        "sha256": tdkit.fingerprint(tdkit.GREEN_COPY),
    }
    path = tdkit.write_report(PHASE, report)
    counts = report["counts"]
    tdkit.say(
        PHASE,
        f"ran {counts['collected']} tests in {report['duration_s']:.2f} s: "
        f"{counts['passed']} pass, {counts['collected'] - counts['passed']} do not",
    )
    tdkit.say_failures(PHASE, report)
    tdkit.say(PHASE, f"report in {path}")
    return 0 if tdkit.all_passed(report) else 1


if __name__ == "__main__":
    sys.exit(main())
