"""What the library traces and measures, and for whom; nothing is, until OpenTelemetry is there."""

from .conventions import Attribute, Counter, SpanType
from .current import carried, configure_when_traced, count, is_traced, traced, using
from .port import Carrier, OpenSpan, Span, Tracing

__all__ = [
    "Attribute",
    "Carrier",
    "Counter",
    "OpenSpan",
    "Span",
    "SpanType",
    "Tracing",
    "carried",
    "configure_when_traced",
    "count",
    "is_traced",
    "traced",
    "using",
]
