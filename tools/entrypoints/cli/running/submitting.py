"""Submit a session to the fleet: a new one at its creation, or an existing one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING

import typer
from attrs import evolve

from ....base.errors import AgentForgeError
from ..context import Cli
from ..output.documents import error_document, selected
from ..output.exit_codes import ExitCode

if TYPE_CHECKING:
    from ....harness.submission import Submission
    from ....workflows.job import AgentWork
    from ....workflows.workflow import Workflow


def submit_work(
    cli: Cli,
    work: Workflow | AgentWork,
    *,
    budget: int | None = None,
    attachments: Mapping[str, bytes] | None = None,
) -> str:
    """Create a session that the fleet runs, print how to follow it, and return its id."""
    from ....base.settings.choices import ISOLATIONS
    from ....wiring.fleet import SubmittingRunner
    from ....workflows.submitted_work import ExecutorNotAllowed
    from ....workflows.workflow import Workflow

    if isinstance(work, Workflow) and work.isolation not in ISOLATIONS:
        raise ExecutorNotAllowed(executor=work.isolation)
    runner = SubmittingRunner(cli.keeping_manager())
    session_id = runner.begin(work, token_budget=budget, attachments=attachments, labels=cli.labels)
    _say(cli, session_id)
    return session_id


def submit_existing(cli: Cli, shortened: str) -> None:
    """Submit a session to the fleet again, and print how to follow it.

    Raises:
        SessionNotFound: No session matches.
        SessionNotAdopted: The session is not this person's.
        InvalidStateTransition: The session has ended.
        NotAWorkflowSession: The session was not created by a workflow.
    """
    from ....wiring.fleet import submit_session

    _, session = cli.change(cli.own_id(shortened), submit_session)
    _say(cli, session.session_id)


def submit_failed(cli: Cli, store: str) -> None:
    """Resubmit all sessions that the fleet has given up, each as it was submitted before.

    Names each session that can't be resubmitted and resubmits the others; the exit code is then 1.
    """
    from ....harness.submission import Submission
    from ....wiring.fleet import open_fleet, submit_session

    with open_fleet(store, direct=cli.store_direct) as fleet:
        found = fleet.failed()
    done: list[str] = []
    left: list[tuple[str, AgentForgeError]] = []
    for (queue, priority), sessions in groupby(sorted(found, key=_as_submitted), _as_submitted):
        of_these = evolve(cli, submission=Submission(queue=queue, priority=priority))
        for session_id, _ in sessions:
            try:
                of_these.change(session_id, submit_session)
            except AgentForgeError as error:
                left.append((session_id, error))
            else:
                done.append(session_id)
    failed = [{"session_id": one, **error_document(error)} for one, error in left]
    cli.output.outcome(
        {"submitted": done, "left": failed},
        *(f"Session {one} is submitted again." for one in done),
        *(f"Session {one} was left: {error}" for one, error in left),
        "No session has failed." if not done and not left else None,
    )
    if left:
        raise typer.Exit(ExitCode.NOT_DONE)


def _as_submitted(one: tuple[str, Submission]) -> tuple[str, int]:
    return one[1].queue, one[1].priority


def _say(cli: Cli, session_id: str) -> None:
    submission = cli.submission
    assert submission is not None  # noqa: S101 (only `submit` gets here)
    follow = cli.command("show", session_id, "--follow")
    when = "" if submission.at is None else f", not before {submission.at.isoformat()}"
    about = {"session_id": session_id, **selected(submission, "queue priority at")}
    cli.output.outcome(
        {**about, "next": follow},
        f"Session {session_id} is submitted to queue {submission.queue}{when}.",
        f"To follow it: {follow}",
    )
