"""Sets up OpenTelemetry's SDK in our own processes: the command line and a fleet's workers.

A program that embeds the library configures OpenTelemetry itself, and nothing here is used. Our own
processes follow the standard variables: OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_TRACES_EXPORTER enables
traces (OTEL_METRICS_EXPORTER metrics), OTEL_SDK_DISABLED=true disables everything, and the SDK's
other variables (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, OTEL_BSP_SCHEDULE_DELAY, …) apply too.

The SDK is loaded by the first span and not before. Its own threads send the spans; at the end of
the process, sending the rest is limited to `FLUSH_S`: a slow or unreachable collector delays no
work, and fails none.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

from attrs import define, field, frozen

from ..base.event_log import get_logger
from ..base.tracing import configure_when_traced

FLUSH_S: Final = 3.0
"""How long the end of a process may take to send the rest, in seconds."""
_PROTOCOLS: Final = {"http/protobuf": "http", "grpc": "grpc"}
_REMEDY: Final = "pip install 'agentforge-sessions[otel]'"
_GRPC_REMEDY: Final = (
    "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf and the endpoint's port for it, mostly 4318; or "
    "pip install opentelemetry-exporter-otlp-proto-grpc"
)
_log = get_logger("agentforge.telemetry")


class ProcessTerminated(BaseException):
    """The exception in spans that were open when SIGTERM ended the process."""


@frozen(kw_only=True)
class TelemetryRequest:
    """The telemetry that the environment requests.

    Attributes:
        traces: The exporter of traces: "otlp", "console" or another word; None for none.
        metrics: The exporter of metrics, likewise.
    """

    traces: str | None
    metrics: str | None

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> TelemetryRequest:
        """Return the request in the standard variables."""
        if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return cls(traces=None, metrics=None)
        return cls(
            traces=_exporter(environment, "TRACES"), metrics=_exporter(environment, "METRICS")
        )

    def __bool__(self) -> bool:
        """Return whether anything is requested."""
        return self.traces is not None or self.metrics is not None


def _exporter(environment: Mapping[str, str], kind: str) -> str | None:
    named = environment.get(f"OTEL_{kind}_EXPORTER", "").strip().lower()
    if named:
        return None if named == "none" else named
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{kind}_ENDPOINT")
    return "otlp" if any(environment.get(one, "").strip() for one in endpoints) else None


def sdk_problem(request: TelemetryRequest, environment: Mapping[str, str]) -> str | None:
    """Return what prevents the requested telemetry, and what to do about it; None if nothing does.

    This loads the SDK.
    """
    for kind, named in (("traces", request.traces), ("metrics", request.metrics)):
        if named is not None:
            try:
                _exporter_class(kind, named, environment)
            except _Unusable as error:
                return str(error)
    return None


class _Unusable(Exception):
    """An exporter is unavailable; the exception's text says why."""


def _exporter_class(kind: str, named: str, environment: Mapping[str, str]) -> Callable[[], Any]:
    """Return the factory of an exporter.

    Raises:
        _Unusable: There is none of this name, or it is not installed.
    """
    singular = {"traces": "Span", "metrics": "Metric"}[kind]
    if named == "console":
        module = "opentelemetry.sdk.trace.export"
        if kind == "metrics":
            module = "opentelemetry.sdk.metrics.export"
        found = _imported(module, f"Console{singular}Exporter")
        # Standard output belongs to the command.
        return lambda: found(out=sys.stderr)
    if named != "otlp":
        raise _Unusable(
            f"OTEL_{kind.upper()}_EXPORTER={named} is not known here: set it to otlp, console or "
            "none"
        )
    variable = f"OTEL_EXPORTER_OTLP_{kind.upper()}_PROTOCOL"
    chosen = environment.get(variable) or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = (chosen or "http/protobuf").strip()
    if protocol not in _PROTOCOLS:
        raise _Unusable(
            f"OTEL_EXPORTER_OTLP_PROTOCOL={protocol} is not known here: set it to http/protobuf"
        )
    exporter = "trace_exporter" if kind == "traces" else "metric_exporter"
    module = f"opentelemetry.exporter.otlp.proto.{_PROTOCOLS[protocol]}.{exporter}"
    return _imported(module, f"OTLP{singular}Exporter")


def _imported(module: str, name: str) -> Callable[..., Any]:
    try:
        return getattr(import_module(module), name)  # type: ignore[no-any-return]
    except ImportError as error:
        missing = f"telemetry is asked for, and {module} is not installed"
        raise _Unusable(f"{missing}: {_GRPC_REMEDY if '.grpc' in module else _REMEDY}") from error


@define(eq=False)
class Telemetry:
    """The SDK of one process.

    Args:
        request: The requested telemetry.
        environment: The SDK's variables; the SDK reads most of them itself.
        flush_s: How long `close` may take, in seconds.
    """

    _request: TelemetryRequest
    _environment: Mapping[str, str] = field(default=os.environ, kw_only=True)
    _flush_s: float = field(default=FLUSH_S, kw_only=True)
    _shutdowns: list[Callable[[], object]] = field(factory=list, init=False)

    def set_up(self) -> None:
        """Install the requested providers, unless the process already has its own.

        Unavailable ones are logged and skipped.
        """
        try:
            from opentelemetry import metrics, trace
        except ImportError:
            _log.debug("telemetry.not_installed")
            return
        from ..base.tracing.open_telemetry import of_the_program

        _route_log()
        traces, measures = self._request.traces, self._request.metrics
        if traces is not None and not of_the_program().has_tracers:
            self._try("traces", traces, lambda make: trace.set_tracer_provider(self._tracers(make)))
        if measures is not None and not of_the_program().has_meters:
            self._try(
                "metrics", measures, lambda make: metrics.set_meter_provider(self._meters(make))
            )

    def _try(self, kind: str, named: str, install: Callable[[Callable[[], Any]], None]) -> None:
        try:
            install(_exporter_class(kind, named, self._environment))
        except _Unusable as error:
            _log.warning("telemetry.unusable", problem=str(error))

    def _tracers(self, make: Callable[[], Any]) -> Any:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=self._resource(), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(make()))
        self._shutdowns.append(provider.shutdown)
        return provider

    def _meters(self, make: Callable[[], Any]) -> Any:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        readers = [PeriodicExportingMetricReader(make())]
        provider = MeterProvider(readers, resource=self._resource(), shutdown_on_exit=False)
        self._shutdowns.append(provider.shutdown)
        return provider

    def _resource(self) -> Any:
        """Return the resource that identifies this process; the environment overrides ours."""
        import socket

        from opentelemetry.sdk.resources import Resource

        own: dict[str, str | int] = {
            "service.name": "agentforge",
            "service.version": version("agentforge-sessions"),
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
        }
        said = self._environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
        names = {pair.partition("=")[0].strip() for pair in said.split(",")}
        if self._environment.get("OTEL_SERVICE_NAME"):
            names.add("service.name")
        return Resource.create({name: one for name, one in own.items() if name not in names})

    def close(self, *, terminated: bool = False) -> None:
        """Send the rest, for at most `flush_s`.

        Args:
            terminated: Whether a signal ends the process: open spans are ended first.
        """
        shutdowns, self._shutdowns = self._shutdowns, []
        if not shutdowns:
            return

        def shut_down(one: Callable[[], object]) -> None:
            if terminated:
                from ..base.tracing.open_telemetry import of_the_program

                of_the_program().end_open(ProcessTerminated("SIGTERM"))
            one()

        threads = [
            threading.Thread(target=shut_down, args=(one,), name="telemetry-flush", daemon=True)
            for one in shutdowns
        ]
        for thread in threads:
            thread.start()
        left = _deadline(self._flush_s)
        for thread in threads:
            thread.join(left())
        if any(thread.is_alive() for thread in threads):
            _log.warning("telemetry.not_sent", after_s=self._flush_s)


def _deadline(seconds: float) -> Callable[[], float]:
    from time import monotonic

    until = monotonic() + seconds
    return lambda: max(0.0, until - monotonic())


class _Process:
    """The telemetry of this process, if it has any."""

    telemetry: Telemetry | None = None


def begin_telemetry(environment: Mapping[str, str] = os.environ) -> None:
    """Let the first span of this process set up the SDK, if the environment requests it."""
    request = TelemetryRequest.of(environment)
    if request:
        _Process.telemetry = telemetry = Telemetry(request, environment=environment)
        configure_when_traced(telemetry.set_up)


def end_telemetry() -> None:
    """Send the rest, within a time limit; do nothing if nothing was set up."""
    telemetry, _Process.telemetry = _Process.telemetry, None
    if telemetry is not None:
        telemetry.close()


@contextmanager
def sent_when_terminated() -> Iterator[None]:
    """Run a block; if SIGTERM ends the process meanwhile, send its traces first.

    The process still ends by the signal. A signal that already has a handler, or is ignored, is
    left alone; so is any signal outside the main thread, where Python runs no handlers.
    """
    telemetry = _Process.telemetry
    handled = (
        telemetry is not None
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if telemetry is None or not handled:
        yield
        return

    def end(number: int, _: object) -> None:
        # `close` runs in a thread: the block may have been stopped while it holds the SDK's locks.
        telemetry.close(terminated=True)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _route_log() -> None:
    """Route the SDK's own warnings to our log, each once, and off standard error."""
    import logging

    class Routed(logging.Handler):
        def __init__(self) -> None:
            super().__init__(logging.WARNING)
            self._seen: set[str] = set()

        def emit(self, record: logging.LogRecord) -> None:
            kind = f"{record.name} {record.msg}"
            if kind not in self._seen:
                self._seen.add(kind)
                _log.warning("telemetry.problem", problem=record.getMessage())

    logger = logging.getLogger("opentelemetry")
    logger.addHandler(Routed())
    logger.propagate = False
