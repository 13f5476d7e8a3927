"""Typed errors of a fleet's worker, with fields."""

from __future__ import annotations

from ...base.errors import AgentForgeError, ErrorKind


def words_of(error: BaseException) -> str:
    """Return an error and its cause on one line: the queue's own messages are too terse."""
    cause = error.__cause__
    texts = [" ".join(str(one or "").split()) for one in (error, cause)]
    return ": ".join(text for text in texts if text) or type(error).__name__


class FleetStopped(AgentForgeError, kind=ErrorKind.STORAGE):
    """A worker ended without a request to stop."""

    message = """the worker ended: {reason}. Its sessions go on with other workers, or with this one
    once it is started again; nothing that was saved is lost."""
    reason: str
