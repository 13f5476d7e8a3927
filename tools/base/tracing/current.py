"""The current recipient of spans and metrics, and the one way in which the library passes them on.

By default that is OpenTelemetry, by its API alone: as soon as the program has loaded it and set a
provider, without a call to us. A module that was never loaded has no configuration, so until then a
span costs one look-up in `sys.modules`, and all spans are one shared object.

The recipient is found here, like the log, and not passed through every constructor, because
OpenTelemetry itself does so: the current span is bound to the context of the call anyway. `using`
sets another one, for tests and measurements.

Tracing never changes the work: its exceptions are logged, once each kind, and the work goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

from ..event_log import get_logger

if TYPE_CHECKING:
    from typing import Self

    from .conventions import Carrier, CounterType, Histogram, OpenSpan, SpanType, Tracing, Value


_API: Final = ("opentelemetry.trace", "opentelemetry.metrics")
_NOTHING: Final[Mapping[str, str | int | float | bool | None]] = {}
_NO_CONTEXT: Final[Mapping[str, str]] = {}
_log = get_logger("agentforge.telemetry")


def traced(
    span_type: SpanType,
    attributes: Mapping[str, Value | None] = _NOTHING,
    *,
    detail: str | None = None,
    parent: Carrier | Callable[[], Carrier] = _NO_CONTEXT,
    links: Iterable[Carrier] = (),
) -> Span:
    """Return a span for a `with` block; without a recipient, one that does nothing.

    Args:
        span_type: Its kind.
        attributes: The attributes known now, by the names of `Attribute`.
        detail: The variable part of its name: a phase, a model; of few values.
        parent: Its parent, where no span is current and the environment names none, or a function
            that returns it, called only if there is a recipient.
        links: Related spans; empty carriers are left out.
    """
    tracing = _current()
    if tracing is None:
        return _UNTRACED
    name = f"{span_type.prefix} {detail or ''}".strip()

    def begin() -> OpenSpan:
        under = parent() if callable(parent) else parent
        return tracing.begin(span_type, name, attributes, parent=under, links=links)

    return _GuardedSpan(begin)


def count(
    counter: CounterType, amount: int = 1, attributes: Mapping[str, Value | None] = _NOTHING
) -> None:
    """Add to a counter."""
    tracing = _current()
    if tracing is not None:
        try:
            tracing.count(counter, amount, attributes)
        except Exception as error:  # noqa: BLE001 (tracing never changes the work)
            _failed("count", error)


def is_traced() -> bool:
    """Return whether spans have a recipient, so that preparing for one makes sense."""
    return _current() is not None


def carried() -> Carrier:
    """Return the context of the current span, for a callee; empty without a span."""
    tracing = _current()
    if tracing is None:
        return _NO_CONTEXT
    try:
        return tracing.carried()
    except Exception as error:  # noqa: BLE001 (tracing never changes the work)
        _failed("propagate", error)
        return _NO_CONTEXT


def configure_when_traced(configure: Callable[[], None]) -> None:
    """Call `configure` before the first span or count: loading an SDK takes long.

    Args:
        configure: Called at most once; its exceptions are logged.
    """
    _State.pending = configure


@contextmanager
def using(tracing: Tracing | None) -> Iterator[None]:
    """Pass all spans and metrics of this process to `tracing` within a block; None drops them."""
    former = _State.given
    _State.given = (tracing,)
    try:
        yield
    finally:
        _State.given = former


class _State:
    """This process's recipient of spans."""

    given: tuple[Tracing | None] | None = None
    pending: Callable[[], None] | None = None
    failed: set[tuple[str, type[BaseException]]] = set()  # noqa: RUF012 (one for the process)


def _current() -> Tracing | None:
    if _State.given is not None:
        return _State.given[0]
    if _State.pending is not None:
        _configure()
    if _API[0] not in sys.modules and _API[1] not in sys.modules:
        return None
    try:
        return _api_tracing()()
    except Exception as error:  # noqa: BLE001 (tracing never changes the work)
        _failed("load OpenTelemetry", error)
        return None


@cache
def _api_tracing() -> Callable[[], Tracing | None]:
    from .open_telemetry import api_tracing

    return api_tracing


def _configure() -> None:
    configure, _State.pending = _State.pending, None
    try:
        if configure is not None:
            configure()
    except Exception as error:  # noqa: BLE001 (tracing never changes the work)
        _failed("configure", error)


def _failed(operation: str, error: Exception) -> None:
    """Log a tracing exception, once for each kind, since it would repeat at each span."""
    if (operation, type(error)) not in _State.failed:
        _State.failed.add((operation, type(error)))
        _log.warning(
            "telemetry.failed", operation=operation, error=f"{type(error).__name__}: {error}"
        )


class Span:
    """The trace of a `with` block; this base class does nothing.

    An exception that leaves the block is recorded by its type alone, and propagates.
    """

    @property
    def carrier(self) -> Carrier:
        """The span's context, for its successors; empty if there is none."""
        return _NO_CONTEXT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        return

    def set(self, attribute: str, value: Value | None) -> None:
        """Set an attribute; None sets nothing."""

    def fail(self, error: BaseException) -> None:
        """Record a failure where no exception leaves the block."""

    def measure(self, histogram: Histogram, amount: float, more: Mapping[str, Value]) -> None:
        """Record a measurement, with the span's attributes and more as dimensions."""


class _Untraced(Span):
    """The shared span used when there is no recipient."""


_UNTRACED: Final = _Untraced()


class _GuardedSpan(Span):
    """A recipient's span behind a guard: its exceptions do not propagate."""

    def __init__(self, begin: Callable[[], OpenSpan]) -> None:
        self._begin = begin
        self._open: OpenSpan | None = None

    def __enter__(self) -> Self:
        try:
            self._open = self._begin()
        except Exception as error:  # noqa: BLE001 (tracing never changes the work)
            _failed("begin", error)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._do("end", lambda span: span.end(error))
        self._open = None

    def set(self, attribute: str, value: Value | None) -> None:
        if value is not None:
            self._do("set", lambda span: span.set(attribute, value))

    def fail(self, error: BaseException) -> None:
        self._do("fail", lambda span: span.fail(error))

    def measure(self, histogram: Histogram, amount: float, more: Mapping[str, Value]) -> None:
        self._do("measure", lambda span: span.measure(histogram, amount, more))

    @property
    def carrier(self) -> Carrier:
        found: list[Carrier] = []
        self._do("propagate", lambda span: found.append(span.carrier()))
        return found[0] if found else _NO_CONTEXT

    def _do(self, operation: str, act: Callable[[OpenSpan], None]) -> None:
        if self._open is None:
            return
        try:
            act(self._open)
        except Exception as error:  # noqa: BLE001 (tracing never changes the work)
            _failed(operation, error)
