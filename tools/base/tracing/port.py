"""The port to a recipient of spans and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from .conventions import CounterType, Histogram, SpanType

Carrier = Mapping[str, str]
"""A span's context as W3C Trace Context spells it: `traceparent`, and `tracestate` if any."""
Value = str | int | float | bool


class OpenSpan(Protocol):
    """A started span of a recipient. Its exceptions do no harm."""

    def set(self, attribute: str, value: Value) -> None:
        """Set an attribute."""
        ...

    def fail(self, error: BaseException) -> None:
        """Mark it as failed."""
        ...

    def measure(self, histogram: Histogram, amount: float, more: Mapping[str, Value]) -> None:
        """Record a measurement beside it."""
        ...

    def carrier(self) -> Carrier:
        """Return its context."""
        ...

    def end(self, error: BaseException | None) -> None:
        """End it; it is no longer the current span."""
        ...


class Tracing(Protocol):
    """Receives spans and metrics. Its exceptions do no harm."""

    def begin(
        self,
        span_type: SpanType,
        name: str,
        attributes: Mapping[str, Value | None],
        *,
        parent: Carrier,
        links: Iterable[Carrier],
    ) -> OpenSpan:
        """Start a span and make it the current one.

        Args:
            span_type: Its kind.
            name: Its name.
            attributes: The attributes known now; None means unknown.
            parent: Its parent, where no span is current and the environment names none; may be
                empty.
            links: Related spans.
        """
        ...

    def count(
        self, counter: CounterType, amount: int, attributes: Mapping[str, Value | None]
    ) -> None:
        """Add to a counter."""
        ...

    def carried(self) -> Carrier:
        """Return the context of the current span; empty without a span."""
        ...
