"""Spans and metrics by OpenTelemetry's API, for the providers that the program has configured.

No provider is ever installed here, and nothing of the SDK is imported.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Final

from opentelemetry import context, metrics, trace
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from .conventions import SCOPE, Attribute, Carrier, CounterType, Histogram, SpanType, Value

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_KINDS: Final = {
    "internal": SpanKind.INTERNAL,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
}
_SILENT: Final = frozenset({trace.ProxyTracerProvider, trace.NoOpTracerProvider})
"""The API's providers while a program has not configured traces, or has disabled them."""
_SILENT_METERS: Final = frozenset({"_ProxyMeterProvider", "NoOpMeterProvider"})
"""The same for metrics; the first has no public name."""


def api_tracing() -> ApiTracing | None:
    """Return a recipient for the program's providers; None while it has not configured any."""
    tracing = of_the_program()
    return tracing if tracing.is_heard else None


@cache
def of_the_program() -> ApiTracing:
    """Return a recipient for the program's providers, configured or not."""
    return ApiTracing()


class ApiTracing:
    """Implements `Tracing`.

    The parent of a span is the current span; without one, the span that the variable TRACEPARENT
    names; else the caller's.

    Args:
        tracers: The provider of tracers; if None, the program's current one at each span.
        meters: That of meters.
        environment: The source of TRACEPARENT and TRACESTATE; this process's environment if None.
    """

    def __init__(
        self,
        tracers: trace.TracerProvider | None = None,
        meters: metrics.MeterProvider | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._given = (tracers, meters)
        self._environment = os.environ if environment is None else environment
        self._version = version("agentforge-sessions")
        self._tracer: tuple[trace.TracerProvider, trace.Tracer] | None = None
        self._meter: tuple[metrics.MeterProvider, metrics.Meter] | None = None
        self._histograms: dict[str, metrics.Histogram] = {}
        self._counters: dict[CounterType, metrics.Counter] = {}
        self._open: dict[int, ApiSpan] = {}

    @property
    def has_tracers(self) -> bool:
        """Whether there is a provider of tracers."""
        return type(self._tracers) not in _SILENT

    @property
    def has_meters(self) -> bool:
        """Whether there is a provider of meters."""
        return type(self._meters).__name__ not in _SILENT_METERS

    @property
    def is_heard(self) -> bool:
        """Whether there is a provider of tracers or of meters."""
        return self.has_tracers or self.has_meters

    def begin(
        self,
        span_type: SpanType,
        name: str,
        attributes: Mapping[str, Value | None],
        *,
        parent: Carrier,
        links: Iterable[Carrier],
    ) -> ApiSpan:
        """See `Tracing`."""
        known = {key: value for key, value in attributes.items() if value is not None}
        within = self._parent(parent)
        above = trace.get_current_span(within).get_span_context()
        linked = [found for one in links if (found := _context_of(one)).is_valid]
        span = self._get_tracer().start_span(
            name,
            context=within,
            kind=_KINDS[span_type.kind],
            attributes=known,
            links=[Link(one) for one in linked if one.span_id != above.span_id],
        )
        return ApiSpan(self, span_type, span, known)

    def count(
        self, counter: CounterType, amount: int, attributes: Mapping[str, Value | None]
    ) -> None:
        """See `Tracing`."""
        meter = self._get_meter()
        if counter not in self._counters:
            self._counters[counter] = meter.create_counter(
                counter.name, counter.unit, counter.description
            )
        known = {key: value for key, value in attributes.items() if value is not None}
        self._counters[counter].add(amount, known)

    def carried(self) -> Carrier:
        """See `Tracing`."""
        return _carrier_of(context.get_current())

    def end_open(self, error: BaseException) -> None:
        """End all open spans, the inner ones first: the process is about to be ended.

        Args:
            error: The reason of the end.
        """
        for span in reversed(tuple(self._open.values())):
            span.end(error, attached=False)

    def record(self, histogram: Histogram, amount: float, attributes: Mapping[str, Value]) -> None:
        """Record a measurement by the attributes that are the histogram's dimensions."""
        meter = self._get_meter()
        if histogram.name not in self._histograms:
            self._histograms[histogram.name] = meter.create_histogram(
                histogram.name,
                histogram.unit,
                histogram.description,
                explicit_bucket_boundaries_advisory=histogram.buckets,
            )
        wanted = (*histogram.dimensions, Attribute.ERROR_TYPE)
        self._histograms[histogram.name].record(
            amount, {name: attributes[name] for name in wanted if name in attributes}
        )

    def opened(self, span: ApiSpan) -> None:
        """Remember an open span."""
        self._open[id(span)] = span

    def ended(self, span: ApiSpan) -> bool:
        """Forget a span; return whether it was open."""
        return self._open.pop(id(span), None) is not None

    @property
    def _tracers(self) -> trace.TracerProvider:
        return self._given[0] or trace.get_tracer_provider()

    @property
    def _meters(self) -> metrics.MeterProvider:
        return self._given[1] or metrics.get_meter_provider()

    def _get_tracer(self) -> trace.Tracer:
        provider = self._tracers
        if self._tracer is None or self._tracer[0] is not provider:
            self._tracer = (provider, provider.get_tracer(SCOPE, self._version))
        return self._tracer[1]

    def _get_meter(self) -> metrics.Meter:
        provider = self._meters
        if self._meter is None or self._meter[0] is not provider:
            self._meter = (provider, provider.get_meter(SCOPE, self._version))
            self._histograms.clear()
            self._counters.clear()
        return self._meter[1]

    def _parent(self, given: Carrier) -> context.Context:
        now = context.get_current()
        if trace.get_current_span(now).get_span_context().is_valid:
            return now
        names = ("traceparent", "tracestate")
        own = {name: self._environment.get(name.upper(), "") for name in names}
        for carrier in (own, given):
            if carrier.get("traceparent"):
                found = _PROPAGATOR.extract(dict(carrier), now)
                if trace.get_current_span(found).get_span_context().is_valid:
                    return found
        return now


class ApiSpan:
    """Implements `OpenSpan`: a span that is current until it ends."""

    def __init__(
        self,
        tracing: ApiTracing,
        span_type: SpanType,
        span: trace.Span,
        attributes: dict[str, Value],
    ) -> None:
        self._tracing = tracing
        self._duration = span_type.duration
        self._span = span
        self._attributes = attributes
        self._token = context.attach(trace.set_span_in_context(span))
        self._begun = time.perf_counter()
        tracing.opened(self)

    def set(self, attribute: str, value: Value) -> None:
        """See `OpenSpan`."""
        self._attributes[attribute] = value
        self._span.set_attribute(attribute, value)

    def fail(self, error: BaseException) -> None:
        """See `OpenSpan`; the error's message is left out, since it may quote an answer."""
        kind = _name_of(type(error))
        self.set(Attribute.ERROR_TYPE, kind)
        self._span.add_event("exception", {"exception.type": kind})
        self._span.set_status(Status(StatusCode.ERROR, kind))

    def measure(self, histogram: Histogram, amount: float, more: Mapping[str, Value]) -> None:
        """See `OpenSpan`."""
        self._tracing.record(histogram, amount, {**self._attributes, **more})

    def carrier(self) -> Carrier:
        """See `OpenSpan`."""
        return _carrier_of(trace.set_span_in_context(self._span))

    def end(self, error: BaseException | None, *, attached: bool = True) -> None:
        """See `OpenSpan`; not `attached` where it may have been started in another thread."""
        if attached:
            context.detach(self._token)
        if not self._tracing.ended(self):
            return
        took = time.perf_counter() - self._begun
        try:
            if error is not None:
                self.fail(error)
            if self._duration is not None:
                self.measure(self._duration, took, {})
        finally:
            self._span.end()


def _name_of(kind: type[BaseException]) -> str:
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _carrier_of(found: context.Context) -> Carrier:
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, found)
    return carrier


def _context_of(carrier: Carrier) -> SpanContext:
    found = _PROPAGATOR.extract(dict(carrier), context.Context())
    return trace.get_current_span(found).get_span_context()
