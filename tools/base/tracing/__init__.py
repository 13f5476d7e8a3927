"""The library's traces and metrics, and their recipient; none until OpenTelemetry is configured."""

from .conventions import Attribute, Counter, Traced
from .current import carried, configure_when_traced, count, is_traced, traced, using

__all__ = [
    "Attribute",
    "Counter",
    "Traced",
    "carried",
    "configure_when_traced",
    "count",
    "is_traced",
    "traced",
    "using",
]
