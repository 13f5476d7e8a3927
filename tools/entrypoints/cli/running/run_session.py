"""Run a session's phases, scripts or an agent's that asks a person, or submit them to the fleet."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import typer
from attrs import evolve, frozen

from ....base.errors import AgentForgeError
from ....fleet.stores import is_database
from ..context import Cli
from ..default_sessions import default_base
from ..options import flag, misuse, option
from ..output.documents import error_document, selected
from ..output.errors import ExitCode
from .running import run_shown

if TYPE_CHECKING:
    from ....harness.submission import Submission
    from ....wiring.phases.question_channel import QuestionSessionChannel
    from ....workflows import RunOutcome, WorkflowRunner
    from ....workflows.agents.port import PhaseAgent
    from ....workflows.job import AgentWork
    from ....workflows.workflow import Workflow
    from ..output.progress import RunView
    from .agent_options import AgentOptions, OtherAgent
    from .running import End

    Act = Callable[[WorkflowRunner], RunOutcome]

_HEAD: Final = "HEAD"
_WAIT_S: Final = 86_400.0 * 365


@frozen
class RepositoryBase:
    """Repository of a session, as the command line names it.

    Attributes:
        repo: Work on this git repository: the workspace is a checkout of a commit of it. Your own
            checkout is not changed. The configuration's by default; none: without one.
        base: The commit of the repository to begin from; HEAD by default.
        with_uncommitted: Begin with your checkout's uncommitted work, too.
    """

    panel: ClassVar = "Options"

    repo: Path | None = option("--repo PATH")
    base: str | None = option("--base REF")
    with_uncommitted: bool = flag("--with-uncommitted")

    def attachments(self, cli: Cli) -> dict[str, bytes]:
        """Return the files that record a session's repository; none without a repository.

        The configuration supplies what the options leave out.

        Raises:
            typer.BadParameter: A base is named but no repository.
            NotARepository: There is no checkout.
            UnknownRevision: The repository has no such commit.
        """
        named = None if self.base == _HEAD else self.base
        found = cli.configuration.repository.asked_for(
            self.repo, named, with_uncommitted=self.with_uncommitted
        )
        if not found.use:
            if named is not None or self.with_uncommitted:
                option = "--base" if named is not None else "--with-uncommitted"
                raise misuse(option, "is of a repository, and none is named; add --repo PATH")
            return {}
        from ....wiring.bootstrap import open_snapshots

        if self.repo is None:
            cli.output.remark(
                f"Repository, as {cli.configuration.path} says: {found.path.resolve()} at "
                f"{found.revision}"
            )
        return open_snapshots(cli.store()).attachments(
            found.path, found.revision, with_uncommitted=found.with_uncommitted
        )


def start_agent(
    cli: Cli,
    work: AgentWork,
    options: AgentOptions,
    *,
    budget: int | None,
    attachments: Mapping[str, bytes],
    special: Special | None = None,
) -> str | None:
    """Create a session for an agent's work and run it; return its id if it completed."""
    if cli.submission is not None:
        if options.record is not None:
            raise misuse("--record", "the work is done by a worker, elsewhere; leave it out")
        submit_work(cli, work, budget=budget, attachments=attachments)
        return None
    agent = options.made(cli, work)

    def act(runner: WorkflowRunner) -> RunOutcome:
        return runner.start(
            work, agent, token_budget=budget, attachments=attachments, labels=cli.labels
        )

    return run_agent(cli, act, wait=not options.no_wait, special=special)


def start_scripts(cli: Cli, workflow: Workflow, attachments: Mapping[str, bytes]) -> None:
    """Create a session for a workflow of scripts and run it."""
    if cli.submission is not None:
        submit_work(cli, workflow, attachments=attachments)
        return
    _run_scripts(
        cli,
        lambda runner: runner.start(workflow, attachments=attachments, labels=cli.labels),
        workflow.isolation,
    )


def go_on(
    cli: Cli,
    shortened: str,
    other: OtherAgent,
    act: Callable[[WorkflowRunner, str, PhaseAgent | None], RunOutcome],
) -> None:
    """Continue a session, with another agent if one is named.

    Args:
        cli: The global options.
        shortened: The session's id, or a part of it.
        other: The other agent.
        act: Continues a session by its id.

    Raises:
        typer.BadParameter: An agent is named but the session runs scripts, or a program leads it.
    """
    from ....harness.steps.step_views import words_to_go_on
    from ....wiring.bootstrap import isolation_of
    from ....workflows.job import AgentWork, is_agent_session

    session_id = cli.own_id(shortened)
    words = words_to_go_on(cli.store(), session_id)
    if words[0] != "resume":
        raise misuse(
            "ID",
            f"a program leads session {session_id}; start it again: {cli.command(*words)}. Before "
            "that, `agentforge session rewind ID STEP` has a failed step run again",
        )
    if is_agent_session(cli.store(), session_id):
        work = AgentWork.of_session(cli.store(), session_id)
        cli = cli.without_jail(said=other.no_jail)
        agent = other.made(cli, work)
        run_agent(
            cli,
            lambda runner: act(runner, session_id, agent),
            wait=not other.no_wait,
        )
        return
    if other.agent is not None or other.no_jail:
        name = "--no-jail" if other.agent is None else "--agent"
        raise misuse(name, f"no agent works in session {session_id}: its workflow runs scripts")
    isolation = isolation_of(cli.store(), session_id)
    _run_scripts(cli, lambda runner: act(runner, session_id, None), isolation)


def _run_scripts(cli: Cli, act: Act, isolation: str) -> None:
    from ....workflows import WorkflowRunner
    from ..output.progress import run_view

    manager = cli.working_manager(isolation)
    view = run_view(manager, cli.output)
    runner = WorkflowRunner(manager, observer=view)
    run_shown(cli, manager, view, lambda: act(runner))


@frozen
class Special:
    """What a command does in its own way when it runs an agent.

    Attributes:
        begin: Is called with the view before the run.
        end: Writes the summary.
    """

    begin: Callable[[RunView], None]
    end: End


def run_agent(cli: Cli, act: Act, *, wait: bool, special: Special | None = None) -> str | None:
    """Run an agent's session, and write the summary; return its id if it completed.

    Args:
        cli: The global options.
        act: Runs the phases.
        wait: Whether to wait for a person's answers.
        special: What the command does in its own way.
    """
    from ....wiring.bootstrap import build_agent_runner
    from ..output.progress import run_view

    directory = _questions_of(cli)
    view: RunView

    def aside() -> AbstractContextManager[object]:
        return view.aside()

    manager = cli.keeping_manager(_channel(cli, directory, aside), cli.program_executor())
    view = run_view(manager, cli.output)
    view.questions_dir = None if directory is None else str(directory)
    view.store = cli.named_store()
    if special is not None:
        special.begin(view)
    runner = build_agent_runner(
        manager=manager,
        gates=cli.outside.gates,
        jail=cli.jail(),
        observer=view,
        answers_timeout_s=_WAIT_S if wait else 0.0,
        monotonic=cli.outside.monotonic,
    )
    end = None if special is None else special.end
    run_shown(cli, manager, view, lambda: act(runner), end=end)
    return view.session_id


def _questions_of(cli: Cli) -> Path | None:
    """Return the questions directory of a base: beside its sessions, where people look."""
    from ....harness.session_layout import DEFAULT_BASE_PATH

    if not cli.base_given or is_database(cli.store_url):
        return None
    base = cli.store().base_path
    return (
        None
        if base in {DEFAULT_BASE_PATH, default_base(cli.configuration)}
        else base.parent / "questions"
    )


def _channel(
    cli: Cli, directory: Path | None, aside: Callable[[], AbstractContextManager[object]]
) -> QuestionSessionChannel:
    """Return the channel of agents' questions, which notifies the person of each one.

    If the command has a terminal, the channel also asks there.
    """
    from ....questions import Notifier, load_config
    from ....wiring.bootstrap import open_agents_questions
    from ....wiring.phases.question_channel import QuestionSessionChannel

    sessions = open_agents_questions(directory, store=cli.store())
    notifier = Notifier(load_config().notify, sessions.where, terminal=sys.stderr)
    if cli.output.json or sys.stdin is None or not sys.stdin.isatty():
        return QuestionSessionChannel(sessions, notify=notifier.notify)
    from .asking_here import TerminalPerson

    return TerminalPerson(
        sessions=sessions,
        notify=notifier.notify,
        output=cli.output,
        aside=aside,
        terminal=sys.stdin.fileno(),
    )


# ------------------------------------------------------------------------------- for the fleet


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
