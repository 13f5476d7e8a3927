"""What can go wrong where others are informed, as typed errors with fields."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import AgentForgeError, ErrorKind


class UnknownWebhook(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """The configuration has no receiver of this name; nothing was sent."""

    message = """the configuration has no webhook {webhook!r}; it has {known:or none}. Nothing was
    sent."""
    webhook: str
    known: Sequence[str]


class WebhookUnreached(AgentForgeError, kind=ErrorKind.NOT_DONE, retryable=True):
    """A receiver did not take what was sent."""

    message = "the webhook {webhook} was not reached: {problem}. {kept}"
    webhook: str
    problem: str
    kept: str
    """What is sent again, and when."""
