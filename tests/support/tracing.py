"""Spans and metrics kept in memory, a tracing that breaks, and a receiver of OTLP over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agentforge_sessions.base.tracing import using
from agentforge_sessions.base.tracing.conventions import (
    Carrier,
    CounterType,
    Histogram,
    SpanType,
    Value,
)
from agentforge_sessions.base.tracing.open_telemetry import ApiTracing


class Recorded:
    """What was traced: OpenTelemetry's own SDK, with exporters in memory."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.tracing = ApiTracing(self.tracers, self.meters, environment=environment or {})

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, by when they began."""
        return sorted(self._exporter.get_finished_spans(), key=lambda one: one.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [one for one in self.spans if one.name == name]

    def only(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found

    def tree(self, *, but: tuple[str, ...] = ("save_session",)) -> list[str]:
        """The names of the spans, each with two blanks for each span above it."""
        spans = [one for one in self.spans if one.name not in but]
        known = {id_of(one): one for one in spans}

        def depth(span: ReadableSpan) -> int:
            above = None if span.parent is None else known.get(span.parent.span_id)
            return 0 if above is None else 1 + depth(above)

        return [f"{'  ' * depth(one)}{one.name}" for one in spans]

    def metric(self, name: str) -> dict[tuple[Any, ...], Any]:
        """Sums of a metric, by the values of its dimensions in the order of their names."""
        data = self._reader.get_metrics_data()
        found: dict[tuple[Any, ...], Any] = {}
        for resource in [] if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        for point in metric.data.data_points:
                            key = tuple(value for _, value in sorted(point.attributes.items()))
                            found[key] = getattr(point, "sum", None) or getattr(point, "value", 0)
        return found


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


@contextmanager
def recorded(environment: Mapping[str, str] | None = None) -> Iterator[Recorded]:
    """Have all that is traced in a block recorded."""
    kept = Recorded(environment)
    with using(kept.tracing):
        yield kept


class BrokenTracing:
    """Raises at the operations that it is to raise at; a span of its is one, too."""

    def __init__(self, breaks: Iterable[str], error: type[Exception] = RuntimeError) -> None:
        self.breaks = set(breaks)
        self.error = error
        self.seen: set[str] = set()

    def _do(self, operation: str) -> None:
        self.seen.add(operation)
        if operation in self.breaks:
            raise self.error(operation)

    def begin(
        self,
        span_type: SpanType,
        name: str,
        attributes: Mapping[str, Value | None],
        *,
        parent: Carrier,
        links: Iterable[Carrier],
    ) -> BrokenTracing:
        self._do("begin")
        return self

    def count(
        self, counter: CounterType, amount: int, attributes: Mapping[str, Value | None]
    ) -> None:
        self._do("count")

    def carried(self) -> Carrier:
        self._do("carried")
        return {}

    def set(self, attribute: str, value: Value) -> None:
        self._do("set")

    def fail(self, error: BaseException) -> None:
        self._do("fail")

    def measure(self, histogram: Histogram, amount: float, more: Mapping[str, Value]) -> None:
        self._do("measure")

    def carrier(self) -> Carrier:
        self._do("carrier")
        return {"traceparent": "no such thing"}

    def end(self, error: BaseException | None) -> None:
        self._do("end")


class Receiver:
    """Takes OTLP over HTTP on 127.0.0.1, as a collector does."""

    def __init__(self) -> None:
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def spans(self) -> list[tuple[dict[str, Any], Any]]:
        """The spans that have come, each with the attributes of its process, by their beginning."""
        with self._lock:
            found = [
                (values_of(resource.resource.attributes), span)
                for request in self.traces
                for resource in request.resource_spans
                for scope in resource.scope_spans
                for span in scope.spans
            ]
        return sorted(found, key=lambda one: one[1].start_time_unix_nano)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                with receiver._lock:
                    if self.path == "/v1/traces":
                        receiver.traces.append(ExportTraceServiceRequest.FromString(data))
                    else:
                        assert self.path == "/v1/metrics"
                        receiver.metrics.append(ExportMetricsServiceRequest.FromString(data))
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def values_of(attributes: Iterable[Any]) -> dict[str, Any]:
    """Attributes as OTLP has them, as plain values."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
