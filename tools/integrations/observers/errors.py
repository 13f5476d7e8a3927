"""What can go wrong where others are told, as typed errors with fields."""

from __future__ import annotations

from collections.abc import Iterable

from ...base.errors import AgentForgeError, ErrorKind


class ObserverError(AgentForgeError):
    """Base of the errors of what tells others of sessions."""


class UnknownWebhook(ObserverError):
    """The configuration has no receiver of this name, or nothing is kept for one.

    Nothing was sent, and nothing dropped.

    Attributes:
        webhook: The name.
        known: The names that there are.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(
        self, webhook: str, known: Iterable[str], *, who: str = "the configuration has no"
    ) -> None:
        self.webhook = webhook
        self.known = tuple(known)
        names = f"there are {', '.join(self.known)}" if self.known else "there is none"
        super().__init__(f"{who} webhook {webhook[:80]!r}; {names}. Nothing was done.")


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
