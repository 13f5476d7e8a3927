"""Commands that run phases: run, resume, retry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...context import Cli, cli_of
from ...options import (
    DEFAULT_REVISION,
    AsJson,
    BaseRevision,
    MaxOutput,
    Metadata,
    NoWait,
    OtherAgent,
    Repo,
    SessionId,
    Tags,
    Title,
    WithUncommitted,
    argument,
    labels_of,
    option,
)
from ...running.run_session import RepositoryBase, resume_agent, resume_scripts, start_scripts


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("run")(run)
    app.command("resume")(resume)
    app.command("retry", short_help="Begin another attempt at a session's failed phase.")(retry)


def run(
    context: typer.Context,
    workflow: Annotated[
        Path | None,
        argument("WORKFLOW.yaml", "The workflow file; the configuration's by default."),
    ] = None,
    example: Annotated[
        bool,
        option(
            "--example",
            "Take the example of that name, which comes with the package; without a name, list "
            "them.",
        ),
    ] = False,
    repo: Repo = None,
    base: BaseRevision = DEFAULT_REVISION,
    with_uncommitted: WithUncommitted = False,
    isolation: Annotated[
        str | None,
        option(
            "--isolation WHERE",
            "Where scripts run: sandbox, jail, or an executor that an installed package adds; as "
            "the file says if not given, else the configuration.",
        ),
    ] = None,
    title: Title = None,
    tags: Tags = None,
    metadata: Metadata = None,
    as_json: AsJson = False,
) -> None:
    """Run a workflow in a new session."""
    from attrs import evolve

    from .....workflows import load_workflow
    from ...trusting import require_trusted

    cli = cli_of(context, json=as_json).labelled(labels_of(title, tags, metadata))
    if example and workflow is None:
        _list_examples(cli)
        return
    named = _example(workflow) if example else workflow or cli.configuration.run.workflow
    if named is None:
        raise typer.BadParameter(
            "is missing; name a workflow file, or have the configuration do it (workflow in "
            "[run]). `agentforge run --example hello` needs none",
            param_hint="WORKFLOW.yaml",
        )
    configured = cli.configuration.run.isolation
    loaded = load_workflow(named, isolation="sandbox" if example else configured)
    if workflow is None and not example:
        require_trusted(cli.configuration, loaded)
    begun = RepositoryBase(repo, base, with_uncommitted).attachments(cli)
    start_scripts(cli, loaded if isolation is None else evolve(loaded, isolation=isolation), begun)


def _example(name: Path | None) -> Path:
    from .....base.settings.beginnings.examples import find_example

    return find_example(str(name)).workflow


def _list_examples(cli: Cli) -> None:
    from .....base.settings.beginnings.examples import examples
    from .....workflows import load_workflow
    from ...output import render

    found = [(one, load_workflow(one.workflow)) for one in examples()]
    if cli.output.json:
        cli.output.document(
            {
                "examples": [
                    {"name": one.name, "goal": workflow.goal, "path": str(one.workflow)}
                    for one, workflow in found
                ]
            }
        )
        return
    made = render.table("EXAMPLE", "WHAT IT SHOWS")
    for one, workflow in found:
        made.add_row(render.words(one.name), render.words(workflow.goal or ""))
    cli.output.show(made)


def resume(
    context: typer.Context,
    session_id: SessionId,
    agent: OtherAgent = None,
    max_output: MaxOutput = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Resume a session after a pause, a failure or a crash."""
    cli = cli_of(context, json=as_json)
    whole = cli.own_id(session_id)
    if _is_agents(cli, whole):
        resume_agent(cli, whole, agent=agent, max_output=max_output, wait=not no_wait)
    else:
        _require_no_agent(whole, agent)
        resume_scripts(cli, whole)


def retry(
    context: typer.Context,
    session_id: SessionId,
    reason: Annotated[
        str | None, option("--reason, -r", "What is different this time; recorded in the history.")
    ] = None,
    back_to: Annotated[
        str | None,
        option("--from PHASE", "Go back to where this phase began, with all files, failed or not."),
    ] = None,
    agent: OtherAgent = None,
    max_output: MaxOutput = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Begin another attempt at a session's failed phase, beyond the workflow's limit too."""
    cli = cli_of(context, json=as_json)
    whole = cli.own_id(session_id)
    if _is_agents(cli, whole):
        resume_agent(
            cli,
            whole,
            agent=agent,
            max_output=max_output,
            wait=not no_wait,
            retry=True,
            reason=reason,
            back_to=back_to,
        )
    else:
        _require_no_agent(whole, agent)
        resume_scripts(cli, whole, retry=True, reason=reason, back_to=back_to)


def _is_agents(cli: Cli, session_id: str) -> bool:
    from .....workflows.job import is_agent_session

    return is_agent_session(cli.store(), session_id)


def _require_no_agent(session_id: str, agent: str | None) -> None:
    """Refuse an agent that would never be called."""
    if agent is not None:
        raise typer.BadParameter(
            f"no agent works in session {session_id}: its workflow runs scripts",
            param_hint="--agent",
        )
