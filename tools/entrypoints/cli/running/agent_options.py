"""A session's agent, its mode and its settings, from options and configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from ..context import Cli
from ..options import flag, misuse, option

if TYPE_CHECKING:
    from ....workflows.agents.port import AgentChoice, PhaseAgent
    from ....workflows.job import AgentWork
    from ....workflows.workflow import Workflow


_MAX_OUTPUT: Any = option(
    "--max-output TOKENS", "Maximum tokens of an endpoint's answer; 16000 by default.", min=1
)
NO_JAIL: Any = flag(
    "--no-jail",
    "Run an agent that edits in place, and the gate's command, as you and without a jail: not "
    "sealed. Say it again to resume.",
)
NO_WAIT: Any = flag("--no-wait", "Pause for questions instead of waiting for their answers.")


@frozen
class AgentOptions:
    """Options for the agent of a new session.

    Attributes:
        agent: The agent: a command line (prompt on standard input, answer on standard output),
            recorded:DIR, openai:MODEL[@URL] or anthropic:MODEL[@URL]; the configuration's by
            default.
        agent_mode: answer: the agent gives files in its answer (default). edit: its program changes
            them in place, in a jail.
        agent_network: Whether an agent that edits in place has the network; not sealed if so.
        agent_env: Give an agent that edits in place this environment variable; may be repeated.
        agent_timeout: Time limit of one answer; 1800 seconds by default, 600 for an endpoint.
        record: Record the agent's answers in this directory.
    """

    agent: str | None = option("--agent AGENT")
    agent_mode: str | None = option("--agent-mode MODE")
    agent_network: bool | None = option("--agent-network/--no-agent-network")
    agent_env: list[str] | None = option("--agent-env NAME")
    agent_timeout: float | None = option("--agent-timeout SECONDS", min=0.001)
    max_output: int | None = _MAX_OUTPUT
    record: Path | None = option("--record DIR")
    no_jail: bool = NO_JAIL
    no_wait: bool = NO_WAIT

    def of_workflow(self, cli: Cli, workflow: Workflow) -> Workflow:
        """Return the workflow with the option's mode, else its own, else the configuration's.

        Raises:
            typer.BadParameter: There is no such mode, or an option of the other mode was given.
        """
        from ....base.settings.choices import AGENT_MODES

        if self.agent_mode is not None and self.agent_mode not in AGENT_MODES:
            raise misuse("--agent-mode", f"{self.agent_mode[:40]!r} is neither answer nor edit")
        found = self.agent_mode or workflow.agent_mode or cli.configuration.run.agent_mode
        if found != "edit" and (self.agent_network is not None or self.agent_env):
            name = "--agent-network" if self.agent_network is not None else "--agent-env"
            raise misuse(name, "is of an agent that edits in place; add --agent-mode edit")
        return workflow if found == "answer" else evolve(workflow, agent_mode=found)

    def choice(self, cli: Cli, workflow: Workflow, *, optional: bool) -> AgentChoice | None:
        """Return the agent for the workflow's mode; write a remark if it is not sealed.

        Without one return None if it is optional: a dry run and some programs call none.

        Raises:
            typer.BadParameter: No agent is named, or it can't edit.
        """
        if optional and self.agent is None and cli.configuration.run.agent is None:
            return None
        from ....agents.running.logins import login_files

        choice = self._named(cli)
        if not workflow.edits or choice.kind == "recorded":
            return choice
        if choice.kind not in {"command", "program"}:
            instead = "name a command, or leave the mode at answer"
            raise misuse("--agent", f"{choice.value} can't edit files in place; {instead}")
        said = cli.configuration.run
        network = said.agent_network if self.agent_network is None else self.agent_network
        names = tuple(dict.fromkeys((*said.agent_environment, *(self.agent_env or ()))))
        login = None
        if network and choice.kind == "program" and cli.submission is None:
            login = login_files(choice.value, names)
        if login is not None and login.files:
            cli.output.remark(f"{choice.value} is logged in by a copy of {login.path}.")
        if network and not self.no_jail:
            cli.output.remark(
                "The agent runs in a jail with the network: it is not sealed, and can send what it "
                "reads."
            )
        return evolve(choice, network=network, environment=names)

    def _named(self, cli: Cli) -> AgentChoice:
        """Return the options' agent, else the configuration's, and remark which one."""
        if self.agent is not None:
            return _parsed(self.agent, self.agent_timeout, self.max_output)
        said = cli.configuration.run
        if said.agent is None:
            raise misuse(
                "--agent",
                "is missing; name an agent, or have the configuration do it (agent in [run])",
            )
        cli.output.remark(f"Agent, as {cli.configuration.path} says: {said.agent}")
        return _parsed(
            said.agent,
            said.agent_timeout_s if self.agent_timeout is None else self.agent_timeout,
            said.max_output if self.max_output is None else self.max_output,
        )

    def made(self, cli: Cli, work: AgentWork) -> PhaseAgent | None:
        """Return the agent of a job, with its answers recorded if requested; None without one.

        Raises:
            typer.BadParameter: The agent can't be called.
        """
        from ....agents.running import Recorder

        if work.agent is None:
            return None
        asked = [phase.name for phase in work.workflow.phases if phase.prompt is not None]
        agent = _make(cli, work, work.agent, first_phase=asked[0] if asked else None)
        return agent if self.record is None else Recorder(agent, self.record)


@frozen
class OtherAgent:
    """Options for the agent of a session that continues.

    Attributes:
        agent: Use this agent instead of the one that an agent's session names.
    """

    agent: str | None = option("--agent AGENT")
    max_output: int | None = _MAX_OUTPUT
    no_jail: bool = NO_JAIL
    no_wait: bool = NO_WAIT

    def made(self, cli: Cli, work: AgentWork) -> PhaseAgent | None:
        """Return the named agent or the session's own with another limit; else None.

        Another agent works in the session's mode, with the settings of the session's own.

        Raises:
            typer.BadParameter: The agent can't be called.
        """
        own = work.agent
        if self.agent is not None:
            chosen = _parsed(self.agent, None, self.max_output)
            if own is not None:
                chosen = evolve(chosen, network=own.network, environment=own.environment)
            return _make(cli, work, chosen)
        if self.max_output is None or own is None:
            return None
        return _make(cli, work, evolve(own, max_output=self.max_output))


def _parsed(agent: str, timeout_s: float | None, max_output: int | None) -> AgentChoice:
    from ....workflows.agents.choice import parse_agent

    try:
        return parse_agent(agent, timeout_s=timeout_s, max_output=max_output)
    except ValueError as error:
        raise misuse("--agent", str(error)) from error


def _make(
    cli: Cli, work: AgentWork, choice: AgentChoice, *, first_phase: str | None = None
) -> PhaseAgent:
    """Return a callable agent; refuse one that can't be called before a session is created."""
    from ....wiring.bootstrap import build_editing_agent
    from ....workflows.agents.choice import check_agent, make_agent
    from ....workflows.agents.port import AgentUnavailable

    try:
        if work.workflow.edits:
            agent = build_editing_agent(cli.store(), choice, jail=cli.jail())
        else:
            agent = make_agent(choice)
        check_agent(agent, first_phase=first_phase)
    except (AgentUnavailable, ValueError) as error:
        raise misuse("--agent", f"{error}; no session was begun or changed") from error
    return agent
