"""Changes of a session, a phase's result among them: each saved once, or taken back as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from ...base.files import ReadError, WriteError
from ...base.tracing import Attribute, Counter, Traced, count, traced
from ..domain.history_events import PhaseEnded, PhaseFailed, PhaseSucceeded
from ..domain.session_checks import storable
from ..errors import SessionConflict, SessionCorrupted, SessionIdTaken
from ..events.session_events import SessionEvents, SessionStep
from ..session_domain import MAX_PATH_CHARS, SessionContext

if TYPE_CHECKING:
    from ...base.tracing.port import Carrier
    from ..ports import PhaseResult
    from ..session_ports import SessionRepository
    from ..snapshot_port import SnapshotTaken

_ATTEMPTS: Final = 5
"""How often a result is tried to be recorded when others save the session at the same time."""
_OUTPUT_KEPT: Final = 4000
"""How many characters of a phase's output are kept in the history, from its end."""
_FILES_NAMED: Final = 20
_ARTIFACTS_KEPT: Final = 1000
"""How many files of one run are recorded one by one; of the rest, their number."""
_SESSION_FIELDS: Final = tuple(
    one.name for one in fields(SessionContext) if one.name != "session_id"
)

_T = TypeVar("_T")


def despite_conflicts(act: Callable[[], _T], *, again: Callable[[], bool], attempts: int) -> _T:
    """Change a session; where another worker saved it first, once more on what that one saved.

    Args:
        act: Makes the change and saves it.
        again: Called after each conflict: makes ready for another attempt, False if none has sense.
        attempts: How often `act` is called at the most.

    Raises:
        SessionConflict: Others were first each time, or no other attempt had sense.
    """
    for left in reversed(range(attempts)):
        try:
            return act()
        except SessionConflict as error:
            if not left or not error.retryable or not again():
                raise
    raise ValueError(f"attempts: expected 1 or more, got {attempts}")


class _Snapshot:
    """What a change may alter, so that it can be taken back. The lists only ever grow."""

    def __init__(self, session: SessionContext) -> None:
        self.workflow_type: Final = session.workflow_type
        self.goal: Final = session.goal
        self.created_at: Final = session.created_at
        self.state: Final = session.state
        self.updated_at: Final = session.updated_at
        self.completed_at: Final = session.completed_at
        self.current_phase: Final = session.current_phase
        self.attempt_number: Final = session.attempt_number
        self.title: Final = session.title
        self.tags: Final = session.tags
        self.metadata: Final = session.metadata
        self.workflow_state: Final = session.workflow_state
        self.total_budget: Final = session.token_budget.total_budget
        self.tokens_used: Final = session.token_budget.tokens_used
        self.artifacts: Final = len(session.artifacts)
        self.history: Final = len(session.history)

    def restore(self, session: SessionContext) -> None:
        session.workflow_type = self.workflow_type
        session.goal = self.goal
        session.created_at = self.created_at
        session.state = self.state
        session.updated_at = self.updated_at
        session.completed_at = self.completed_at
        session.current_phase = self.current_phase
        session.attempt_number = self.attempt_number
        session.title = self.title
        session.tags = self.tags
        session.metadata = self.metadata
        session.workflow_state = self.workflow_state
        session.token_budget.total_budget = self.total_budget
        session.token_budget.tokens_used = self.tokens_used
        del session.artifacts[self.artifacts :]
        del session.history[self.history :]

    def equals(self, session: SessionContext) -> bool:
        """Return whether the session is as it was."""
        other = _Snapshot(session)
        data = ("metadata", "workflow_state")  # of equal ones, no two are surely the same
        return all(getattr(self, name) is getattr(other, name) for name in data) and all(
            getattr(self, name) == getattr(other, name) for name in vars(self)
        )


class _Together:
    """What belongs to one save: a session, its changes, and what follows once it is saved.

    Args:
        session: The session.
    """

    def __init__(self, session: SessionContext) -> None:
        self.session: Final = session
        self.steps: Final[list[SessionStep]] = []
        self.following: Final[list[Callable[[], object]]] = []


def _step(session: SessionContext, before: _Snapshot) -> SessionStep:
    """Return what a session is at after a change."""
    return SessionStep(
        entries=len(session.history),
        phase=session.current_phase,
        attempt=session.attempt_number,
        tokens=session.token_budget.tokens_used - before.tokens_used,
    )


class SessionChanges:
    """Saves the changes of sessions to one repository, and tells what was saved and what could not.

    Args:
        store: Where the sessions are kept.
        events: Told of what is on disk, and of what could not be saved.
        origin: Returns the span that a save belongs under, where no span is current.
    """

    def __init__(
        self,
        store: SessionRepository,
        events: SessionEvents,
        *,
        origin: Callable[[], Carrier] = dict,
    ) -> None:
        self._store = store
        self._origin = origin
        self._events = events
        self._together: _Together | None = None

    @property
    def together_on(self) -> str | None:
        """The session whose changes are being put together for one save, or None."""
        return None if self._together is None else self._together.session.session_id

    def after_save(self, act: Callable[[], object]) -> None:
        """Do what follows from a change that was made: now, or once it is saved with the others."""
        if self._together is None:
            act()
        else:
            self._together.following.append(act)

    @contextmanager
    def together(self, session: SessionContext) -> Iterator[None]:
        """Save all that the block changes at its end, once; if anything fails, take it all back.

        A block within the block takes back its own changes where it fails, and saves nothing.

        Raises:
            SessionConflict: Another worker saved the session since.
            WriteError: It could not be saved; what is `visible` is not taken back.
        """
        outer = self._together
        snapshot = _Snapshot(session)
        if outer is not None:
            steps, held = len(outer.steps), len(outer.following)
            try:
                yield
                if len(outer.steps) == steps:
                    outer.steps.append(_step(session, snapshot))
            except BaseException:
                snapshot.restore(session)
                del outer.steps[steps:]
                del outer.following[held:]
                raise
            return
        together = self._together = _Together(session)
        try:
            try:
                yield
            finally:
                self._together = None
            if not snapshot.equals(session):
                self.save(session)
        except WriteError as error:
            if not error.visible:
                snapshot.restore(session)
            raise
        except BaseException:
            snapshot.restore(session)
            raise
        self._tell(session, snapshot, together.steps)
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
            attachments: Files to keep beside it, by name.
            inherited: The same, of a fork's parent.

        Raises:
            SessionConflict: Another worker saved it since.
            WriteError: It could not be saved.
        """
        try:
            about = {Attribute.SESSION_ID: session.session_id}
            with traced(Traced.SAVE, about, parent=self._origin()) as span:
                self._store.save(session, attachments=attachments, inherited=inherited)
                span.set(Attribute.SESSION_REVISION, session.revision)
        except SessionIdTaken:
            raise
        except SessionConflict as error:
            count(Counter.CONFLICTS)
            self._events.conflict(session, error)
            raise
        except WriteError as error:
            self._events.save_failed(session, error)
            raise

    @contextmanager
    def changing(self, session: SessionContext) -> Iterator[None]:
        """Save what the block changes; if anything fails, take it back.

        Raises:
            SessionConflict: Another worker saved the session since.
            WriteError: It could not be saved; what is `visible` is not taken back.
        """
        snapshot = _Snapshot(session)
        try:
            yield
            together = self._together if self._is_together(session) else None
            if together is None:
                self.save(session)
            else:
                together.steps.append(_step(session, snapshot))
        except WriteError as error:
            if not error.visible:
                snapshot.restore(session)
            raise
        except BaseException:
            snapshot.restore(session)
            raise
        if together is None:
            self._tell(session, snapshot)

    def _is_together(self, session: SessionContext) -> bool:
        return self._together is not None and self._together.session is session

    def _tell(
        self, session: SessionContext, before: _Snapshot, steps: Sequence[SessionStep] = ()
    ) -> None:
        """Tell what was saved of a session since it was as before, and by which steps."""
        spent = session.token_budget.tokens_used - before.tokens_used
        rest = spent - sum(one.tokens for one in steps)
        self._events.added(session, before.history, came_from=before.state, steps=steps)
        # What was spent without a step was added to the budget by hand.
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
        """Save a change; if others saved the session meanwhile, on top of what they saved.

        Args:
            session: What is changed.
            change: Makes the change in memory; called again after each conflict.
            catch_up: Takes over what others saved, or says that the change has no place there
                any more; by default as a phase's result belongs to its attempt.

        Returns:
            What `change` returned when its change was saved.

        Raises:
            SessionConflict: The change has no place any more, or others saved each time.
            WriteError: It could not be saved.
        """
        catching = catch_up if catch_up is not None else self.catch_up

        def changed() -> _T:
            with self.changing(session):
                return change()

        return despite_conflicts(changed, again=lambda: catching(session), attempts=_ATTEMPTS)

    def catch_up(self, session: SessionContext) -> bool:
        """Take over what another worker saved while a phase ran, if its result still belongs there.

        A budget extended or a session paused meanwhile is no reason to lose the work; another
        phase or attempt, or an end, is.
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
                isinstance(entry.event, PhaseEnded)
                for entry in found.history[len(session.history) :]
            )
        ):
            return False
        take_over(session, found)
        return True

    def change_elsewhere(self, session_id: str, change: Callable[[SessionContext], bool]) -> bool:
        """Change a session that another worker leads by now.

        The one in memory stays as it was, so that nothing of this worker's is saved over the
        other's work.

        Args:
            session_id: The session.
            change: Changes what was found; False if there is nothing to change. Called again
                after each conflict.

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
    """Make a session in memory what was found of it on disk, in place."""
    for name in _SESSION_FIELDS:
        setattr(session, name, getattr(found, name))


def record_result(
    session: SessionContext,
    result: PhaseResult,
    problem: str | None,
    *,
    tokens: int,
    now: datetime,
    taken: SnapshotTaken | None = None,
) -> PhaseEnded:
    """Record a phase's result in its session: files, tokens and an event.

    Args:
        session: The session, in memory.
        result: How the run ended.
        problem: Why it is no success, or None.
        tokens: What the phase is charged with.
        now: The time of the record.
        taken: The snapshot of the workspace, or None.

    Returns:
        The event that was recorded.

    Raises:
        InvalidSession: `tokens` is no count.
    """
    known = len(session.artifacts)
    for path, kind in _artifacts_of(result):
        session.add_artifact(path, kind, now=now)
    details = _describe(
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
        snapshot=None if taken is None else taken.snapshot,
        unkept=None if taken is None else taken.unkept,
    )
    session.add_event(event, details=details, now=now)
    return event


def _artifacts_of(result: PhaseResult) -> Iterator[tuple[str, str]]:
    """Name the files to record: whatever the code did, what is recorded stays bounded and valid."""
    made = [(path, "created") for path in result.files_created]
    made += [(path, "modified") for path in result.files_modified]
    for path, kind in made[:_ARTIFACTS_KEPT]:
        name = storable(path)
        if len(name) <= MAX_PATH_CHARS:
            yield name, kind


def _describe(
    result: PhaseResult, problem: str | None, *, attempt: int, tokens: int, recorded: int
) -> str:
    """Describe a run for people: the facts on the first line, then the end of its output."""
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
