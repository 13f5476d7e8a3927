"""Errors of notifying others, typed and with fields."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import AgentForgeError, ErrorKind


class UnknownWebhook(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """The configuration has no receiver of this name, or there is no saved state for one.

    Nothing was sent, and nothing discarded.
    """

    message = "{who} webhook {webhook!r}; there is {known:or none}. Nothing was done."
    webhook: str
    known: Sequence[str]
    who: str = "the configuration has no"


class WebhookUnreached(AgentForgeError, kind=ErrorKind.NOT_DONE, retryable=True):
    """A receiver did not accept a delivery."""

    message = "the webhook {webhook} was not reached: {problem}. {kept}"
    webhook: str
    problem: str
    kept: str
    """What is sent again, and when."""
