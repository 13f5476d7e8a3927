"""Hand a session to the fleet: a new one as it is made, or one that is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from .context import Cli

if TYPE_CHECKING:
    from ...workflows.job import AgentWork
    from ...workflows.workflow import Workflow


def submit_work(
    cli: Cli,
    work: Workflow | AgentWork,
    *,
    budget: int | None = None,
    attachments: Mapping[str, bytes] | None = None,
) -> str:
    """Begin a session that the fleet runs, and say how to follow it; return its id."""
    from ...bootstrap import open_snapshots
    from ...fleet import submitting_runner
    from ...harness import SessionManager

    store = cli.store()
    snapshots = open_snapshots(store, cli.objects_url)
    manager = SessionManager(store, snapshots=snapshots, clock=cli.outside.clock)
    runner = submitting_runner(manager, cli.outside.gates)
    session_id = runner.begin(work, token_budget=budget, attachments=attachments, labels=cli.labels)
    _say(cli, session_id)
    return session_id


def submit_existing(cli: Cli, shortened: str) -> None:
    """Have the fleet go on with a session, and say how to follow it.

    Raises:
        SessionNotFound: There is none.
        InvalidStateTransition: It has ended.
        NotAWorkflowSession: No workflow began it.
    """
    from ...fleet import submit_session

    _, session, _ = cli.change(shortened, submit_session)
    _say(cli, session.session_id)


def _say(cli: Cli, session_id: str) -> None:
    submission = cli.submission
    assert submission is not None  # noqa: S101 (only `submit` gets here)
    follow = cli.command("show", session_id, "--follow")
    if cli.output.json:
        cli.output.document(
            {
                "session_id": session_id,
                "queue": submission.queue,
                "priority": submission.priority,
                "at": submission.at,
                "next": follow,
            }
        )
        return
    when = "" if submission.at is None else f", not before {submission.at.isoformat()}"
    cli.output.line(f"Session {session_id} is submitted to queue {submission.queue}{when}.")
    cli.output.line(f"To follow it: {follow}")


def require_no(value: object, option: str) -> None:
    """Refuse an option that has no meaning where the work is submitted.

    Raises:
        typer.BadParameter: It was given.
    """
    if value:
        raise typer.BadParameter(
            "the work is done by a worker, elsewhere; leave it out", param_hint=option
        )
