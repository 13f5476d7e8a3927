"""Find the session that a conversation of an agent program works on."""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ...base.data_folder import NAME, SESSIONS
from ...harness.domain.session_checks import MAX_GOAL_CHARS
from ...harness.session_domain import SessionContext, SessionState
from ...harness.store.sessions_place import sessions_directory
from ...harness.views.session_head import SessionSummary
from ..programs.hook_event import HookEvent, Moment
from .binding import Binding
from .recording import charged_total, kept_text
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
    """A session: its place and its id."""

    place: SessionPlace
    session_id: str

    def knows(self, event: HookEvent) -> bool:
        """Return whether the session records charges of the event's conversation."""
        session = self.place.sessions.load(self.session_id)
        return session is not None and bool(
            charged_total(session, event.program, event.agent_session)
        )


class Candidates(NamedTuple):
    """Sessions that a conversation without a session may work on.

    Attributes:
        place: Where its session is, or will be.
        settings: The project's configuration.
        open_sessions: The open sessions there, at most two of them.
    """

    place: SessionPlace
    settings: AgentSettings
    open_sessions: list[str]


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
    data_folder: Path,
    environment: Mapping[str, str],
    *,
    stores: Stores,
    now: datetime,
) -> FoundSession | None:
    """Return the session of an event, or None if there is none.

    The session is the one that AGENTFORGE_SESSION names; else the one that the conversation is
    bound to (at `bound`); else, when a context or a prompt begins, the only open one in the
    project's files. If there is none and the configuration allows it, the first prompt creates one
    and becomes its goal. Each must be this person's own: a session that came with a clone is
    ignored.

    Raises:
        SessionNotAdopted: AGENTFORGE_SESSION names a session that is not this person's own.
    """
    named = named_session(data_folder, environment, stores)
    if named is not None:
        return named
    if binding.session_id is not None and bound is not None:
        found = FoundSession(bound, binding.session_id)
        if bound.sessions.is_own(binding.session_id) and _is_open(found):
            return found
    if event.moment not in _BINDING:
        return None
    place, settings, open_sessions = candidates(data_folder, environment, stores)
    if len(open_sessions) == 1:
        return FoundSession(place, open_sessions[0])
    if open_sessions or not _may_create(event, settings):
        return None
    return FoundSession(place, _create(place.sessions, event, settings, now))


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


def candidates(data_folder: Path, environment: Mapping[str, str], stores: Stores) -> Candidates:
    """Return the sessions that a conversation without a session may work on."""
    settings = read_settings(data_folder, environment)
    store = environment.get(STORE_VARIABLE) or settings.store
    place = SessionPlace(_base(data_folder, environment, settings.sessions), store, stores)
    return Candidates(place, settings, _open_sessions(place))


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


def _open_sessions(place: SessionPlace) -> list[str]:
    """Return at most two of the person's own sessions that are open and that no runner leads now.

    Empty for a database: it holds the sessions of all projects and does not know their owners.
    """
    if not place.is_files:
        return []
    sessions = place.sessions
    found = (
        one.session_id
        for one in sessions.summaries()
        if isinstance(one, SessionSummary)
        and not one.head.state.is_terminal
        and not (one.head.state is SessionState.ACTIVE and sessions.is_led(one.session_id))
        and sessions.is_own(one.session_id)
    )
    return list(islice(found, 2))


def _may_create(event: HookEvent, settings: AgentSettings) -> bool:
    return (
        settings.create
        and event.moment is Moment.PROMPTED
        and event.by_person
        and bool(event.text.strip())
    )


def _create(
    store: "LocalSessions", event: HookEvent, settings: AgentSettings, now: datetime
) -> str:
    session = SessionContext.create(
        WORKFLOW_TYPE,
        None,
        settings.token_budget,
        goal=kept_text(event.text)[:MAX_GOAL_CHARS],
        now=now,
    )
    store.save(session)
    return session.session_id
