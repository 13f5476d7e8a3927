"""Phase `refactor`: give the component a better structure under unchanged tests.

Sorted lists and binary search take the place of loops over everything. The tests have to be the
ones that `red` wrote, byte for byte, and all of them have to pass again. Then both versions answer
the same larger requests: their answers must be equal, and their times are compared.

Exit codes: 0 when all tests pass and both versions agree, 1 when not, 2 when the workspace is not
what the earlier phases left.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

WORKSPACE = Path("/app")
sys.path.insert(0, str(WORKSPACE / "kit"))

import tdkit  # noqa: E402

PHASE = "refactor"
SEED = 4711
SIZE = 800
REPEATS = 3

COMPONENT = '''\
"""An agenda of half-open intervals in working hours.

Bookings are kept sorted. As no two of them share time, their starts and their ends are sorted
alike, so that a binary search finds the few that matter for a request.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
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

    @classmethod
    def checked(cls, item: Iterable[int]) -> Interval:
        """Return an interval, or raise the error that says what is wrong with it."""
        bounds = tuple(item)
        if len(bounds) != 2 or type(bounds[0]) is not int or type(bounds[1]) is not int:
            raise InvalidIntervalError(f"not a pair of whole numbers: {bounds!r}")
        if bounds[1] < bounds[0]:
            raise ReversedIntervalError(f"ends before it starts: {bounds!r}")
        return cls(*bounds)


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

    @property
    def interval(self) -> Interval:
        """The time of the booking."""
        return Interval(self.start, self.end)


def merge(intervals: Iterable[Iterable[int]]) -> list[Interval]:
    """Return the covered time as sorted, disjoint, non-touching intervals."""
    return list(_joined(sorted(map(Interval.checked, intervals))))


def _joined(ordered: Iterable[Interval]) -> Iterator[Interval]:
    """Join sorted intervals in one pass."""
    current: Interval | None = None
    for item in ordered:
        if item.start == item.end:
            continue
        if current is None:
            current = item
        elif item.start > current.end:
            yield current
            current = item
        elif item.end > current.end:
            current = Interval(current.start, item.end)
    if current is not None:
        yield current


def free_slots(
    busy: Iterable[Iterable[int]], hours: Iterable[Iterable[int]], minimum: int
) -> list[Interval]:
    """Return the gaps of at least `minimum` minutes that `busy` leaves in `hours`."""
    return _long_gaps(merge(busy), merge(hours), minimum)


def _long_gaps(
    blocks: Sequence[Interval], windows: Iterable[Interval], minimum: int
) -> list[Interval]:
    if type(minimum) is not int or minimum < 1:
        raise InvalidDurationError(f"not a positive number of minutes: {minimum!r}")
    return [gap for gap in _gaps(blocks, windows) if gap.end - gap.start >= minimum]


def _gaps(blocks: Sequence[Interval], windows: Iterable[Interval]) -> Iterator[Interval]:
    """Walk through sorted blocks and windows together; a block may reach into two windows."""
    index = 0
    for window in windows:
        cursor = window.start
        while index < len(blocks) and blocks[index].start < window.end:
            block = blocks[index]
            if cursor < block.start:
                yield Interval(cursor, block.start)
            cursor = max(cursor, block.end)
            if block.end > window.end:
                break
            index += 1
        if cursor < window.end:
            yield Interval(cursor, window.end)


class Scheduler:
    """An agenda over fixed working hours."""

    def __init__(self, hours: Iterable[Iterable[int]]) -> None:
        self._hours = merge(hours)
        self._openings = [window.start for window in self._hours]
        self._agenda: list[Booking] = []
        self._starts: list[int] = []
        self._by_id: dict[str, Booking] = {}
        self._count = 0

    def book(self, start: int, end: int) -> Booking:
        """Take the time from `start` to `end`."""
        wanted = Interval.checked((start, end))
        if wanted.start == wanted.end:
            raise EmptyIntervalError(f"no length: {wanted!r}")
        if not self._is_open(wanted):
            raise OutsideHoursError(f"not within working hours: {wanted!r}")
        position = bisect_right(self._starts, start)
        conflicts = self._conflicts(wanted, position)
        if conflicts:
            raise BookingConflictError(f"time is taken: {wanted!r}", conflicts)
        self._count += 1
        booking = Booking(f"b{self._count}", start, end)
        self._agenda.insert(position, booking)
        self._starts.insert(position, start)
        self._by_id[booking.booking_id] = booking
        return booking

    def cancel(self, booking_id: str) -> Booking:
        """Give the time of a booking back."""
        try:
            booking = self._by_id.pop(booking_id)
        except KeyError:
            raise UnknownBookingError(f"no such booking: {booking_id!r}") from None
        position = bisect_left(self._starts, booking.start)
        del self._agenda[position], self._starts[position]
        return booking

    def bookings(self) -> list[Booking]:
        """Return all bookings by start time."""
        return list(self._agenda)

    def free_slots(self, minimum: int) -> list[Interval]:
        """Return the free slots of the agenda."""
        busy = list(_joined(booking.interval for booking in self._agenda))
        return _long_gaps(busy, self._hours, minimum)

    def _is_open(self, wanted: Interval) -> bool:
        position = bisect_right(self._openings, wanted.start) - 1
        return position >= 0 and wanted.end <= self._hours[position].end

    def _conflicts(self, wanted: Interval, position: int) -> list[Interval]:
        """Return what shares time with `wanted`, which would be put at `position`."""
        first = position
        if first > 0 and self._agenda[first - 1].end > wanted.start:
            first -= 1
        last = bisect_left(self._starts, wanted.end)
        return [booking.interval for booking in self._agenda[first:last]]
'''


# --- comparison with the green version -----------------------------------------------------

Job = Callable[[ModuleType], Any]


def merge_job() -> Job:
    """Return a job that merges many intervals in random order."""
    random = Random(SEED)
    spans = [(start, start + random.randint(0, 9)) for start in range(0, SIZE * 12, 12)]
    random.shuffle(spans)
    return lambda component: [tuple(span) for span in component.merge(spans)]


def slots_job() -> Job:
    """Return a job that looks for slots among many busy intervals on many days."""
    random = Random(SEED + 1)
    hours = [(day * 1440 + 540, day * 1440 + 1020) for day in range(SIZE // 16)]
    busy = [(start, start + random.randint(5, 70)) for start in range(0, SIZE * 90, 90)]
    return lambda component: [tuple(span) for span in component.free_slots(busy, hours, 25)]


def agenda_job() -> Job:
    """Return a job that books in random order, cancels every third booking and books again."""
    random = Random(SEED + 2)
    starts = random.sample(range(0, SIZE * 20, 10), SIZE)

    def job(component: ModuleType) -> list[tuple[int, int]]:
        scheduler = component.Scheduler([(0, SIZE * 20)])
        taken = [scheduler.book(start, start + 10).booking_id for start in starts]
        for booking_id in taken[::3]:
            scheduler.cancel(booking_id)
        for start in starts:
            try:
                scheduler.book(start + 2, start + 8)
            except component.BookingConflictError:
                continue
        return [(booking.start, booking.end) for booking in scheduler.bookings()]

    return job


JOBS: dict[str, Callable[[], Job]] = {
    "merge": merge_job,
    "free_slots": slots_job,
    "book and cancel": agenda_job,
}


def timed(job: Job, component: ModuleType) -> tuple[float, Any]:
    """Return the best time of several runs, and the answer."""
    best, answer = float("inf"), None
    for _ in range(REPEATS):
        started = time.perf_counter()
        answer = job(component)
        best = min(best, time.perf_counter() - started)
    return best, answer


def compare(before: ModuleType, after: ModuleType) -> list[dict[str, Any]]:
    """Return the times of both versions for each job.

    Raises:
        ValueError: The two answer differently.
    """
    rows = []
    for name, make in JOBS.items():
        job = make()
        green_s, green_answer = timed(job, before)
        refactored_s, refactored_answer = timed(job, after)
        if green_answer != refactored_answer:
            raise ValueError(f"both versions answer differently: {name}")
        rows.append(
            {
                "operation": name,
                "size": SIZE,
                "green_s": round(green_s, 6),
                "refactor_s": round(refactored_s, 6),
                "ratio": round(green_s / refactored_s, 2),
            }
        )
    return rows


def main() -> int:
    """Rewrite the component, run the unchanged tests, compare and report."""
    try:
        tdkit.require_unchanged_tests()
        tdkit.say(
            PHASE,
            f"the {len(tdkit.PROTECTED)} files of specification and tests are as red left them",
        )
        if (
            tdkit.fingerprint(tdkit.GREEN_COPY)
            != tdkit.read_report("green")["implementation"]["sha256"]
        ):
            raise tdkit.PhaseError(f"{tdkit.GREEN_COPY} is not what green wrote")
        tdkit.write_text(tdkit.COMPONENT_FILE, COMPONENT)
        tdkit.say(PHASE, f"rewrote {tdkit.COMPONENT_FILE}: {len(COMPONENT.splitlines())} lines")
        report = tdkit.run_tests(PHASE)
    except tdkit.PhaseError as error:
        tdkit.say(PHASE, f"stopped: {error}")
        return 2
    counts = report["counts"]
    tdkit.say(
        PHASE,
        f"ran {counts['collected']} tests in {report['duration_s']:.2f} s: "
        f"{counts['passed']} pass, {counts['collected'] - counts['passed']} do not",
    )
    report["implementation"] = {
        "lines": len(COMPONENT.splitlines()),
        "sha256": tdkit.fingerprint(tdkit.COMPONENT_FILE),
    }
    report["speed"] = []
    good = tdkit.all_passed(report)
    if good:
        try:
            report["speed"] = compare(
                tdkit.load_module("scheduler_green", tdkit.GREEN_COPY),
                tdkit.load_module("scheduler_refactored", tdkit.COMPONENT_FILE),
            )
        except ValueError as error:
            good = False
            tdkit.say(PHASE, f"stopped: {error}")
    for row in report["speed"]:
        tdkit.say(
            PHASE,
            f"{row['operation']}, {row['size']} intervals: {row['green_s'] * 1000:.1f} ms before, "
            f"{row['refactor_s'] * 1000:.1f} ms now, {row['ratio']:.0f} times as fast",
        )
    tdkit.say_failures(PHASE, report)
    path = tdkit.write_report(PHASE, report)
    tdkit.say(PHASE, f"report in {path}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
