"""Running phases from a command: what is shown while they run, and how an end is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from .errors import Interrupted
from .exit_codes import ExitCode, exit_code_of

if TYPE_CHECKING:
    from ...workflows import RunOutcome
    from .context import Cli
    from .phases_view import PhasesView

_TROUBLE = frozenset({ExitCode.CONFLICT, ExitCode.STORAGE, ExitCode.SANDBOX, ExitCode.UNEXPECTED})
"""Ends of a run that say nothing against going on with it later."""


@contextmanager
def showing(view: PhasesView) -> Iterator[None]:
    """Show a run while the block runs it."""
    with view.shown():
        try:
            yield
        finally:
            view.ended()


@contextmanager
def told_how_to_go_on(
    cli: Cli, view: PhasesView, *, can_go_on: Callable[[], bool]
) -> Iterator[None]:
    """Tell, when the block ends badly, by which command its session is gone on with.

    Args:
        cli: The command line.
        view: The view of the run.
        can_go_on: Tells whether there is a session that can be gone on with.

    Raises:
        Interrupted: A person interrupted the block.
        BaseException: What else it raised.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise _interrupted(cli, view) from None
    except Exception as error:
        if exit_code_of(error) in _TROUBLE and not cli.output.json and can_go_on():
            following = cli.command("resume", view.session_id or "")
            cli.output.remark(f"The session is kept. To go on: {following}")
        raise


def tell_outcome(
    cli: Cli,
    outcome: RunOutcome,
    *,
    document: Callable[[], dict[str, Any]],
    tell: Callable[[], None],
) -> None:
    """Tell how a run ended, and end the command accordingly.

    Args:
        cli: The command line.
        outcome: How the run ended.
        document: Makes what programs are told.
        tell: Tells people.

    Raises:
        typer.Exit: The session is not complete.
    """
    from ...harness import SessionState
    from ...workflows.run_outcome import StopCause

    codes = {StopCause.PERSON: ExitCode.PERSON, StopCause.BUDGET: ExitCode.BUDGET}
    if cli.output.json:
        cli.output.document(document())
    else:
        tell()
    if outcome.state is not SessionState.COMPLETED:
        raise typer.Exit(codes.get(outcome.cause or StopCause.FAILED, ExitCode.NOT_DONE))


def prepare_sandbox(cli: Cli) -> None:
    """Compile the interpreter where that was never done, and say so, because it takes minutes."""
    from ...sandbox import prepare, runtime_info
    from .progress import sandbox_progress

    if not runtime_info().cache_warm:
        with sandbox_progress(cli.output) as tell:
            prepare(tell)


def _interrupted(cli: Cli, view: PhasesView) -> Interrupted:
    if view.session_id is None:
        return Interrupted("interrupted; no phase was begun")
    return Interrupted(
        f"interrupted; session {view.session_id} is kept with all that was recorded. "
        f"To go on: {cli.command('resume', view.session_id)}",
        session_id=view.session_id,
    )
