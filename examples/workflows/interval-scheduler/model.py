"""The brute-force model of the interval scheduler: slow, obvious and independent of it.

Time is a set of single minutes. Whatever the component answers, the model answers by counting
minutes one at a time, so a test can compare the two on random input.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

Span = tuple[int, int]


def minutes(spans: Iterable[Span]) -> set[int]:
    """Return every minute that one of the spans covers."""
    return {minute for start, end in spans for minute in range(start, end)}


def runs(covered: set[int]) -> list[Span]:
    """Return the longest stretches of consecutive minutes, in order."""
    spans: list[Span] = []
    for minute in sorted(covered):
        if spans and spans[-1][1] == minute:
            spans[-1] = (spans[-1][0], minute + 1)
        else:
            spans.append((minute, minute + 1))
    return spans


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return what merging the spans has to give."""
    return runs(minutes(spans))


def free(busy: Iterable[Span], hours: Iterable[Span], minimum: int) -> list[Span]:
    """Return the slots that are free within the hours and long enough."""
    left = minutes(hours) - minutes(busy)
    return [span for span in runs(left) if span[1] - span[0] >= minimum]


def conflicts(wanted: Span, agenda: Iterable[Span]) -> list[Span]:
    """Return the entries of the agenda that share a minute with the wanted span."""
    taken = minutes([wanted])
    return sorted(span for span in agenda if taken & minutes([span]))


def within(wanted: Span, hours: Iterable[Span]) -> bool:
    """Tell whether all minutes of the wanted span are working time."""
    return minutes([wanted]) <= minutes(hours)


def random_spans(random: Random, *, most: int, low: int, high: int, longest: int) -> list[Span]:
    """Return up to `most` random spans, some of them of no length."""
    spans: list[Span] = []
    for _ in range(random.randint(0, most)):
        start = random.randint(low, high)
        spans.append((start, start + random.randint(0, longest)))
    return spans
