"""What can go wrong with a worker of the fleet, as typed errors with fields."""

from __future__ import annotations

from ...base.errors import AgentForgeError, ErrorKind


def words_of(error: BaseException) -> str:
    """Return on one line what an error says, and what it came from: the queue's say little."""
    cause = error.__cause__
    texts = [" ".join(str(one or "").split()) for one in (error, cause)]
    return ": ".join(text for text in texts if text) or type(error).__name__


class FleetStopped(AgentForgeError, kind=ErrorKind.STORAGE):
    """A worker ended without having been asked to."""

    message = """the worker ended: {reason}. Its sessions go on with other workers, or with this one
    once it is started again; nothing that was saved is lost."""
    reason: str
