"""How an agent works: by its answer or in place, and with what; from options and configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from attrs import evolve, frozen

from ..context import Cli

if TYPE_CHECKING:
    from ....workflows.agents.port import AgentChoice
    from ....workflows.workflow import Workflow


@frozen(kw_only=True)
class AgentModeOptions:
    """What the command line says of it.

    Attributes:
        mode: "answer" or "edit", or None for what the workflow or the configuration says.
        network: Whether an agent that edits has the network, or None for the configuration's.
        environment: The names of variables that it is given besides those of the configuration.
    """

    mode: str | None = None
    network: bool | None = None
    environment: tuple[str, ...] = ()

    def of_workflow(self, cli: Cli, workflow: Workflow) -> Workflow:
        """Return a workflow with the mode that holds: the option's, its own, the configuration's.

        Raises:
            typer.BadParameter: There is no such mode, or an option of the other one.
        """
        from ....base.settings.choices import AGENT_MODES

        if self.mode is not None and self.mode not in AGENT_MODES:
            raise typer.BadParameter(
                f"{self.mode[:40]!r} is neither answer nor edit", param_hint="--agent-mode"
            )
        found = self.mode or workflow.agent_mode or cli.configuration.run.agent_mode
        if found != "edit" and (self.network is not None or self.environment):
            name = "--agent-network" if self.network is not None else "--agent-env"
            raise typer.BadParameter(
                "is of an agent that edits in place; add --agent-mode edit", param_hint=name
            )
        return workflow if found == "answer" else evolve(workflow, agent_mode=found)

    def of_agent(
        self, cli: Cli, workflow: Workflow, choice: AgentChoice | None
    ) -> AgentChoice | None:
        """Return an agent with what it is given for the workflow's mode; say so if it is unsealed.

        Raises:
            typer.BadParameter: It can't edit.
        """
        if choice is None or not workflow.edits or choice.kind == "recorded":
            return choice
        if choice.kind not in {"command", "program"}:
            raise typer.BadParameter(
                f"{choice.value} can't edit files in place; name a command, or leave the mode at "
                "answer",
                param_hint="--agent",
            )
        said = cli.configuration.run
        network = said.agent_network if self.network is None else self.network
        names = tuple(dict.fromkeys((*said.agent_environment, *self.environment)))
        if network:
            cli.output.remark(
                "The agent runs in a jail with the network: it is not sealed, and can send what it "
                "reads."
            )
        return evolve(choice, network=network, environment=names)
