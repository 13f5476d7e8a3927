"""What can go wrong with a worker of the fleet, as typed errors with fields."""

from __future__ import annotations

from ...errors import AgentForgeError, ErrorKind


class FleetStopped(AgentForgeError):
    """A worker ended without having been asked to.

    Attributes:
        reason: Why.
    """

    kind = ErrorKind.STORAGE

    def __init__(self, *, reason: str) -> None:
        super().__init__(
            f"the worker ended: {reason}. Its sessions go on with other workers, or with this one "
            "once it is started again; nothing that was saved is lost."
        )
        self.reason = reason
