"""Run the phases of a session: make its agent, put its questions to a person, and run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer
from attrs import frozen

from ....fleet.stores import is_database
from ..context import Cli
from ..default_sessions import default_base
from ..options import DEFAULT_REVISION
from .running import run_shown
from .submitting import require_no, submit_work

if TYPE_CHECKING:
    from ....wiring.phases.question_channel import QuestionSessionChannel
    from ....workflows import RunOutcome, WorkflowRunner
    from ....workflows.agents import PhaseAgent
    from ....workflows.agents.port import AgentChoice
    from ....workflows.job import AgentWork
    from ....workflows.workflow import Workflow
    from ..output.progress import RunView

    Act = Callable[[WorkflowRunner], RunOutcome]

_WAIT_S: Final = 86_400.0 * 365


def choose_agent(agent: str, timeout_s: float | None, max_output: int | None) -> AgentChoice:
    """Return the agent that the options describe.

    Raises:
        typer.BadParameter: They describe none.
    """
    from ....workflows.agents.choice import parse_agent

    try:
        return parse_agent(agent, timeout_s=timeout_s, max_output=max_output)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--agent") from error


def named_agent(
    cli: Cli, agent: str | None, timeout_s: float | None, max_output: int | None
) -> AgentChoice:
    """Return the agent that the options describe, or else the configuration, which is then said.

    Raises:
        typer.BadParameter: Neither does, or what they say is none.
    """
    if agent is not None:
        return choose_agent(agent, timeout_s, max_output)
    said = cli.configuration.run
    if said.agent is None:
        raise typer.BadParameter(
            "is missing; name an agent, or have the configuration do it (agent in [run])",
            param_hint="--agent",
        )
    cli.output.remark(f"Agent, as {cli.configuration.path} says: {said.agent}")
    return choose_agent(
        said.agent,
        said.agent_timeout_s if timeout_s is None else timeout_s,
        said.max_output if max_output is None else max_output,
    )


@frozen
class RepositoryBase:
    """The repository that a session works on, as the command line names it.

    Attributes:
        repository: A folder inside its checkout, or None for a session without a repository.
        revision: The commit that the workspace begins with.
        with_uncommitted: Whether the workspace also has what the checkout has not committed.
    """

    repository: Path | None
    revision: str
    with_uncommitted: bool

    def attachments(self, cli: Cli) -> dict[str, bytes]:
        """Return the files by which a session knows its repository; none without one.

        What the options leave open, the configuration says.

        Raises:
            typer.BadParameter: A base is named, and no repository.
            NotARepository: There is no checkout of one.
            UnknownRevision: It has no such commit.
        """
        named = None if self.revision == DEFAULT_REVISION else self.revision
        found = cli.configuration.repository.asked_for(
            self.repository, named, with_uncommitted=self.with_uncommitted
        )
        if not found.use:
            if named is not None or self.with_uncommitted:
                option = "--base" if named is not None else "--with-uncommitted"
                raise typer.BadParameter(
                    "is of a repository, and none is named; add --repo PATH", param_hint=option
                )
            return {}
        from ....wiring.bootstrap import open_snapshots

        if self.repository is None:
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
    *,
    budget: int | None,
    record: Path | None,
    wait: bool,
    attachments: Mapping[str, bytes] | None = None,
) -> str | None:
    """Begin a session for an agent's work, and run it; return its id when it is completed."""
    from ....workflows.agents import Recorder

    if cli.submission is not None:
        require_no(record, "--record")
        submit_work(cli, work, budget=budget, attachments=attachments)
        return None
    assert work.agent is not None  # noqa: S101 (each command asks for one)
    asked = [phase.name for phase in work.workflow.phases if phase.prompt is not None]
    first = asked[0] if asked else None
    agent = _make(cli, work.agent, edits=work.workflow.edits, first_phase=first)
    if record is not None:
        agent = Recorder(agent, record)

    def act(runner: WorkflowRunner) -> RunOutcome:
        return runner.start(
            work, agent, token_budget=budget, attachments=attachments, labels=cli.labels
        )

    return _run_agent(cli, act, wait=wait, needs_sandbox=work.workflow.needs_sandbox)


def resume_agent(
    cli: Cli,
    session_id: str,
    *,
    agent: str | None,
    max_output: int | None = None,
    wait: bool,
    retry: bool = False,
    reason: str | None = None,
    back_to: str | None = None,
) -> None:
    """Resume or retry an agent's session; with another agent if one is named."""
    from ....workflows.job import AgentWork

    other = _other_agent(cli, session_id, agent, max_output)
    act = _taking_up(session_id, other, retry=retry, reason=reason, back_to=back_to)
    workflow = AgentWork.of_session(cli.store(), session_id).workflow
    _run_agent(cli, act, wait=wait, needs_sandbox=workflow.needs_sandbox)


def _taking_up(
    session_id: str,
    agent: PhaseAgent | None = None,
    *,
    retry: bool,
    reason: str | None,
    back_to: str | None = None,
) -> Act:
    if retry:
        return lambda runner: runner.retry(session_id, reason, agent, back_to=back_to)
    return lambda runner: runner.resume(session_id, agent)


def start_scripts(
    cli: Cli, workflow: Workflow, attachments: Mapping[str, bytes] | None = None
) -> None:
    """Begin a session for a workflow of scripts, and run it."""
    if cli.submission is not None:
        submit_work(cli, workflow, attachments=attachments)
        return
    _run_scripts(
        cli,
        lambda runner: runner.start(workflow, attachments=attachments, labels=cli.labels),
        workflow.isolation,
    )


def resume_scripts(
    cli: Cli,
    session_id: str,
    *,
    retry: bool = False,
    reason: str | None = None,
    back_to: str | None = None,
) -> None:
    """Resume or retry a session that runs scripts."""
    from ....wiring.bootstrap import isolation_of

    act = _taking_up(session_id, retry=retry, reason=reason, back_to=back_to)
    _run_scripts(cli, act, isolation_of(cli.store(), session_id))


def _make(
    cli: Cli, choice: AgentChoice, *, edits: bool, first_phase: str | None = None
) -> PhaseAgent:
    """Return an agent that can be called; refuse one that can't before a session begins."""
    from ....wiring.bootstrap import build_editing_agent
    from ....workflows.agents import AgentUnavailable
    from ....workflows.agents.choice import check_agent, make_agent

    try:
        jail = cli.jail()
        agent = build_editing_agent(cli.store(), choice, jail=jail) if edits else make_agent(choice)
        check_agent(agent, first_phase=first_phase)
    except (AgentUnavailable, ValueError) as error:
        raise typer.BadParameter(
            f"{error}; no session was begun or changed", param_hint="--agent"
        ) from error
    return agent


def _other_agent(
    cli: Cli, session_id: str, agent: str | None, max_output: int | None
) -> PhaseAgent | None:
    """Return the named agent, or the session's own with another limit; else None.

    Another agent works in the session's mode, and with what its own was given.
    """
    from attrs import evolve

    from ....workflows.job import AgentWork

    if agent is None and max_output is None:
        return None
    work = AgentWork.of_session(cli.store(), session_id)
    own, edits = work.agent, work.workflow.edits
    if agent is not None:
        chosen = choose_agent(agent, None, max_output)
        if own is not None:
            chosen = evolve(chosen, network=own.network, environment=own.environment)
        return _make(cli, chosen, edits=edits)
    return None if own is None else _make(cli, evolve(own, max_output=max_output), edits=edits)


def _run_scripts(cli: Cli, act: Act, isolation: str) -> None:
    from ....workflows import WorkflowRunner
    from ..output.progress import run_view

    manager = cli.working_manager(isolation)
    view = run_view(manager, cli.output)
    runner = WorkflowRunner(manager, observer=view)
    in_sandbox = cli.outside.executor is None and isolation == "sandbox"
    run_shown(cli, manager, view, lambda: act(runner), in_sandbox=in_sandbox)


def _run_agent(cli: Cli, act: Act, *, wait: bool, needs_sandbox: bool) -> str | None:
    from ....wiring.bootstrap import build_agent_runner
    from ..output.progress import run_view

    directory = _questions_of(cli)
    view: RunView

    def aside() -> AbstractContextManager[object]:
        return view.aside()

    manager = cli.keeping_manager(_channel(cli, directory, aside))
    view = run_view(manager, cli.output)
    view.questions_dir = None if directory is None else str(directory)
    view.store = cli.named_store()
    runner = build_agent_runner(
        manager=manager,
        gates=cli.outside.gates,
        jail=cli.jail(),
        observer=view,
        answers_timeout_s=_WAIT_S if wait else 0.0,
        monotonic=cli.outside.monotonic,
    )
    in_sandbox = needs_sandbox and cli.outside.gates is None
    run_shown(cli, manager, view, lambda: act(runner), in_sandbox=in_sandbox)
    return view.session_id


def _questions_of(cli: Cli) -> Path | None:
    """Return where the questions of a base are: beside its sessions, where people look."""
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
    """Return the channel of agents' questions, which notifies the person of each.

    Where this command has a terminal, the person is asked at it besides.
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
