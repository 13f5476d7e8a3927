"""Find the session that a conversation of an agent program works on."""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ...base.data_folder import NAME, SESSIONS
from ...harness.domain.session_checks import MAX_GOAL_CHARS
from ...harness.session_domain import SessionContext, SessionState
from ...harness.store.sessions_place import sessions_directory
from ...harness.views.session_head import SessionSummary, UnreadableSession
from ..programs.hook_event import HookEvent, Moment
from .binding import Binding
from .project_place import ProjectPlace, has_branch, is_same_work
from .recording import charged_total, kept_text, title_of
from .session_place import SessionPlace, Stores
from .settings import AgentSettings, read_settings

if TYPE_CHECKING:
    from ...harness.session_ports import LocalSessions

SESSION_VARIABLE: Final = "AGENTFORGE_SESSION"
BASE_VARIABLE: Final = "AGENTFORGE_BASE"
STORE_VARIABLE: Final = "AGENTFORGE_STORE"
WORKFLOW_TYPE: Final = "agent"
_BINDING: Final = frozenset({Moment.STARTED, Moment.PROMPTED})


class FoundSession(NamedTuple):
    """A session: its place and its id, and whether this call created it."""

    place: SessionPlace
    session_id: str
    is_new: bool = False

    def owns(self, event: HookEvent, first: str) -> bool:
        """Return whether all that an unbound conversation spent belongs to the session.

        So it is if the session records charges of it, or began with it or before it: a full disk,
        or a folder that can't be written to, delayed the binding.

        Args:
            event: The event of the conversation.
            first: When it first spent tokens, as its program writes a time; empty if unknown.
        """
        session = self.place.sessions.load(self.session_id)
        if session is None:
            return False
        if self.is_new or charged_total(session, event.program, event.agent_session):
            return True
        try:
            return datetime.fromisoformat(first) >= session.created_at
        except (ValueError, TypeError):  # no time, or one without a time zone
            return False


class NoSession(NamedTuple):
    """Why a conversation has no session, though the project has some.

    Attributes:
        said: The reason and what to do, for the person.
    """

    said: str


class Candidates(NamedTuple):
    """Sessions that a conversation without a session may work on.

    Attributes:
        place: Where its session is, or will be.
        settings: The project's configuration.
        open_sessions: The open sessions of the branch there.
        unreadable: The person's own sessions that can't be read, so that their branch is unknown;
            empty if a session of the branch is known.
    """

    place: SessionPlace
    settings: AgentSettings
    open_sessions: list[str]
    unreadable: list[UnreadableSession]


def bound_place(
    binding: Binding, data_folder: Path, environment: Mapping[str, str], stores: Stores
) -> SessionPlace | None:
    """Return the place of the session a conversation is bound to; None if it can't be reached.

    A binding has no password: a database is reached by its configured address.
    """
    if not binding.store:
        return SessionPlace(Path(binding.base), None, stores)
    store = environment.get(STORE_VARIABLE) or read_settings(data_folder, environment).store
    place = SessionPlace(Path(binding.base), store, stores)
    return place if place.name == binding.store else None


def find_session(
    event: HookEvent,
    binding: Binding,
    bound: SessionPlace | None,
    project: ProjectPlace,
    environment: Mapping[str, str],
    *,
    stores: Stores,
    now: datetime,
) -> FoundSession | NoSession | None:
    """Return the session of a conversation, why there is none, or None if that needs no word.

    It is the one that AGENTFORGE_SESSION names; else the one that the conversation is bound to (at
    `bound`), while its branch is checked out; else, when a context or a prompt begins, the open one
    of the branch that the person chose last, or the only one. If there is none, the first prompt
    creates one and becomes its goal, of several processes at once one; where the configuration
    says otherwise, the conversation stays with its session. Each must be this person's own: a
    session that came with a clone is ignored.

    Raises:
        SessionNotAdopted: AGENTFORGE_SESSION names a session that is not this person's own.
    """
    data_folder = project.data_folder
    named = named_session(data_folder, environment, stores)
    if named is not None:
        return named
    own = None
    if binding.session_id is not None and bound is not None:
        found = FoundSession(bound, binding.session_id)
        own = found if bound.sessions.is_own(found.session_id) and _is_open(found) else None
    if event.moment not in _BINDING or (own is not None and not _may_move(event)):
        return own
    branch = project.branch()
    if own is not None and is_same_work(binding.branch, branch):
        return own
    free = candidates(project, branch, environment, stores)
    chosen = _one_of(free)
    if chosen is not None or not free.settings.create:
        return chosen or own
    if not _is_prompt(event):
        return None
    with project.locked(environment) as lock:
        free = candidates(project, branch, environment, stores)
        chosen = _one_of(free)
        if chosen is None:
            sessions, settings = free.place.sessions, free.settings
            session_id = create_session(sessions, event.text, settings, branch, now).session_id
            lock.choose(branch, session_id)
            chosen = FoundSession(free.place, session_id, is_new=True)
    return chosen


def _may_move(event: HookEvent) -> bool:
    """Return whether a conversation may go to another branch's session at an event."""
    is_start = event.moment is Moment.STARTED and event.source != "compact"
    return not event.by_subagent and (is_start or _is_prompt(event))


def _one_of(free: Candidates) -> FoundSession | NoSession | None:
    """Return the only candidate, why none of them is it, or None if there is none."""
    if len(free.open_sessions) == 1:
        return FoundSession(free.place, free.open_sessions[0])
    if not (free.open_sessions or free.unreadable):
        return None
    from .messages import several, unreadable  # few calls have to say why there is none

    if free.open_sessions:
        return NoSession(several(free.open_sessions))
    return NoSession(unreadable(free.unreadable[0]))


def named_session(
    data_folder: Path, environment: Mapping[str, str], stores: Stores
) -> FoundSession | None:
    """Return the session that AGENTFORGE_SESSION names; None if the variable is not set.

    Raises:
        HarnessError: The name fits no session or several, or the session came with a clone.
    """
    named = environment.get(SESSION_VARIABLE)
    if not named:
        return None
    store = environment.get(STORE_VARIABLE) or read_settings(data_folder, environment).store
    place = SessionPlace(_base(data_folder, environment, None), store, stores)
    session_id = place.sessions.resolve(named)
    from ...harness.session_ports import require_own  # few calls name one

    require_own(place.sessions, session_id)
    return FoundSession(place, session_id)


def session_place(
    project: ProjectPlace, environment: Mapping[str, str], stores: Stores
) -> tuple[SessionPlace, AgentSettings]:
    """Return where a project's sessions are, and its configuration."""
    data_folder = project.data_folder
    settings = read_settings(data_folder, environment)
    store = environment.get(STORE_VARIABLE) or settings.store
    base = _base(data_folder, environment, settings.sessions)
    return SessionPlace(base, store, stores), settings


def candidates(
    project: ProjectPlace, branch: str, environment: Mapping[str, str], stores: Stores
) -> Candidates:
    """Return the sessions that a conversation without a session may work on.

    Args:
        project: The project.
        branch: The tag of its branch; empty outside of a repository.
        environment: The environment variables.
        stores: Opens the sessions.
    """
    place, settings = session_place(project, environment, stores)
    chosen = project.chosen(environment)
    session_id = chosen.get(branch)
    if session_id is not None and place.sessions.is_own(session_id):
        if _is_open(FoundSession(place, session_id)):
            return Candidates(place, settings, [session_id], [])
        return Candidates(place, settings, _open_sessions(place, branch), [])
    lost = [
        one
        for one in (place.sessions.summaries() if place.is_files else ())
        if isinstance(one, UnreadableSession)
        and one.session_id not in chosen.values()
        and place.sessions.is_own(one.session_id)
    ]
    return Candidates(place, settings, _open_sessions(place, branch), lost)


def _is_open(found: FoundSession) -> bool:
    """Return whether a session exists and has not ended; loading an unreadable one raises."""
    head = found.place.head(found.session_id)
    if head is not None:
        return not head.state.is_terminal
    session = found.place.sessions.load(found.session_id)
    return session is not None and not session.state.is_terminal


def _base(data_folder: Path, environment: Mapping[str, str], configured: Path | None) -> Path:
    named = environment.get(BASE_VARIABLE)
    if named:
        return Path(named).absolute()
    if configured is not None:
        return configured.absolute()
    project = data_folder.parent.absolute()
    return sessions_directory(project, environment) or project / NAME / SESSIONS


def _open_sessions(place: SessionPlace, branch: str) -> list[str]:
    """Return the person's own sessions of a branch that are open and that no runner leads now.

    If there are none, return the only one of no branch, if no workflow made it. Empty for a
    database: it holds the sessions of all projects and does not know their owners.
    """
    if not place.is_files:
        return []
    sessions = place.sessions
    found = [
        one.head
        for one in sessions.summaries()
        if isinstance(one, SessionSummary)
        and not one.head.state.is_terminal
        and not (one.head.state is SessionState.ACTIVE and sessions.is_led(one.session_id))
        and sessions.is_own(one.session_id)
    ]
    tagged = [one.session_id for one in found if not branch or branch in one.tags]
    free = [
        one.session_id
        for one in found
        if one.workflow_type in {None, WORKFLOW_TYPE} and not has_branch(one.tags)
    ]
    return tagged or (free if len(free) == 1 else [])


def _is_prompt(event: HookEvent) -> bool:
    return event.moment is Moment.PROMPTED and event.by_person and bool(event.text.strip())


def create_session(
    sessions: "LocalSessions", goal: str, settings: AgentSettings, branch: str, now: datetime
) -> SessionContext:
    """Create a session; its first prompt becomes the goal if none is given.

    Args:
        sessions: Stores it.
        goal: The goal, of which the first line is the title; or an empty text.
        settings: Name its budget.
        branch: The tag of its branch, or an empty text.
        now: The time.
    """
    text = kept_text(goal)
    session = SessionContext.create(
        WORKFLOW_TYPE,
        None,
        settings.token_budget,
        goal=text[:MAX_GOAL_CHARS] or None,
        title=title_of(text),
        tags=[branch] if branch else [],
        now=now,
    )
    sessions.save(session)
    return session
