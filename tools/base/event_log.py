"""The library's log: structured events, handed to standard logging under `agentforge`.

Silent unless the embedding program configures logging: attach a handler to the logger `agentforge`
(or to the root), or configure structlog, whose configuration is then used unchanged. A record's
message is the event with its fields as `key=value`; the fields are also in the record's attribute
`event_fields`.

structlog takes longer to load than all of a session's work, so it is loaded with the first event
that has a listener: a program that configured structlog has loaded it already, and until then only
standard logging or the callback of `configure_when_heard` can receive an event. Standard logging is
not loaded for it either: a module that was never loaded has no listeners.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import logging

    from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

LOGGER_NAME: Final = "agentforge"
"""The standard logger of the library's events; parts of the library log to its children."""

_LEVELS: Final = {
    "debug": 10,
    "info": 20,
    "warn": 30,
    "warning": 30,
    "error": 40,
    "exception": 40,
    "critical": 50,
    "fatal": 50,
}
"""The levels of `logging`, by method name."""
_bound: ContextVar[dict[str, object] | None] = ContextVar("agentforge_bound_fields", default=None)


def get_logger(name: str) -> FilteringBoundLogger:
    """Return the logger of a part of the library.

    Args:
        name: `agentforge` or `agentforge.PART`.
    """
    return cast("FilteringBoundLogger", _EventLogger(name))


def configure_when_heard(configure: Callable[[], None], *, minimum: int) -> None:
    """Configure structlog at the first event that has a listener; at once if structlog is loaded.

    Args:
        configure: Configures structlog, including a filter that drops levels below `minimum`.
        minimum: The lowest level of `logging` that has a listener.
    """
    _Pending.configuration = _Configuration(configure, minimum)
    if _is_loaded():
        _configure_pending()


@contextmanager
def bound_fields(**fields: object) -> Iterator[None]:
    """Add fields to the events of a context, as `structlog.contextvars.bound_contextvars` does.

    If structlog is loaded the fields are bound there, so other libraries' events have them too.
    """
    if _is_loaded():
        from structlog.contextvars import bound_contextvars

        with bound_contextvars(**fields):
            yield
        return
    token = _bound.set({**(_bound.get() or {}), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


class _Configuration:
    """The pending configuration of structlog."""

    def __init__(self, configure: Callable[[], None], minimum: int) -> None:
        self.configure: Final = configure
        self.minimum: Final = minimum


class _Pending:
    """Holds the argument of `configure_when_heard` until it is applied."""

    configuration: _Configuration | None = None


def _is_loaded() -> bool:
    return "structlog" in sys.modules


def _configure_pending() -> None:
    pending, _Pending.configuration = _Pending.configuration, None
    if pending is not None:
        pending.configure()


class _EventLogger:
    """Chooses its backend at each event: a program may configure logging after the import."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        if not _is_loaded():
            if method == "is_enabled_for":
                return self._is_heard
            if method in _LEVELS and not self._is_heard(_LEVELS[method]):
                return _unheard
        import structlog

        _silence_unless_configured()
        _configure_pending()
        return getattr(self._configured if structlog.is_configured() else self._standard, method)

    def bind(self, **fields: object) -> Any:
        """Return a logger that adds `fields` to its events."""
        return self.__getattr__("bind")(**fields) if fields or _is_loaded() else self

    def _is_heard(self, level: int) -> bool:
        """Return whether an event of a level has a listener while structlog is not loaded."""
        pending = _Pending.configuration
        if pending is not None:
            return level >= pending.minimum
        return "logging" in sys.modules and self._logger.isEnabledFor(level)

    @cached_property
    def _logger(self) -> logging.Logger:
        import logging

        _silence_unless_configured()
        return logging.getLogger(self._name)

    @cached_property
    def _configured(self) -> Any:
        import structlog

        return structlog.get_logger(self._name)

    @cached_property
    def _standard(self) -> Any:
        import structlog

        return structlog.wrap_logger(
            self._logger,
            processors=[
                structlog.stdlib.filter_by_level,
                _merge_bound_fields,
                structlog.contextvars.merge_contextvars,
                without_secrets,
                _to_standard_logging,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            cache_logger_on_first_use=True,
        )


@cache
def _silence_unless_configured() -> None:
    """Stop standard logging from writing to standard error when the program configured nothing."""
    import logging

    logging.getLogger(LOGGER_NAME).addHandler(logging.NullHandler())


def _unheard(*_: object, **__: object) -> None:
    """Drop an event."""


def _merge_bound_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {**(_bound.get() or {}), **event}


def without_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Mask keys and passwords in an event's texts; a processor of structlog."""
    from .text.masking import mask

    return {
        name: mask(value).text if isinstance(value, str) else value for name, value in event.items()
    }


def _to_standard_logging(
    _logger: WrappedLogger, _method: str, event: EventDict
) -> tuple[tuple[str], dict[str, Any]]:
    passed_on = {key: event.pop(key) for key in ("exc_info", "stack_info") if key in event}
    name = event.pop("event", "")
    text = " ".join([str(name), *(f"{key}={value!r}" for key, value in event.items())])
    return (text,), {**passed_on, "extra": {"event_fields": dict(event)}}
