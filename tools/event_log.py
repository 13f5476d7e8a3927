"""The library's log: structured events, handed to standard logging under `agentforge`.

Silent unless the program that embeds the library configures logging: attach a handler to the logger
`agentforge` (or to the root), or configure structlog, whose configuration is then used as it is.
A record's message is the event with its fields as `key=value`; the fields are also in the record's
attribute `event_fields`.
"""

from __future__ import annotations

import logging
from typing import Any, Final, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

LOGGER_NAME: Final = "agentforge"
"""The standard logger that all of the library's events go to, or to a child of it."""

logging.getLogger(LOGGER_NAME).addHandler(logging.NullHandler())


def get_logger(name: str) -> FilteringBoundLogger:
    """Return the logger of a part of the library.

    Args:
        name: `agentforge` or `agentforge.PART`.
    """
    return cast(FilteringBoundLogger, _EventLogger(name))


class _EventLogger:
    """Chooses at each event, since a program may configure its logging after the import."""

    def __init__(self, name: str) -> None:
        self._configured: Any = structlog.get_logger(name)
        self._standard: Any = structlog.wrap_logger(
            logging.getLogger(name),
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.contextvars.merge_contextvars,
                _to_standard_logging,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            cache_logger_on_first_use=True,
        )

    def __getattr__(self, method: str) -> Any:
        logger = self._configured if structlog.is_configured() else self._standard
        return getattr(logger, method)


def _to_standard_logging(
    _logger: WrappedLogger, _method: str, event: EventDict
) -> tuple[tuple[str], dict[str, Any]]:
    passed_on = {key: event.pop(key) for key in ("exc_info", "stack_info") if key in event}
    name = event.pop("event", "")
    text = " ".join([str(name), *(f"{key}={value!r}" for key, value in event.items())])
    return (text,), {**passed_on, "extra": {"event_fields": dict(event)}}
