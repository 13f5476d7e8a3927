"""The check of `agentforge doctor` on webhooks; nothing is sent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...project.errors import InvalidConfiguration
from .findings import Finding, fail, ok, warn
from .text import counted_of

if TYPE_CHECKING:
    from ...project.configuration import Configuration


def check_webhooks(
    configuration: Configuration, environment: Mapping[str, str] = os.environ
) -> Finding:
    """Check that each receiver can be sent to, and whether deliveries wait.

    Args:
        configuration: The configuration.
        environment: Where the variables are that it names.
    """
    from ...observing import check_patterns, outbox_of

    name = "webhooks"
    try:
        check_patterns(configuration)
    except InvalidConfiguration as error:
        return fail(name, "; ".join(error.faults), "Correct the names in the configuration.")
    problems, waits = [], []
    for webhook in configuration.webhooks:
        try:
            webhook.address(environment)
            webhook.secrets(environment)
        except ValueError as error:
            problems.append(f"{webhook.name}: {error}")
        waiting = len(outbox_of(configuration, webhook).names())
        if waiting:
            waits.append(f"{webhook.name}: {counted_of(waiting, 'event')} waiting")
    if problems:
        return warn(
            name,
            "; ".join(problems + waits),
            "What happens is kept meanwhile. Set what is missing: agentforge webhooks deliver",
        )
    if waits:
        return warn(name, "; ".join(waits), "agentforge webhooks list says why they wait.")
    unsigned = [one.name for one in configuration.webhooks if one.secret_env is None]
    told = ", ".join(one.name for one in configuration.webhooks)
    return ok(name, f"{told}; not signed: {', '.join(unsigned)}" if unsigned else told)
