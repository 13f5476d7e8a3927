"""What of a phase's run goes into its session's record; pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from attrs import evolve

from .history_events import PhaseEnded, PhaseFailed, PhaseSucceeded
from .ports import PhaseResult
from .session_checks import storable
from .session_domain import MAX_PATH_CHARS, SessionContext

_OUTPUT_KEPT: Final = 4000
"""How many characters of a phase's output are kept in the history, from its end."""
_FILES_NAMED: Final = 20
_ARTIFACTS_KEPT: Final = 1000
"""How many files of one run are recorded one by one; of the rest, their number."""


def record_result(
    session: SessionContext,
    result: PhaseResult,
    problem: str | None,
    *,
    tokens: int,
    now: datetime,
) -> PhaseEnded:
    """Put what a phase's run came to into its session: files, tokens and an entry of the history.

    Args:
        session: The session, in memory.
        result: How the run ended.
        problem: Why it is no success, or None.
        tokens: What the phase is charged with.
        now: The time of the record.

    Returns:
        The event that was recorded.

    Raises:
        InvalidSession: `tokens` is no count.
    """
    known = len(session.artifacts)
    for path, kind in _artifacts_of(result):
        session.add_artifact(path, kind, now=now)
    details = _tell(
        result,
        problem,
        attempt=session.attempt_number,
        tokens=tokens,
        recorded=len(session.artifacts) - known,
    )
    if tokens:
        session.spend(tokens, now=now)
    event = (PhaseSucceeded if problem is None else PhaseFailed)(
        attempt=session.attempt_number,
        seconds=round(result.duration_s, 3),
        tokens=tokens,
        exit_code=result.exit_code,
        trapped=result.trapped,
        fuel=result.fuel_consumed,
        problem=None if problem is None else storable(problem),
    )
    session.add_event(event, details=details, now=now)
    return event


def own_problem(result: PhaseResult) -> str | None:
    """Say why a result is no success by its own word, or None."""
    if result.success:
        return None
    problems = result.limit_problems()
    if result.trapped is None:
        problems.insert(0, f"exit code {result.exit_code}")
    return ", ".join(problems)


def with_success(result: PhaseResult, success: bool) -> PhaseResult:
    """The result, judged."""
    return result if result.success is success else evolve(result, success=success)


def _artifacts_of(result: PhaseResult) -> Iterator[tuple[str, str]]:
    """Name the files to record: whatever the code did, what is recorded stays bounded and valid."""
    made = [(path, "created") for path in result.files_created]
    made += [(path, "modified") for path in result.files_modified]
    for path, kind in made[:_ARTIFACTS_KEPT]:
        name = storable(path)
        if len(name) <= MAX_PATH_CHARS:
            yield name, kind


def _tell(
    result: PhaseResult, problem: str | None, *, attempt: int, tokens: int, recorded: int
) -> str:
    """Tell of a run, for the history: the facts on the first line, then the end of its output."""
    facts = [f"attempt {attempt}", problem or f"exit code {result.exit_code}"]
    facts.append(f"{result.duration_s:.2f} s")
    if result.fuel_consumed is not None:
        facts.append(f"fuel {result.fuel_consumed}")
    if tokens:
        facts.append(f"{tokens} tokens")
    if problem is None:
        facts += result.limit_problems()  # it coped with them, or did not notice
    for paths, word in (
        (result.files_created, "created"),
        (result.files_modified, "modified"),
        (result.files_deleted, "deleted"),
    ):
        if paths:
            named = ", ".join(paths[:_FILES_NAMED])
            more = f" and {len(paths) - _FILES_NAMED} more" if len(paths) > _FILES_NAMED else ""
            facts.append(f"{word} {named}{more}")
    unrecorded = len(result.files_created) + len(result.files_modified) - recorded
    if unrecorded > 0:
        facts.append(f"{unrecorded} of these files are not among the artifacts")
    lines = ["; ".join(facts)]
    for label, output in (("stderr", result.stderr), ("stdout", result.stdout)):
        text = output.rstrip()
        if text:
            cut = len(text) > _OUTPUT_KEPT or result.truncated
            lines.append(f"{label}{' (its end)' if cut else ''}:\n{text[-_OUTPUT_KEPT:]}")
    return storable("\n".join(lines))
