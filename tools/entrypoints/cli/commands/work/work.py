"""Commands that run phases: run, resume, retry."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from .....base.settings.beginnings.scaffold import examples, find_example
from .....workflows import load_workflow
from ...context import Cli
from ...options import Labels, SessionId, argument, flag, misuse, option
from ...running.agent_options import OtherAgent
from ...running.run_session import RepositoryBase, go_on, start_scripts
from ...trusting import require_trusted


def run(
    cli: Cli,
    *,
    workflow: Path | None = argument(
        "WORKFLOW.yaml", "The workflow file; the configuration's by default.", None
    ),
    example: bool = flag(
        "--example",
        "Take the example of that name, which comes with the package; without a name, list them.",
    ),
    isolation: str | None = option(
        "--isolation WHERE",
        "Where scripts run: sandbox, jail, or an executor that an installed package adds; as the "
        "file says if not given, else the configuration.",
    ),
    base: RepositoryBase,
    labels: Labels,
) -> None:
    """Run a workflow in a new session."""
    cli = evolve(cli, labels=labels.of_session())
    if example and workflow is None:
        _list_examples(cli)
        return
    named = workflow or cli.configuration.run.workflow
    if example:
        named = find_example(str(workflow)).workflow
    if named is None:
        raise misuse(
            "WORKFLOW.yaml",
            "is missing; name a workflow file, or have the configuration do it (workflow in "
            "[run]). `agentforge run --example hello` needs none",
        )
    configured = cli.configuration.run.isolation
    loaded = load_workflow(named, isolation="sandbox" if example else configured)
    if workflow is None and not example:
        require_trusted(cli.configuration, loaded)
    begun = base.attachments(cli)
    start_scripts(cli, loaded if isolation is None else evolve(loaded, isolation=isolation), begun)


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


def resume(cli: Cli, session_id: SessionId, other: OtherAgent) -> None:
    """Resume a session after a pause, a failure or a crash."""
    go_on(cli, session_id, other, lambda runner, whole, agent: runner.resume(whole, agent))


def retry(
    cli: Cli,
    session_id: SessionId,
    *,
    reason: str | None = option(
        "--reason, -r TEXT", "What is different this time; recorded in the history."
    ),
    back_to: str | None = option(
        "--from PHASE", "Go back to where this phase began, with all files, failed or not."
    ),
    other: OtherAgent,
) -> None:
    """Begin another attempt at a session's failed phase, beyond the workflow's limit too."""
    go_on(
        cli,
        session_id,
        other,
        lambda runner, whole, agent: runner.retry(whole, reason, agent, back_to=back_to),
    )
