"""Commands that run phases: run, resume, retry."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Final

from attrs import evolve, frozen

from .....base.settings.beginnings.scaffold import examples, find_example
from .....workflows import load_workflow
from .....workflows.documents.workflow_document import document_kind, load_agent_workflow
from ...context import Cli
from ...on_demand import GroupWithDefault, new_group
from ...options import SessionId, argument, complete_session_ids, flag, misuse, option
from ...output.documents import state_document
from ...running.agent_options import OtherAgent
from ...running.run_session import go_on, start_scripts
from ...signatures import given
from ...tree import TREE
from ...trusting import require_trusted
from .agent_work import About, AgentBeginning, Component


@frozen
class ScriptOptions:
    """Options of a workflow of scripts.

    Attributes:
        example: Take the example of that name, which comes with the package; without a name, list
            them.
        isolation: Where scripts run: sandbox, jail, or an executor that an installed package adds;
            as the file says if not given, else the configuration.
    """

    panel: ClassVar = "Options of scripts"

    example: bool = flag("--example")
    isolation: str | None = option("--isolation WHERE")


@frozen
class DrivingOptions:
    """Options of an agent's workflow of the person's own.

    Attributes:
        specification: The specification it works from.
    """

    panel: ClassVar = AgentBeginning.panel

    specification: Path | None = option("--spec SPEC")
    component: Component = None
    about: About = None


class RunGroup(GroupWithDefault):
    """The workflows that a session can have: a file, and the built-in ones by their names."""

    default: ClassVar = "WORKFLOW.yaml"

    def chosen(self, word: str) -> str:
        """Return the command for a file; a specification is TDFLOW's, and Python is a program."""
        if word.endswith(".py"):
            return "program"
        if os.path.isfile(word) and document_kind(Path(word)) == "specification":
            return "tdflow"
        return self.default


USAGE: Final = "[WORKFLOW.yaml | PROGRAM.py | tdflow SPEC | spec NAME] [OPTIONS]"

group = new_group(
    "run",
    TREE["run"],
    kind=RunGroup,
    help="Run a workflow in a new session: a file, the configuration's without a word, or a "
    "built-in one by its name. A specification alone is run as tdflow does.",
    epilog="Each shows its options: `agentforge run WORKFLOW.yaml --help`.",
    options_metavar="",
    subcommand_metavar=USAGE,
)


def run(
    cli: Cli,
    *,
    workflow: Path | None = argument("WORKFLOW.yaml", default=None),
    scripts: ScriptOptions,
    agent: DrivingOptions,
    beginning: AgentBeginning,
) -> None:
    """Run a workflow file in a new session: of scripts, or of an agent.

    An option of the other kind of workflow is refused.

    Args:
        workflow: The workflow file; the configuration's by default.
    """
    if agent.component is not None and agent.specification is None:
        raise misuse("--component", "it names a component of the specification; add --spec")
    kind = "workflow" if workflow is None or scripts.example else document_kind(workflow)
    if kind == "agent workflow":
        _refuse(given(scripts), f"is of scripts, and an agent works in {workflow}")
        _drive(cli, workflow or Path(), agent, beginning)
        return
    if kind == "specification":
        raise misuse("WORKFLOW.yaml", f"{workflow} is a specification: `agentforge run tdflow`")
    cli = evolve(cli, labels=beginning.labels.of_session())
    if scripts.example and workflow is None:
        _list_examples(cli)
        return
    named = workflow or cli.configuration.run.workflow
    if scripts.example:
        named = find_example(str(workflow)).workflow
    if named is None:
        raise misuse(
            "WORKFLOW.yaml",
            "is missing; name a workflow file, or have the configuration do it (workflow in "
            "[run]). `agentforge run --example hello` needs none",
        )
    configured = cli.configuration.run.isolation
    loaded = load_workflow(named, isolation="sandbox" if scripts.example else configured)
    if workflow is None:
        require_trusted(cli.configuration, loaded)
    of_agent = [*given(agent), *given(beginning, without=("base", "labels"))]
    _refuse(of_agent, f"is of an agent's work, and {named} runs scripts")
    begun = beginning.base.attachments(cli)
    if scripts.isolation is not None:
        loaded = evolve(loaded, isolation=scripts.isolation)
    start_scripts(cli, loaded, begun)


def _refuse(options: list[str], why: str) -> None:
    for one in options:
        raise misuse(one, why)


def _drive(cli: Cli, path: Path, asked: DrivingOptions, beginning: AgentBeginning) -> None:
    """Have an agent work through a workflow of the person's own."""
    workflow = load_agent_workflow(path)
    if asked.specification is None:
        work = beginning.work(cli, workflow, name=workflow.name, subject=asked.about)
    else:
        work = beginning.component_work(
            cli, workflow, asked.specification, asked.component, asked.about
        )
    beginning.begin(cli, work)


def _list_examples(cli: Cli) -> None:
    found = [(one, load_workflow(one.workflow)) for one in examples()]
    documents = [
        {"name": one.name, "goal": workflow.goal, "path": str(one.workflow)}
        for one, workflow in found
    ]
    if cli.output.wrote({"examples": documents}):
        return
    rows = ((one.name, workflow.goal or "") for one, workflow in found)
    cli.output.table("EXAMPLE", "WHAT IT SHOWS", rows=rows)


def resume(
    cli: Cli,
    session_id: str | None = argument(
        "ID", default=None, autocompletion=complete_session_ids, show_default=False
    ),
    *,
    program: str | None = option("--in PROGRAM"),
    files: str | None = option("--files HOW"),
    other: OtherAgent,
) -> None:
    """Resume a session after a pause, a failure or a crash.

    The session of an agent program is opened in it: in the one that worked last, with its own
    conversation, or with --in in another, in a new one that begins with the briefing.

    Args:
        session_id: The session's id, or an unambiguous part of it; by default the open one that a
            conversation in this folder goes on with.
        program: Take the work up in claude-code, codex, gemini or opencode, in the same folder.
        files: After work on another machine: bring its files to this folder, or leave them.
    """
    from .take_up import is_of_programs, only_open, take_up  # few commands need what it needs

    if session_id is None:
        session_id = only_open(cli)
    if program is None and _leads_a_program(cli, session_id):
        return
    if program is not None or is_of_programs(cli, session_id):
        take_up(cli, session_id, program, files)
        return
    if files is not None:
        raise misuse("--files", "only the session of an agent program has files in your folder")
    go_on(cli, session_id, other, lambda runner, whole, agent: runner.resume(whole, agent))


def _leads_a_program(cli: Cli, shortened: str) -> bool:
    """Make a program's paused session active, and say how it goes on; False for any other."""
    from .....harness.steps.step_views import is_of_program, words_to_go_on

    session_id = cli.own_id(shortened)
    manager, session = cli.load(session_id)
    if not is_of_program(session):
        return False
    session = manager.resume(session_id)
    cli.output.outcome(
        state_document(session, manager.store),
        f"Session {session_id} is {session.state.value}; a program leads it.",
        f"To go on: {cli.command(*words_to_go_on(manager.store, session_id))}",
    )
    return True


def retry(
    cli: Cli,
    session_id: SessionId,
    *,
    reason: str | None = option("--reason, -r TEXT"),
    back_to: str | None = option("--from PHASE"),
    other: OtherAgent,
) -> None:
    """Begin another attempt at a session's failed phase, beyond the workflow's limit too.

    Args:
        reason: What is different this time; recorded in the history.
        back_to: Go back to where this phase began, with all files, failed or not.
    """
    go_on(
        cli,
        session_id,
        other,
        lambda runner, whole, agent: runner.retry(whole, reason, agent, back_to=back_to),
    )
