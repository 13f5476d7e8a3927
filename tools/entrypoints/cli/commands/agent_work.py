"""Commands by which an agent works: tdflow, spec, drive; and the report of a session."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..context import Cli, cli_of, default_base
from ..options import (
    About,
    AgentName,
    AgentTimeout,
    AsJson,
    Component,
    MaxOutput,
    NoWait,
    Record,
    SessionId,
    Tokens,
)
from ..running import prepare_sandbox, showing, tell_outcome, told_how_to_go_on

if TYPE_CHECKING:
    from ....adapters.question_channel import QuestionSessionPerson
    from ....harness import SessionContext, SessionManager, SessionStore
    from ....workflows import RunOutcome
    from ....workflows.agent_runner import AgentRunner
    from ....workflows.agents import PhaseAgent
    from ....workflows.job import AgentChoice, AgentWork
    from ....workflows.workflow_document import Input
    from ..agent_view import AgentView

_SHOWN_EVIDENCE = 12
_WAIT_S = 86_400.0 * 365


def add_to(app: typer.Typer) -> None:
    """Add these commands to the application."""
    app.command("tdflow", short_help="Have an agent develop a component test first.")(tdflow)
    app.command("spec", short_help="Have an agent write a specification with you.")(spec)
    app.command("drive")(drive)
    app.command("report", short_help="Write the story of a session as one HTML page.")(report)


def tdflow(
    context: typer.Context,
    specification: Annotated[
        Path,
        typer.Argument(metavar="SPEC", help="The specification file.", show_default=False),
    ],
    agent: AgentName,
    component: Component = None,
    unittest: Annotated[
        bool,
        typer.Option("--unittest", help="The tests are unittest's instead of pytest's."),
    ] = False,
    budget: Tokens = None,
    agent_timeout: AgentTimeout = None,
    max_output: MaxOutput = None,
    record: Record = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Have an agent develop a component test first: red, green, refactor, verify."""
    from attrs import evolve

    from ....workflows.builtin import TDFLOW

    cli = cli_of(context, json=as_json)
    workflow = TDFLOW
    if unittest:
        workflow = evolve(
            workflow,
            phases=[
                evolve(phase, gate=evolve(phase.gate, framework="unittest"))
                for phase in workflow.phases
            ],
        )
    chosen = _chosen(agent, agent_timeout, max_output)
    work = _component_work(workflow, specification, component, chosen)
    _start(cli, work, budget=budget, record=record, wait=not no_wait)


def spec(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="What the specification is called: 1 to 64 of a-z 0-9 _ -.",
            show_default=False,
        ),
    ],
    agent: AgentName,
    about: About = None,
    about_file: Annotated[
        Path | None,
        typer.Option(
            "--about-file", metavar="FILE", help="What is wanted, in a file.", show_default=False
        ),
    ] = None,
    begin_with: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="SPEC",
            help="A specification that is there already, as the first draft.",
            show_default=False,
        ),
    ] = None,
    budget: Tokens = None,
    agent_timeout: AgentTimeout = None,
    max_output: MaxOutput = None,
    record: Record = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Have an agent write a component specification, with you: intake to approval."""
    from ....workflows.builtin import SPEC

    cli = cli_of(context, json=as_json)
    if about is not None and about_file is not None:
        raise typer.BadParameter("give --about or --about-file, not both")
    subject = about if about_file is None else _text(about_file, "--about-file")
    work = _work(
        workflow=SPEC,
        name=name,
        subject=subject or name,
        agent=_chosen(agent, agent_timeout, max_output),
        inputs=[] if begin_with is None else [_draft(begin_with, name)],
    )
    _start(cli, work, budget=budget, record=record, wait=not no_wait)


def drive(
    context: typer.Context,
    workflow: Annotated[
        Path,
        typer.Argument(
            metavar="WORKFLOW.yaml", help="The agent's workflow file.", show_default=False
        ),
    ],
    agent: AgentName,
    specification: Annotated[
        Path | None,
        typer.Option(
            "--spec", metavar="SPEC", help="The specification it works from.", show_default=False
        ),
    ] = None,
    component: Component = None,
    about: About = None,
    budget: Tokens = None,
    agent_timeout: AgentTimeout = None,
    max_output: MaxOutput = None,
    record: Record = None,
    no_wait: NoWait = False,
    as_json: AsJson = False,
) -> None:
    """Have an agent work through a workflow of your own."""
    from ....workflows.agent_workflow import load_agent_workflow

    cli = cli_of(context, json=as_json)
    if component is not None and specification is None:
        raise typer.BadParameter(
            "it names a component of the specification; add --spec", param_hint="--component"
        )
    loaded = load_agent_workflow(workflow)
    if specification is not None:
        chosen = _chosen(agent, agent_timeout, max_output)
        work = _component_work(loaded, specification, component, chosen, about)
    else:
        work = _work(
            workflow=loaded,
            name=loaded.name,
            subject=about,
            agent=_chosen(agent, agent_timeout, max_output),
        )
    _start(cli, work, budget=budget, record=record, wait=not no_wait)


def report(
    context: typer.Context,
    session_id: SessionId,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where to write it; to ID.html here by default, - is standard output.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the story of a session as one HTML page that opens without a network."""
    from ....durable import DirectoryLock, OsFileSystem, replace_file
    from ....workflows.report import session_report

    cli = cli_of(context, json=as_json)
    manager, session = cli.load(session_id)
    if out == Path("-"):
        if cli.output.json:
            raise typer.BadParameter("the page and --json can't share standard output")
        cli.output.page(session_report(session, manager.store))
        return
    place = _report_place(out if out is not None else Path(f"{session.session_id}.html"))
    page = session_report(session, manager.store)
    fs = OsFileSystem()
    with DirectoryLock(fs, place.parent, follow=True) as lock:
        replace_file(fs, lock.fd, place.name, [page.encode()], path=place)
    if cli.output.json:
        cli.output.document({"session_id": session.session_id, "path": str(place)})
    else:
        cli.output.line(f"Wrote {out or place.name}")


# -------------------------------------------------------------------------------------- the work


def _report_place(path: Path) -> Path:
    """Return the file that is written, behind links; refuse what a file must not take the place of.

    A page is put in place of what is there by its name: of a device that would be the end.
    """
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        raise typer.BadParameter(
            f"{place} is there and is no regular file; nothing was written", param_hint="--out"
        )
    return place


def _draft(path: Path, name: str) -> Input:
    """Read a specification to begin with, where SPEC has its own; a faulty one may be mended."""
    from ....workflows.specification_document import MAX_SPEC_BYTES
    from ....workflows.workflow_document import Input

    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_SPEC_BYTES + 1)
    except OSError as error:
        raise typer.BadParameter(
            f"{path} can't be read: {error.strerror}", param_hint="--from"
        ) from error
    if len(data) > MAX_SPEC_BYTES:
        raise typer.BadParameter(
            f"{path} has more than {MAX_SPEC_BYTES:,} bytes, the limit", param_hint="--from"
        )
    return Input(target=f"specs/{name}.yaml", content=data)


def _text(path: Path, option: str) -> str:
    """Read a text; of one that is too long only as much as shows that it is."""
    from ....workflows.job import MAX_SUBJECT_CHARS

    try:
        with path.open(encoding="utf-8") as stream:
            return stream.read(MAX_SUBJECT_CHARS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} can't be read: {error}", param_hint=option) from error


def _chosen(agent: str, timeout_s: float | None, max_output: int | None) -> AgentChoice:
    from ....workflows.agents.choice import parse_agent

    try:
        return parse_agent(agent, timeout_s=timeout_s, max_output=max_output)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--agent") from error


def _made(choice: AgentChoice, *, first_phase: str | None = None) -> PhaseAgent:
    """Make an agent that can be asked; one that can't is refused before anything is begun."""
    from ....workflows.agents import AgentUnavailable
    from ....workflows.agents.choice import check_agent, make_agent

    try:
        agent = make_agent(choice)
        check_agent(agent, first_phase=first_phase)
    except (AgentUnavailable, ValueError) as error:
        raise typer.BadParameter(
            f"{error}; no session was begun or changed", param_hint="--agent"
        ) from error
    return agent


def _work(**given: Any) -> AgentWork:
    """Say what is to be done; what is wrong with it was said on the command line."""
    from ....workflows.errors import InvalidWorkflow
    from ....workflows.job import AgentWork

    try:
        return AgentWork(**given)
    except InvalidWorkflow as error:
        raise typer.BadParameter("; ".join(error.faults)) from error


def _component_work(
    workflow: Any,
    specification: Path,
    component: str | None,
    agent: AgentChoice,
    about: str | None = None,
) -> AgentWork:
    """Read the specification first: what is wrong with it is told before a session is begun."""
    from ....workflows.specification_document import load_specification

    loaded = load_specification(specification)
    chosen = loaded.component(component, path=specification)
    return _work(
        workflow=workflow,
        name=chosen.component_id,
        subject=about,
        specification=loaded.text.encode(),
        component_id=chosen.component_id,
        agent=agent,
    )


def _start(
    cli: Cli, work: AgentWork, *, budget: int | None, record: Path | None, wait: bool
) -> None:
    from ....workflows.agents import Recorder

    assert work.agent is not None  # noqa: S101 (each command asks for one)
    asked = [phase.name for phase in work.workflow.phases if phase.prompt is not None]
    agent = _made(work.agent, first_phase=asked[0] if asked else None)
    if record is not None:
        agent = Recorder(agent, record)
    run_agent(cli, lambda runner: runner.start(work, agent, token_budget=budget), wait=wait)


def go_on(
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
    """Go on with an agent's session, for `resume` and `retry`; with another agent if named."""
    other = _other_agent(cli, session_id, agent, max_output)
    if retry:
        run_agent(
            cli, lambda runner: runner.retry(session_id, reason, other, back_to=back_to), wait=wait
        )
    else:
        run_agent(cli, lambda runner: runner.resume(session_id, other), wait=wait)


def _other_agent(
    cli: Cli, session_id: str, agent: str | None, max_output: int | None
) -> PhaseAgent | None:
    """Make the agent that is named now, or the session's own with another limit; else None."""
    from attrs import evolve

    from ....workflows.job import AgentWork

    if agent is not None:
        return _made(_chosen(agent, None, max_output))
    if max_output is None:
        return None
    named = AgentWork.of_session(cli.store(), session_id).agent
    return None if named is None else _made(evolve(named, max_output=max_output))


def run_agent(cli: Cli, act: Callable[[AgentRunner], RunOutcome], *, wait: bool) -> None:
    """Run, show what happens, and tell how it ended."""
    from ....bootstrap import build_agent_runner
    from ..agent_view import agent_view

    directory = _questions_of(cli.store())
    view: AgentView

    def aside() -> AbstractContextManager[object]:
        return view.aside()

    manager = cli.manager(_desk(cli, directory, aside))
    view = agent_view(manager, cli.output)
    if cli.outside.gates is None:
        prepare_sandbox(cli)
    view.questions_dir = None if directory is None else str(directory)
    runner = build_agent_runner(
        manager=manager,
        gates=cli.outside.gates,
        observer=view,
        answers_timeout_s=_WAIT_S if wait else 0.0,
    )
    with (
        told_how_to_go_on(cli, view, can_go_on=lambda: view.session_id is not None),
        showing(view),
    ):
        outcome = act(runner)
    session = manager.current_session
    assert session is not None  # noqa: S101 (a run that returns had one)
    tell_outcome(
        cli,
        outcome,
        document=lambda: _document(cli, manager, session, view, outcome),
        tell=lambda: _tell(cli, manager, session, view, outcome),
    )


def _questions_of(store: SessionStore) -> Path | None:
    """Return where the questions of a base are: beside its sessions, where people look."""
    from ....harness.session_store import DEFAULT_BASE_PATH

    base = store.base_path
    return None if base in {DEFAULT_BASE_PATH, default_base()} else base.parent / "questions"


def _desk(
    cli: Cli, directory: Path | None, aside: Callable[[], AbstractContextManager[object]]
) -> QuestionSessionPerson:
    """Return where agents' questions are put; the person is told of each as of any other.

    Where this command has a terminal, the person is asked at it besides.
    """
    from ....adapters.question_channel import QuestionSessionPerson, agents_questions
    from ....questions import Notifier, load_config

    sessions = agents_questions(directory)
    teller = Notifier(load_config().notify, sessions.base_dir, terminal=sys.stderr)
    if cli.output.json or sys.stdin is None or not sys.stdin.isatty():
        return QuestionSessionPerson(sessions=sessions, teller=teller)
    from ..asking_here import TerminalPerson

    return TerminalPerson(
        sessions=sessions,
        teller=teller,
        output=cli.output,
        aside=aside,
        terminal=sys.stdin.fileno(),
    )


def _next_command(cli: Cli, session: SessionContext, view: AgentView, outcome: RunOutcome) -> str:
    from ....workflows.run_outcome import StopCause

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


def _document(
    cli: Cli,
    manager: SessionManager,
    session: SessionContext,
    view: AgentView,
    outcome: RunOutcome,
) -> dict[str, Any]:
    from ..documents import artifact_document, state_document

    return {
        **state_document(session, manager.store),
        "reason": outcome.reason,
        "phases_done": list(outcome.phases_done),
        "attempts": dict(outcome.attempts),
        "waiting_for": outcome.waiting_for,
        "cause": None if outcome.cause is None else outcome.cause.value,
        "verdicts": [
            {"phase": phase, "round": number, "attempt": attempt, **verdict.to_json()}
            for phase, number, attempt, verdict in view.verdicts
        ],
        "artifacts": [artifact_document(one) for one in session.artifacts],
        "next": _next_command(cli, session, view, outcome),
    }


def _tell(
    cli: Cli,
    manager: SessionManager,
    session: SessionContext,
    view: AgentView,
    outcome: RunOutcome,
) -> None:
    from .. import render

    output = cli.output
    last = view.verdicts[-1][-1] if view.verdicts else None
    if last is not None and not last.passed and last.evidence:
        output.line()
        output.line(f"What the gate found in {session.current_phase}:")
        lines = "\n".join(last.evidence).splitlines()
        for line in lines[:_SHOWN_EVIDENCE]:
            output.line(f"    {line}")
        if len(lines) > _SHOWN_EVIDENCE:
            output.line(f"    ({len(lines) - _SHOWN_EVIDENCE} more lines are in the history)")
    store = manager.store
    told = [render.field("state", render.state_text(session.state.value))]
    if outcome.reason:
        told.append(render.field("reason", render.words(outcome.reason)))
    told += [
        render.field("session", render.words(session.session_id)),
        render.field("workspace", render.words(store.workspace_path(session.session_id))),
    ]
    paths = list(dict.fromkeys(one.path for one in session.artifacts))
    if paths:
        told.append(render.field("artifacts", render.words(", ".join(paths[:8]))))
    told += [
        render.field("budget", render.budget_bar(session.token_budget)),
        render.field("next", render.words(_next_command(cli, session, view, outcome), "bold")),
    ]
    output.line()
    output.show(*told)
