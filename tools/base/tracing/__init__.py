"""What the library traces and measures, and for whom; nothing is, until OpenTelemetry is there."""

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
