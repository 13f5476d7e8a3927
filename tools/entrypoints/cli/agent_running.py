"""Run phases in which an agent works: make the agent, put its questions to a person, and run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from .context import Cli, default_base
from .running import run_shown

if TYPE_CHECKING:
    from ...adapters.question_channel import QuestionSessionChannel
    from ...harness import SessionContext, SessionStore
    from ...workflows import RunOutcome
    from ...workflows.agent_runner import AgentRunner
    from ...workflows.agents import PhaseAgent
    from ...workflows.agents.port import AgentChoice
    from ...workflows.job import AgentWork
    from .progress import RunView

_WAIT_S: Final = 86_400.0 * 365


def choose_agent(agent: str, timeout_s: float | None, max_output: int | None) -> AgentChoice:
    """Return the agent that the options describe.

    Raises:
        typer.BadParameter: They describe none.
    """
    from ...workflows.agents.choice import parse_agent

    try:
        return parse_agent(agent, timeout_s=timeout_s, max_output=max_output)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--agent") from error


def start_agent(
    cli: Cli, work: AgentWork, *, budget: int | None, record: Path | None, wait: bool
) -> None:
    """Begin a session for an agent's work, and run it."""
    from ...workflows.agents import Recorder

    assert work.agent is not None  # noqa: S101 (each command asks for one)
    asked = [phase.name for phase in work.workflow.phases if phase.prompt is not None]
    agent = _make(work.agent, first_phase=asked[0] if asked else None)
    if record is not None:
        agent = Recorder(agent, record)
    _run(cli, lambda runner: runner.start(work, agent, token_budget=budget), wait=wait)


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
    other = _other_agent(cli, session_id, agent, max_output)
    if retry:
        _run(
            cli, lambda runner: runner.retry(session_id, reason, other, back_to=back_to), wait=wait
        )
    else:
        _run(cli, lambda runner: runner.resume(session_id, other), wait=wait)


def _make(choice: AgentChoice, *, first_phase: str | None = None) -> PhaseAgent:
    """Return an agent that can be called; refuse one that can't before a session begins."""
    from ...workflows.agents import AgentUnavailable
    from ...workflows.agents.choice import check_agent, make_agent

    try:
        agent = make_agent(choice)
        check_agent(agent, first_phase=first_phase)
    except (AgentUnavailable, ValueError) as error:
        raise typer.BadParameter(
            f"{error}; no session was begun or changed", param_hint="--agent"
        ) from error
    return agent


def _other_agent(
    cli: Cli, session_id: str, agent: str | None, max_output: int | None
) -> PhaseAgent | None:
    """Return the named agent, or the session's own with another limit; else None."""
    from attrs import evolve

    from ...workflows.job import AgentWork

    if agent is not None:
        return _make(choose_agent(agent, None, max_output))
    if max_output is None:
        return None
    named = AgentWork.of_session(cli.store(), session_id).agent
    return None if named is None else _make(evolve(named, max_output=max_output))


def _run(cli: Cli, act: Callable[[AgentRunner], RunOutcome], *, wait: bool) -> None:
    from ...bootstrap import build_agent_runner
    from .progress import run_view

    directory = _questions_of(cli.store())
    view: RunView

    def aside() -> AbstractContextManager[object]:
        return view.aside()

    manager = cli.manager(_desk(cli, directory, aside))
    view = run_view(manager, cli.output)
    view.questions_dir = None if directory is None else str(directory)
    runner = build_agent_runner(
        manager=manager,
        gates=cli.outside.gates,
        observer=view,
        answers_timeout_s=_WAIT_S if wait else 0.0,
    )
    run_shown(
        cli,
        manager,
        view,
        lambda: act(runner),
        in_sandbox=cli.outside.gates is None,
        following=lambda session, outcome: _next_command(cli, session, view, outcome),
        details=lambda outcome: _details(view, outcome),
    )


def _questions_of(store: SessionStore) -> Path | None:
    """Return where the questions of a base are: beside its sessions, where people look."""
    from ...harness.session_store import DEFAULT_BASE_PATH

    base = store.base_path
    return None if base in {DEFAULT_BASE_PATH, default_base()} else base.parent / "questions"


def _desk(
    cli: Cli, directory: Path | None, aside: Callable[[], AbstractContextManager[object]]
) -> QuestionSessionChannel:
    """Return the channel of agents' questions, which notifies the person of each.

    Where this command has a terminal, the person is asked at it besides.
    """
    from ...adapters.question_channel import QuestionSessionChannel, agents_questions
    from ...questions import Notifier, load_config

    sessions = agents_questions(directory)
    notifier = Notifier(load_config().notify, sessions.base_dir, terminal=sys.stderr)
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


def _next_command(cli: Cli, session: SessionContext, view: RunView, outcome: RunOutcome) -> str:
    from ...workflows.run_outcome import StopCause

    session_id = session.session_id
    if session.state.is_terminal:
        return cli.command("report", session_id)
    if outcome.waiting_for is not None:
        return view.answer_command(outcome.waiting_for)
    reason = outcome.reason or ""
    if outcome.cause is StopCause.PERSON and "retry --from " in reason:
        back_to = reason.split("retry --from ", 1)[1].split(" ", 1)[0]
        return cli.command("retry", session_id, "--from", back_to)
    if "extend the budget by " in reason:
        amount = reason.split("extend the budget by ", 1)[1].split(" ", 1)[0].replace(",", "")
        return cli.command("budget", session_id, "--extend", amount)
    return cli.command("retry" if "only retry" in reason else "resume", session_id)


def _details(view: RunView, outcome: RunOutcome) -> dict[str, Any]:
    return {
        "attempts": dict(outcome.attempts),
        "waiting_for": outcome.waiting_for,
        "cause": None if outcome.cause is None else outcome.cause.value,
        "verdicts": [
            {"phase": phase, "round": number, "attempt": attempt, **verdict.to_json()}
            for phase, number, attempt, verdict in view.verdicts
        ],
    }
