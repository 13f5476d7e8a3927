"""Commands that run phases: run, resume, retry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..agent_running import resume_agent
from ..context import Cli, cli_of
from ..options import AsJson, MaxOutput, NoWait, OtherAgent, SessionId, argument, option
from ..running import run_shown

if TYPE_CHECKING:
    from ....harness import SessionContext
    from ....workflows import RunOutcome, WorkflowRunner
    from ..progress import RunView


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("run")(run)
    app.command("resume")(resume)
    app.command("retry", short_help="Begin another attempt at a session's failed phase.")(retry)


def run(
    context: typer.Context,
    workflow: Annotated[Path, argument("WORKFLOW.yaml", "The workflow file.")],
    as_json: AsJson = False,
) -> None:
    """Run a workflow in a new session."""
    from ....workflows import load_workflow

    cli = cli_of(context, json=as_json)
    loaded = load_workflow(workflow)
    _work(cli, lambda runner: runner.start(loaded))


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
    whole = cli.store().resolve(session_id)
    if _is_agents(cli, whole):
        resume_agent(cli, whole, agent=agent, max_output=max_output, wait=not no_wait)
    else:
        _require_no_agent(whole, agent)
        _work(cli, lambda runner: runner.resume(whole))


def retry(
    context: typer.Context,
    session_id: SessionId,
    reason: Annotated[
        str | None, option("--reason, -r", "What is different this time; recorded in the history.")
    ] = None,
    back_to: Annotated[
        str | None,
        option("--from PHASE", "Repeat from this phase on, failed or not; agents' sessions only."),
    ] = None,
    agent: OtherAgent = None,
    max_output: MaxOutput = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Begin another attempt at a session's failed phase, beyond the workflow's limit too."""
    cli = cli_of(context, json=as_json)
    whole = cli.store().resolve(session_id)
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
        if back_to is not None:
            raise typer.BadParameter(
                f"session {whole} runs scripts; only an agent's session goes back",
                param_hint="--from",
            )
        _work(cli, lambda runner: runner.retry(whole, reason))


def _is_agents(cli: Cli, session_id: str) -> bool:
    from ....workflows.job import is_agent_session

    return is_agent_session(cli.store(), session_id)


def _require_no_agent(session_id: str, agent: str | None) -> None:
    """Refuse an agent that would never be called."""
    if agent is not None:
        raise typer.BadParameter(
            f"no agent works in session {session_id}: its workflow runs scripts",
            param_hint="--agent",
        )


# -------------------------------------------------------------------------------------- the work


def _work(cli: Cli, act: Callable[[WorkflowRunner], RunOutcome]) -> None:
    from ....workflows import WorkflowRunner
    from ..progress import run_view

    manager = cli.working_manager()
    view = run_view(manager, cli.output)
    run_shown(
        cli,
        manager,
        view,
        lambda: act(WorkflowRunner(manager, view)),
        in_sandbox=cli.outside.executor is None,
        following=lambda session, _: _next_command(cli, session, view),
        details=lambda _: _details(view),
    )


def _next_command(cli: Cli, session: SessionContext, view: RunView) -> str:
    """Return the command that a person most likely wants now."""
    session_id = session.session_id
    if session.state.is_terminal:
        return cli.command("artifacts" if session.artifacts else "show", session_id)
    phases = {phase.name: phase for phase in view.workflow.phases} if view.workflow else {}
    nearest = next((row for row in view.rows if row.state != "succeeded"), None)
    if nearest is not None:
        phase = phases[nearest.name]
        missing = phase.tokens - session.token_budget.tokens_remaining
        if missing > 0:
            return cli.command("budget", session_id, "--extend", str(missing))
        if nearest.state == "failed" and nearest.attempt >= phase.max_attempts:
            return cli.command("retry", session_id)
    return cli.command("resume", session_id)


def _details(view: RunView) -> dict[str, Any]:
    last = view.last
    return {
        "phases": [
            {
                "name": row.name,
                "state": row.state,
                "attempt": row.attempt,
                "duration_s": row.duration_s,
                "tokens": row.tokens,
            }
            for row in view.rows
        ],
        "last_result": None
        if last is None
        else {
            "success": last.success,
            "problem": view.problem,
            "exit_code": last.exit_code,
            "trapped": last.trapped,
            "duration_s": last.duration_s,
            "stdout": last.stdout,
            "stderr": last.stderr,
        },
    }
