"""Changes of a session, such as a phase's result; each is saved once or undone completely."""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

from ...base.files import ReadError, WriteError
from ...base.tracing import Attribute, Counter, Traced, count, traced
from ..domain.history_events import PhaseEnded, PhaseFailed, PhaseSucceeded, PhaseSuspended
from ..domain.session_checks import storable
from ..domain.session_fields import SESSION
from ..domain.session_observer import ConflictMet, SaveFailed
from ..errors import SessionConflict, SessionCorrupted, SessionIdTaken
from ..events.session_events import SessionEvents, SessionStep
from ..session_domain import MAX_PATH_CHARS, SessionContext, SessionState

if TYPE_CHECKING:
    from ...base.tracing.conventions import Carrier
    from ..ports import PhaseResult
    from ..session_ports import SessionRepository
    from ..snapshot_port import SnapshotTaken

_ATTEMPTS: Final = 5
"""How often recording a result is tried while others save the session."""
_OUTPUT_KEPT: Final = 4000
"""How many characters of a phase's output go into the history, from its end."""
_FILES_NAMED: Final = 20
_ARTIFACTS_KEPT: Final = 1000
"""How many files of one run are recorded individually; of the rest, only the number."""
_SESSION_FIELDS: Final = tuple(
    one.name for one in fields(SessionContext) if one.name != "session_id"
)

_T = TypeVar("_T")


def despite_conflicts(act: Callable[[], _T], *, again: Callable[[], bool], attempts: int) -> _T:
    """Change a session; after another worker's conflicting save, try again on top of it.

    Args:
        act: Makes the change and saves it.
        again: Called after each conflict: prepares another attempt, or returns False to give up.
        attempts: The most calls of `act`.

    Raises:
        SessionConflict: Other saves were first each time, or `again` gave up.
    """
    for left in reversed(range(attempts)):
        try:
            return act()
        except SessionConflict as error:
            if not left or not error.retryable or not again():
                raise
    raise ValueError(f"attempts: expected 1 or more, got {attempts}")


class _Before(NamedTuple):
    """What a change may alter, so that it can be undone. The lists only ever grow."""

    state: SessionState
    values: tuple[Any, ...]
    total_budget: int
    tokens_used: int
    artifacts: int
    history: int

    @classmethod
    def of(cls, session: SessionContext) -> Self:
        """Return the session's current values."""
        budget = session.token_budget
        return cls(
            session.state,
            _changeable(session),
            budget.total_budget,
            budget.tokens_used,
            len(session.artifacts),
            len(session.history),
        )

    def restore(self, session: SessionContext) -> None:
        """Restore the session to these values."""
        for name, value in zip(_CHANGEABLE, self.values, strict=True):
            setattr(session, name, value)
        session.token_budget.total_budget = self.total_budget
        session.token_budget.tokens_used = self.tokens_used
        del session.artifacts[self.artifacts :]
        del session.history[self.history :]

    def equals(self, session: SessionContext) -> bool:
        """Return whether the session still has these values."""
        now = self.of(session)
        own_data = zip(now.values[-2:], self.values[-2:], strict=True)
        return now == self and all(one is other for one, other in own_data)  # 1 equals 1.0 and true


_APART: Final = {"session_id", "parent_id", "revision", "token_budget", "artifacts", "history"}
_CHANGEABLE: Final = tuple(one.name for one in SESSION if one.name not in _APART)
"""The fields that a change may set, the session's own data last."""
_changeable: Final = attrgetter(*_CHANGEABLE)


class _Together(NamedTuple):
    """The contents of one save: a session, its changes, and the actions to run after it."""

    session: SessionContext
    steps: list[SessionStep]
    following: list[Callable[[], object]]


def _step(session: SessionContext, before: _Before) -> SessionStep:
    """Return the session's position after a change."""
    return SessionStep(
        entries=len(session.history),
        phase=session.current_phase,
        attempt=session.attempt_number,
        tokens=session.token_budget.tokens_used - before.tokens_used,
    )


class SessionChanges:
    """Saves changes of sessions to one repository, and reports what was and was not saved.

    Args:
        store: Where the sessions are stored.
        events: Receives what is on disk, and what could not be saved.
        origin: Returns a save's parent span, if no span is current.
    """

    def __init__(
        self,
        store: "SessionRepository",
        events: SessionEvents,
        *,
        origin: "Callable[[], Carrier]" = dict,
    ) -> None:
        self._store = store
        self._origin = origin
        self._events = events
        self._together: _Together | None = None

    @property
    def together_on(self) -> str | None:
        """The session whose changes are being collected for one save, or None."""
        return None if self._together is None else self._together.session.session_id

    def after_save(self, act: Callable[[], object]) -> None:
        """Run an action after the current change is saved; at once if no save is pending."""
        if self._together is None:
            act()
        else:
            self._together.following.append(act)

    @contextmanager
    def changing(
        self, session: SessionContext, *, unless_unchanged: bool = False
    ) -> Iterator[SessionContext]:
        """Save everything that the block changes, once, at its end; if anything fails, undo it all.

        A nested block is saved with the outer one; if it fails, it undoes its own changes.

        Args:
            session: The session; yielded.
            unless_unchanged: Whether to skip the save if the block changed nothing.

        Raises:
            SessionConflict: Another worker saved the session since.
            WriteError: It could not be saved; a `visible` save is not undone.
        """
        outer, before = self._together, _Before.of(session)
        inside = outer is not None and outer.session is session
        together = outer if outer is not None and inside else _Together(session, [], [])
        steps, held = len(together.steps), len(together.following)
        self._together = together
        try:
            try:
                yield session
            finally:
                self._together = outer
            if inside:
                if len(together.steps) == steps:
                    together.steps.append(_step(session, before))
            elif not unless_unchanged or not before.equals(session):
                self.save(session)
        except BaseException as error:
            if not (isinstance(error, WriteError) and error.visible):
                before.restore(session)
                del together.steps[steps:]
                del together.following[held:]
            raise
        if not inside:
            self._tell(session, before, together.steps)
            for act in together.following:
                act()

    def save(
        self,
        session: SessionContext,
        *,
        attachments: Mapping[str, bytes] | None = None,
        inherited: Mapping[str, bytes] | None = None,
    ) -> None:
        """Save a session as it is in memory.

        Args:
            session: The session.
            attachments: Files to store beside it, by name.
            inherited: The same, from a fork's parent.

        Raises:
            SessionConflict: Another worker saved it since.
            WriteError: It could not be saved.
        """
        try:
            about = {Attribute.SESSION_ID: session.session_id}
            with traced(Traced.SAVE, about, parent=self._origin) as span:
                self._store.save(session, attachments=attachments, inherited=inherited)
                span.set(Attribute.SESSION_REVISION, session.revision)
        except SessionIdTaken:
            raise
        except SessionConflict as error:
            count(Counter.CONFLICTS)
            expected, actual = error.expected_revision, error.actual_revision
            notice = ConflictMet(expected_revision=expected, actual_revision=actual)
            self._events.announce(session, notice)
            raise
        except WriteError as error:
            failed = SaveFailed(path=str(error.path), operation=error.operation, errno=error.errno)
            self._events.announce(session, failed)
            raise

    def _tell(self, session: SessionContext, before: _Before, steps: Sequence[SessionStep]) -> None:
        """Report what was saved since `before`, and by which steps."""
        if len(session.history) > before.history:
            self._events.added(session, before.history, came_from=before.state, steps=steps)
        spent = session.token_budget.tokens_used - before.tokens_used
        rest = spent - sum([one.tokens for one in steps])
        # Spending without a step was added to the budget directly.
        counted = [*((one.phase, one.tokens) for one in steps), (session.current_phase, rest)]
        for phase, tokens in counted:
            if tokens > 0:
                count(Counter.TOKENS, tokens, {Attribute.PHASE: phase})

    def record(
        self,
        session: SessionContext,
        change: Callable[[], _T],
        *,
        catch_up: Callable[[SessionContext], bool] | None = None,
    ) -> _T:
        """Save a change; after other workers' saves, on top of them.

        Args:
            session: The session to change.
            change: Makes the change in memory; called again after each conflict.
            catch_up: Adopts what others saved, or returns False if the change no longer applies; by
                default by the rule for a phase's result, which belongs to its attempt.

        Returns:
            What `change` returned when its change was saved.

        Raises:
            SessionConflict: The change no longer applies, or others saved each time.
            WriteError: It could not be saved.
        """
        catching = catch_up if catch_up is not None else self.catch_up

        def changed() -> _T:
            with self.changing(session):
                return change()

        return despite_conflicts(changed, again=lambda: catching(session), attempts=_ATTEMPTS)

    def catch_up(self, session: SessionContext) -> bool:
        """Adopt what another worker saved while a phase ran, if its result still applies.

        An extended budget or a pause meanwhile is no reason to lose the work; another phase or
        attempt, or an end, is.
        """
        try:
            found = self._store.load(session.session_id)
        except (ReadError, SessionCorrupted):
            return False  # the caller gets the conflict
        if (
            found is None
            or found.state.is_terminal
            or found.current_phase != session.current_phase
            or found.attempt_number != session.attempt_number
            or found.history[: len(session.history)] != session.history
            or any(
                isinstance(entry.event, PhaseEnded | PhaseSuspended)
                for entry in found.history[len(session.history) :]
            )
        ):
            return False
        take_over(session, found)
        return True

    def change_elsewhere(self, session_id: str, change: Callable[[SessionContext], bool]) -> bool:
        """Change a session that another worker leads by now.

        The session in memory stays unchanged, so that nothing of this worker's overwrites the
        other's work.

        Args:
            session_id: The session.
            change: Changes the stored session; returns False if there is nothing to change. Called
                again after each conflict.

        Returns:
            Whether a change was saved.

        Raises:
            WriteError: It could not be saved.
        """
        for _ in range(_ATTEMPTS):
            found = self._store.load(session_id)
            if found is None:
                return False
            since, came_from = len(found.history), found.state
            if not change(found):
                return False
            try:
                self._store.save(found)
            except SessionConflict:
                continue
            self._events.added(found, since, came_from=came_from)
            return True
        return False


def take_over(session: SessionContext, found: SessionContext) -> None:
    """Update a session in memory, in place, to what was read from disk."""
    for name in _SESSION_FIELDS:
        setattr(session, name, getattr(found, name))


def record_result(
    session: SessionContext,
    result: "PhaseResult",
    problem: str | None,
    *,
    tokens: int,
    now: datetime,
    taken: "SnapshotTaken | None" = None,
) -> PhaseEnded:
    """Record a phase's result in its session: files, tokens and an event.

    Args:
        session: The session, in memory.
        result: The result of the run.
        problem: Why it is not a success, or None.
        tokens: The tokens charged to the phase.
        now: The time of the record.
        taken: The snapshot of the workspace, or None.

    Returns:
        The recorded event.

    Raises:
        InvalidSession: `tokens` is not a valid count.
    """
    details = _recorded(session, result, problem, tokens=tokens, now=now)
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
        snapshot=None if taken is None else taken.snapshot,
        unkept=None if taken is None else taken.unkept,
    )
    session.add_event(event, details=details, now=now)
    return event


def record_suspension(
    session: SessionContext,
    result: "PhaseResult",
    event: PhaseSuspended,
    words: str,
    *,
    now: datetime,
) -> None:
    """Record that the code of a phase waits: the files so far, and the event.

    Args:
        session: The session, in memory.
        result: The result of the run so far.
        event: The event.
        words: The same for people.
        now: The time of the record.
    """
    session.add_event(event, details=_recorded(session, result, words, now=now), now=now)


def _recorded(
    session: SessionContext,
    result: "PhaseResult",
    problem: str | None,
    *,
    tokens: int = 0,
    now: datetime,
) -> str:
    """Record the files of a run, and return its description."""
    known = len(session.artifacts)
    for path, kind in _artifacts_of(result):
        session.add_artifact(path, kind, now=now)
    recorded = len(session.artifacts) - known
    attempt = session.attempt_number
    return _describe(result, problem, attempt=attempt, tokens=tokens, recorded=recorded)


def _artifacts_of(result: "PhaseResult") -> Iterator[tuple[str, str]]:
    """Yield the files to record, bounded and valid whatever the code did."""
    made = [(path, "created") for path in result.files_created]
    made += [(path, "modified") for path in result.files_modified]
    for path, kind in made[:_ARTIFACTS_KEPT]:
        name = storable(path)
        if len(name) <= MAX_PATH_CHARS:
            yield name, kind


def _describe(
    result: "PhaseResult", problem: str | None, *, attempt: int, tokens: int, recorded: int
) -> str:
    """Describe a run for people: the facts on the first line, then the end of its output."""
    facts = [f"attempt {attempt}", problem or f"exit code {result.exit_code}"]
    facts.append(f"{result.duration_s:.2f} s")
    if result.fuel_consumed is not None:
        facts.append(f"fuel {result.fuel_consumed}")
    if tokens:
        facts.append(f"{tokens} tokens")
    if problem is None:
        facts += result.limit_problems()  # the code handled these limits, or did not notice them
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
