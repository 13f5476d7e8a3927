"""Timing candidates against each other on a machine that is never quiet.

All candidates of a comparison run in the same rounds, in a random order in each, so that whatever
else the machine does hits all of them alike. The figures are medians and 99th percentiles; what is
judged are ratios of medians. A candidate that takes long runs in fewer of the rounds, spread
evenly.
"""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

LESS_OFTEN_S = 0.25
"""A candidate that takes longer than this once does not run in every round."""


@dataclass
class Timed:
    """How long a candidate took, in seconds, each time."""

    samples: list[float] = field(default_factory=list)

    def percentile(self, percent: float) -> float:
        """Return the smallest sample that `percent` % of the samples don't exceed, in ms."""
        ordered = sorted(self.samples)
        return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] * 1e3


@dataclass
class Candidate:
    """One thing to time.

    Attributes:
        run: What is timed.
        prepare: What comes before each time, untimed.
    """

    run: Callable[[], object]
    prepare: Callable[[], object] = lambda: None


def compare(
    candidates: Mapping[str, Candidate], *, rounds: int, budget_s: float, seed: int = 1
) -> dict[str, Timed]:
    """Time candidates in the same rounds.

    Args:
        candidates: By name.
        rounds: How many.
        budget_s: About how long any one slow candidate may take in all; each runs at least once.
        seed: Of the order within the rounds.
    """
    order = random.Random(seed)
    results = {name: Timed() for name in candidates}
    times: dict[str, int] = {}
    gc.collect()
    gc.freeze()  # the sessions that the candidates hold are not garbage of any of them
    try:
        for name, candidate in candidates.items():  # the first time warms up, unless it is slow
            took = _time(candidate)
            slow = took > LESS_OFTEN_S
            times[name] = max(1, min(rounds, int(budget_s / took))) if slow else rounds
            if slow:
                results[name].samples.append(took)
                times[name] -= 1
        names = list(candidates)
        for one in range(rounds):
            order.shuffle(names)
            for name in names:
                if (one + 1) * times[name] // rounds > one * times[name] // rounds:
                    results[name].samples.append(_time(candidates[name]))
                    if results[name].samples[-1] > LESS_OFTEN_S:
                        gc.collect()
    finally:
        gc.unfreeze()
    return results


def _time(candidate: Candidate) -> float:
    candidate.prepare()
    began = time.perf_counter()
    result = candidate.run()
    took = time.perf_counter() - began
    del result  # freed outside of the time that is measured
    return took


@dataclass
class Row:
    """One line of the report.

    Attributes:
        group: "save", "load", …
        size: Entries of the history, or sessions.
        what: The candidate.
        times: How often it was timed.
        p50_ms: Half of the times took no longer than this.
        p99_ms: 99 % of the times took no longer than this.
        reference: What `ratio` is a ratio to, or "".
        ratio: Median by the reference's median.
        ratio_p99: 99th percentile by the reference's.
        target: The largest ratio that meets the target, or None where there is none.
        note: What else to know.
    """

    group: str
    size: int
    what: str
    times: int
    p50_ms: float
    p99_ms: float
    reference: str = ""
    ratio: float | None = None
    ratio_p99: float | None = None
    target: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.target is None or self.ratio is None:
            return None
        return self.ratio <= self.target

    def as_fields(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return {**asdict(self), "met": self.met}


def row(
    group: str,
    size: int,
    what: str,
    timed: Timed,
    *,
    reference: tuple[str, Timed] | None = None,
    target: float | None = None,
    scale: float = 1.0,
    note: str = "",
) -> Row:
    """Make a row; `scale` multiplies the times (of a sample that stands for more)."""
    made = Row(
        group,
        size,
        what,
        len(timed.samples),
        timed.percentile(50) * scale,
        timed.percentile(99) * scale,
        target=target,
        note=note,
    )
    if reference is not None:
        name, other = reference
        made.reference = name
        made.ratio = made.p50_ms / other.percentile(50)
        made.ratio_p99 = made.p99_ms / other.percentile(99)
    return made


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(rows: list[Row]) -> str:
    """Write rows as a Markdown table."""
    head = ["", "size", "what", "n", "p50 ms", "p99 ms", "against", "p50 ratio", "p99 ratio"]
    head += ["target", ""]
    lines = [head, ["---", "--:", "---", "--:", "--:", "--:", "---", "--:", "--:", "--:", "---"]]
    for one in rows:
        verdict = {True: "met", False: "MISSED", None: ""}[one.met]
        lines.append(
            [
                one.group,
                f"{one.size:,}",
                one.what + (f" ({one.note})" if one.note else ""),
                str(one.times),
                _number(one.p50_ms),
                _number(one.p99_ms),
                one.reference,
                "" if one.ratio is None else _number(one.ratio),
                "" if one.ratio_p99 is None else _number(one.ratio_p99),
                "" if one.target is None else f"≤ {one.target:.3g}",
                verdict,
            ]
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )
