"""The port to what takes spans and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from typing import Self

    from .conventions import CounterType, Histogram, SpanType

Carrier = Mapping[str, str]
"""A span's context as W3C Trace Context spells it: `traceparent`, and `tracestate` if any."""
Value = str | int | float | bool
NO_CONTEXT: Final[Carrier] = {}


class Span:
    """What is traced while a `with` block runs; this very class does nothing.

    An exception that leaves the block is in the span by its type alone, and goes on.
    """

    @property
    def carrier(self) -> Carrier:
        """The span's context, by which others go on; empty where there is none."""
        return NO_CONTEXT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        return

    def set(self, attribute: str, value: Value | None) -> None:
        """Say more; None says nothing."""

    def fail(self, error: BaseException) -> None:
        """Say that the work failed, where no exception leaves the block."""

    def measure(self, histogram: Histogram, amount: float, more: Mapping[str, Value]) -> None:
        """Measure something, with the span's attributes and more as dimensions."""


class OpenSpan(Protocol):
    """A span that was begun, as what takes it has it. Whatever it raises does no harm."""

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
        """End it; it is not the current one any more."""
        ...


class Tracing(Protocol):
    """Takes spans and metrics. Whatever it raises does no harm."""

    def begin(
        self,
        span_type: SpanType,
        name: str,
        attributes: Mapping[str, Value | None],
        *,
        parent: Carrier,
        links: Iterable[Carrier],
    ) -> OpenSpan:
        """Begin a span and make it the current one.

        Args:
            span_type: Its kind.
            name: Its name.
            attributes: What is known of it now; None stands for what is not.
            parent: Its parent, where no span is current and the environment names none; may be
                empty.
            links: Spans that it has to do with.
        """
        ...

    def count(
        self, counter: CounterType, amount: int, attributes: Mapping[str, Value | None]
    ) -> None:
        """Add to a counter."""
        ...

    def carried(self) -> Carrier:
        """Return the context of the current span; empty where there is none."""
        ...
