"""Log the library's events to standard error."""

from __future__ import annotations

import json
import logging
from collections.abc import MutableMapping
from typing import Any, Final

from ....base.event_log import configure_when_heard, without_secrets
from .output import remark
from .text import safe

_TOLD_ANYWAY: Final = frozenset(
    {
        "session.unreadable",
        "session.conflict",
        "session.save_failed",
        "session.delete_failed",
        "session.prune.skipped",
        "session.prune.failed",
    }
)
"""Events that commands report themselves; logged only in verbose mode."""


class _StandardError:
    """Logger that writes to the current standard error."""

    def msg(self, message: str) -> None:
        remark(message)

    debug = info = warning = warn = error = critical = exception = fatal = msg


def _without_told(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    import structlog

    if event.get("event") in _TOLD_ANYWAY:
        raise structlog.DropEvent
    return event


def _render(_: object, level: str, event: MutableMapping[str, Any]) -> str:
    name = event.pop("event", "")
    fields = " ".join(f"{key}={_value(value)}" for key, value in event.items())
    return f"{level}: {name} {fields}".rstrip()


def _value(value: object) -> str:
    text = safe(value)
    return repr(text) if " " in text else text


def configure_logs(*, verbose: bool) -> None:
    """Log events to standard error: all with `verbose`, else warnings and above."""
    _configure(
        [without_secrets, _render] if verbose else [_without_told, without_secrets, _render],
        logging.DEBUG if verbose else logging.WARNING,
    )


def configure_service_logs(*, verbose: bool, as_json: bool) -> None:
    """Log a service's events to standard error, each with its time.

    Args:
        verbose: Whether to log debug events too.
        as_json: Whether each event is one line of JSON.
    """
    from structlog.processors import TimeStamper, format_exc_info

    def render(logger: object, level: str, event: MutableMapping[str, Any]) -> str:
        at = event.pop("timestamp")
        if as_json:
            return json.dumps({"timestamp": at, "level": level, **event}, default=str)
        return f"{at} {_render(logger, level, event)}"

    _configure(
        [TimeStamper(fmt="iso"), format_exc_info, without_secrets, render],
        logging.DEBUG if verbose else logging.INFO,
    )


def _configure(processors: list[Any], minimum: int) -> None:

    def configure() -> None:
        import structlog

        structlog.configure(
            processors=processors,
            wrapper_class=structlog.make_filtering_bound_logger(minimum),
            logger_factory=lambda *_: _StandardError(),
            cache_logger_on_first_use=False,
        )

    configure_when_heard(configure, minimum=minimum)
