"""What can go wrong where others are told, as typed errors with fields."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..errors import AgentForgeError, ErrorKind


class ObserverError(AgentForgeError):
    """Base of the errors of what tells others of sessions."""


class OutboxFull(ObserverError):
    """So many deliveries wait that another one is not kept; those that wait are.

    Attributes:
        webhook: The receiver's name.
        path: The directory in which they wait.
        most: How many may wait.
    """

    kind = ErrorKind.STORAGE

    def __init__(self, webhook: str, *, path: Path, most: int) -> None:
        super().__init__(
            f"{most:,} deliveries wait for the webhook {webhook} in {path}: this one was not kept. "
            "`agentforge webhooks` says why they wait."
        )
        self.webhook = webhook
        self.path = path
        self.most = most


class UnknownWebhook(ObserverError):
    """The configuration has no receiver of this name; nothing was sent.

    Attributes:
        webhook: The name.
        known: The names that there are.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, webhook: str, known: Iterable[str]) -> None:
        self.webhook = webhook
        self.known = tuple(known)
        names = f"there are {', '.join(self.known)}" if self.known else "it has none"
        super().__init__(
            f"the configuration has no webhook {webhook[:80]!r}; {names}. Nothing was sent."
        )


class WebhookUnreached(ObserverError):
    """A receiver did not take what was sent.

    Attributes:
        webhook: The receiver's name.
        problem: Why.
    """

    kind = ErrorKind.NOT_DONE
    retryable = True

    def __init__(self, webhook: str, *, problem: str, kept: str) -> None:
        super().__init__(f"the webhook {webhook} was not reached: {problem}. {kept}")
        self.webhook = webhook
        self.problem = problem
