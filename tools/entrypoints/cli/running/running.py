"""Run phases from a command: show the run, summarise it, and exit with its code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from attrs import frozen

from .... import harness, sandbox
from ..context import Cli
from ..output.errors import ExitCode, Interrupted, exit_code_of
from ..output.text import State, some_of

if TYPE_CHECKING:
    from ....workflows import RunOutcome
    from ..output.output import Output
    from ..output.progress import RunView

    End = Callable[[Cli, harness.SessionManager, RunView, RunOutcome], None]

_TROUBLE: Final = frozenset(
    {ExitCode.CONFLICT, ExitCode.STORAGE, ExitCode.SANDBOX, ExitCode.UNEXPECTED}
)
"""Exit codes of runs whose session can be resumed later."""
_SHOWN_LINES: Final = 12
_SHOWN_ARTIFACTS: Final = 8


def run_shown(
    cli: Cli,
    manager: harness.SessionManager,
    view: RunView,
    act: Callable[[], RunOutcome],
    *,
    end: End | None = None,
) -> None:
    """Run phases, show the run, and write its summary.

    Args:
        cli: The global options.
        manager: The manager of the session.
        view: The view of the run.
        act: Runs the phases.
        end: Writes another summary.

    Raises:
        Interrupted: The person interrupted the run.
        typer.Exit: The session is not complete.
    """
    from ....integrations.telemetry import sent_when_terminated

    with sent_when_terminated(), _resumable(cli, manager, view):
        with view.shown(), sandbox.announced(view.sandbox_prepares):
            try:
                outcome = act()
            finally:
                view.ended()
        (end or _write_end)(cli, manager, view, outcome)
    if outcome.state is not harness.SessionState.COMPLETED:
        raise typer.Exit(exit_code(outcome))


def exit_code(outcome: RunOutcome) -> ExitCode:
    """Return the exit code of a run that stopped before its session was complete."""
    from ....workflows import StopCause

    codes = {StopCause.PERSON: ExitCode.PERSON_NEEDED, StopCause.BUDGET: ExitCode.BUDGET}
    return codes.get(outcome.cause or StopCause.FAILED, ExitCode.NOT_DONE)


def _write_end(
    cli: Cli, manager: harness.SessionManager, view: RunView, outcome: RunOutcome
) -> None:
    session = manager.current_session
    assert session is not None  # noqa: S101 (a run that returned had one)
    following = _next_command(cli, session, view, outcome)
    from ..output.documents import artifact_document, state_document

    document = {
        **state_document(session, manager.store),
        "reason": outcome.reason,
        "phases_done": list(outcome.phases_done),
        **run_details(view, outcome),
        "artifacts": [artifact_document(one) for one in session.artifacts],
        "next": following,
    }
    if not cli.output.wrote(document):
        write_failure(cli.output, session, view)
        _write_summary(cli.output, manager, session, outcome.reason, following)


@contextmanager
def _resumable(cli: Cli, manager: harness.SessionManager, view: RunView) -> Iterator[None]:
    """Name the command that resumes the session if the block fails."""
    try:
        yield
    except KeyboardInterrupt:
        raise _interrupted(cli, view) from None
    except Exception as error:
        if (
            exit_code_of(error) in _TROUBLE
            and not cli.output.json
            and _is_open(manager, view.session_id)
        ):
            resume = cli.command(*view.resume, view.session_id or "")
            cli.output.remark(f"The session is kept. To go on: {resume}")
        raise


def _is_open(manager: harness.SessionManager, session_id: str | None) -> bool:
    """Return whether the session exists and can be resumed."""
    from ....base.files import DurableError

    try:
        session = manager.store.load(session_id) if session_id else None
    except (harness.HarnessError, DurableError):
        return False
    return session is not None and not session.state.is_terminal


def _interrupted(cli: Cli, view: RunView) -> Interrupted:
    if view.session_id is None:
        return Interrupted("interrupted; no phase was begun")
    return Interrupted(
        f"interrupted; session {view.session_id} is kept with all that was recorded. "
        f"To go on: {cli.command(*view.resume, view.session_id)}",
        session_id=view.session_id,
    )


# ------------------------------------------------------------------------------------ the summary


def _next_command(
    cli: Cli, session: harness.SessionContext, view: RunView, outcome: RunOutcome
) -> str:
    """Return the command that the person most likely wants next."""
    session_id, stop = session.session_id, outcome.stop
    if session.state.is_terminal:
        if view.is_agents:
            return _after_agents_work(cli, session)
        words = ("session", "artifacts") if session.artifacts else ("show",)
        return cli.command(*words, session_id)
    if outcome.waiting_for is not None:
        return view.answer_command(outcome.waiting_for)
    if stop is not None and stop.back_to is not None:
        return cli.command("session", "retry", session_id, "--from", stop.back_to)
    if stop is not None and stop.missing_tokens:
        return cli.command("session", "budget", session_id, "--extend", str(stop.missing_tokens))
    retries = stop is not None and stop.needs_retry
    return cli.command(*(("session", "retry") if retries else ("resume",)), session_id)


def _after_agents_work(cli: Cli, session: harness.SessionContext) -> str:
    """Return the command after an agent's work: develop a component, apply the result or report."""
    from ....harness.views.checkpoints import base_snapshot

    if session.state is harness.SessionState.COMPLETED:
        following = command_of_component(cli, session)
        if following is not None:
            return following
        if base_snapshot(session) is not None:
            return cli.command("apply", session.session_id)
    return cli.command("session", "report", session.session_id)


def run_details(view: RunView, outcome: RunOutcome) -> dict[str, Any]:
    """Return the JSON fields about a run of scripts, or of an agent."""
    if view.is_agents:
        return {
            "attempts": dict(outcome.attempts),
            "waiting_for": outcome.waiting_for,
            "cause": None if outcome.cause is None else outcome.cause.value,
            "verdicts": [
                {"phase": phase, "round": number, "attempt": attempt, **verdict.to_json()}
                for phase, number, attempt, verdict in view.verdicts
            ],
        }
    from ..output.documents import selected

    result = None
    if view.last is not None:
        last = view.last
        result = {
            "success": last.success,
            "problem": view.problem,
            **selected(last, "exit_code trapped duration_s stdout stderr"),
        }
    columns = "name state attempt duration_s tokens"
    return {"phases": [selected(row, columns) for row in view.rows], "last_result": result}


def write_failure(output: Output, session: harness.SessionContext, view: RunView) -> None:
    """Write the output of a failed script, or a gate's findings."""
    if view.problem is not None and view.last is not None:
        for name, text in (("stderr", view.last.stderr), ("stdout", view.last.stdout)):
            lines = text.rstrip().splitlines()
            cut = f" (the last {_SHOWN_LINES} lines)" if len(lines) > _SHOWN_LINES else ""
            _write_block(output, f"{name} of {session.current_phase}{cut}:", lines[-_SHOWN_LINES:])
    verdict = view.verdicts[-1][-1] if view.verdicts else None
    if verdict is not None and not verdict.passed:
        lines = "\n".join(verdict.evidence).splitlines()
        more = len(lines) - _SHOWN_LINES
        cut_off = [f"({more} more lines are in the history)"] if more > 0 else []
        title = f"What the gate found in {session.current_phase}:"
        _write_block(output, title, [*lines[:_SHOWN_LINES], *cut_off])


def _write_block(output: Output, title: str, lines: list[str]) -> None:
    if lines:
        output.line()
        output.line(title)
    for line in lines:
        output.line(f"    {line}")


def _write_summary(
    output: Output,
    manager: harness.SessionManager,
    session: harness.SessionContext,
    reason: str | None,
    following: str,
) -> None:
    from ..output.render import budget_bar, fields, words

    paths = list(dict.fromkeys(one.path for one in session.artifacts))
    shown = fields(
        state=State(session.state.value),
        reason=reason,
        session=session.session_id,
        file=manager.store.where_is(session.session_id),
        workspace=manager.store.workspace_path(session.session_id),
        artifacts=some_of(paths, _SHOWN_ARTIFACTS),
        budget=budget_bar(session.token_budget),
        next=words(following, "bold"),
    )
    output.line()
    output.show(*shown)


@frozen
class WrittenSpecification:
    """Approved specification in a session's workspace.

    Attributes:
        path: Its file.
        components: The ids of its components.
    """

    path: Path
    components: tuple[str, ...]


def written_specification(cli: Cli, session: harness.SessionContext) -> WrittenSpecification | None:
    """Return the specification that a SPEC session wrote, or None."""
    from ....workflows.builtin import SPEC
    from ....workflows.documents.specification import InvalidSpecification
    from ....workflows.documents.specification_document import load_specification

    if session.workflow_type != SPEC.workflow_type:
        return None
    workspace = cli.store().workspace_path(session.session_id)
    for path in reversed([one.path for one in session.artifacts]):
        if not path.startswith("specs/"):
            continue
        try:
            found = load_specification(workspace / path)
        except InvalidSpecification:
            continue
        return WrittenSpecification(
            workspace / path, tuple(one.component_id for one in found.components)
        )
    return None


def command_of_component(cli: Cli, session: harness.SessionContext) -> str | None:
    """Return the command that develops a component of a session's specification, or None.

    It names the session's agent and repository if the configuration does not.
    """
    from ....wiring.bootstrap import session_results
    from ....workflows.job import AgentWork

    written = written_specification(cli, session)
    if written is None:
        return None
    path = written.path
    here = Path(os.path.relpath(path))
    words = ["run", "tdflow", str(path if ".." in here.parts else here)]
    if len(written.components) > 1:
        words += ["--component", written.components[0]]
    try:
        agent = AgentWork.of_session(cli.store(), session.session_id).agent
    except harness.HarnessError:
        agent = None
    if agent is not None and agent.value != cli.configuration.run.agent:
        words += ["--agent", agent.text]
    base = session_results(cli.store(), cli.objects_url).snapshots.base_of(session.session_id)
    if base is not None and not cli.configuration.repository.use:
        words += ["--repo", base.work_tree]
    return cli.command(*words)
