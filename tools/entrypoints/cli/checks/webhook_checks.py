"""Check webhooks for `agentforge doctor`; send nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....base.errors import AgentForgeError
from ....base.files import DurableError
from ....base.settings.configuration_file import InvalidConfiguration
from ..output.text import counted_of
from .findings import Finding, fail, ok, warn

if TYPE_CHECKING:
    from ....base.settings.configuration import Configuration
    from ....harness.feed_port import SessionFeeds


def check_webhooks(
    configuration: Configuration,
    sessions: SessionFeeds,
    environment: Mapping[str, str] = os.environ,
) -> Finding:
    """Check that deliveries to each receiver are possible, and whether any wait.

    Args:
        configuration: The configuration.
        sessions: The sessions whose events the receivers get.
        environment: The environment with the variables that the configuration names.
    """
    from ....integrations.observers.observing import check_patterns, senders

    try:
        check_patterns(configuration)
    except InvalidConfiguration as error:
        return fail("; ".join(error.faults), "Correct the names in the configuration.")
    problems, waits = [], []
    for sender in senders(configuration, sessions, environment):
        webhook = sender.webhook
        try:
            webhook.address(environment)
            webhook.secrets(environment)
        except ValueError as error:
            problems.append(f"{webhook.name}: {error}")
        try:
            waiting = len(sender.backlog().deliveries)
        except (AgentForgeError, DurableError, ValueError) as error:
            problems.append(f"{webhook.name}: {error}")
            continue
        if waiting:
            waits.append(f"{webhook.name}: {counted_of(waiting, 'event')} waiting")
    if problems:
        return warn(
            "; ".join(problems + waits),
            "What happens is kept meanwhile. Set what is missing: agentforge webhooks deliver",
        )
    if waits:
        return warn("; ".join(waits), "agentforge webhooks list says why they wait.")
    unsigned = [one.name for one in configuration.webhooks if one.secret_env is None]
    told = ", ".join(one.name for one in configuration.webhooks)
    return ok(f"{told}; not signed: {', '.join(unsigned)}" if unsigned else told)
