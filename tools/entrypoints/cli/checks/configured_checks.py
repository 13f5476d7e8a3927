"""Try what the configuration names, for `agentforge doctor`.

Runs no tests, calls no model and sends no webhook. Each check returns None if the
configuration does not name its subject.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ....base.errors import AgentForgeError
from ....base.files import DurableError
from ....base.settings.configuration_file import InvalidConfiguration
from ..output.text import counted_of
from .findings import Check, Finding, fail, ok, warn

if TYPE_CHECKING:
    from ....base.settings.configuration import Configuration
    from ....harness.feed_port import SessionFeeds
    from ....harness.session_ports import LocalSessions
    from ....workflows.agents.port import PhaseAgent


def configured_checks(configuration: Configuration, store: LocalSessions) -> list[Check]:
    """Return the named checks."""
    return [
        (
            "gate",
            lambda: check_gate(configuration),
            "Correct command in [gate], or install what it needs.",
        ),
        (
            "agent",
            lambda: check_agent(configuration, store),
            "Correct agent in [run], or install what it names.",
        ),
    ]


def check_jail(configuration: Configuration | None) -> Finding:
    """Run `true` in a jail with everything that the configuration, if any, shows in it."""
    from ....jail import Jail
    from ....wiring.bootstrap import configured_jail

    wanted = configuration is not None and (
        configuration.run.isolation == "jail"
        or configuration.run.agent_mode == "edit"
        or bool(configuration.gate.command)
    )
    try:
        Jail(None if configuration is None else configured_jail(configuration)).check()
    except AgentForgeError as error:
        if wanted:
            raise
        return warn(
            f"{error}", "Mend this before an agent edits files, or a command judges its work."
        )
    return ok("a jail was made as configured, and a command ran in it")


def check_gate(configuration: Configuration) -> Finding | None:
    """Check that the gate's program is found and can be shown in its jail."""
    from ....wiring.bootstrap import try_gate

    command = configuration.gate.command
    if command is None:
        return None
    return ok(f"{try_gate(configuration)} is there in the jail; the tests were not run")


def check_agent(configuration: Configuration, store: LocalSessions) -> Finding | None:
    """Check that the agent of `[run]` can be called; send it no prompt.

    Requests an endpoint's list of models, as a run does before it begins.
    """
    from ....workflows.agents.choice import check_agent as check_made

    said = configuration.run.agent
    if said is None:
        return None
    agent = _agent(said, configuration, store)
    check_made(agent)
    return ok(f"{agent.description}: can be asked, and was asked nothing")


def _agent(said: str, configuration: Configuration, store: LocalSessions) -> PhaseAgent:
    """Build the configured agent as a run does."""
    from attrs import evolve

    from ....wiring.bootstrap import build_editing_agent, configured_jail
    from ....workflows.agents.choice import make_agent, parse_agent

    run = configuration.run
    choice = parse_agent(said, timeout_s=run.agent_timeout_s, max_output=run.max_output)
    if run.agent_mode != "edit":
        return make_agent(choice)
    if choice.kind != "recorded":
        choice = evolve(choice, network=run.agent_network, environment=run.agent_environment)
    return build_editing_agent(store, choice, jail=configured_jail(configuration))


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
