"""Which session of ours a conversation of an agent program works on."""

# Annotations are evaluated here: each field's would be compiled if it were a text.

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ..agent_programs.hook_event import HookEvent, Moment
from ..harness.session_checks import MAX_GOAL_CHARS
from ..harness.session_domain import SessionContext, SessionState
from ..harness.session_head import SessionSummary
from .binding import Binding
from .recording import charged_total, kept_text
from .session_place import Place, Stores
from .settings import AgentSettings, read_settings

if TYPE_CHECKING:
    from ..harness.session_ports import LocalSessions

SESSION_VARIABLE: Final = "AGENTFORGE_SESSION"
BASE_VARIABLE: Final = "AGENTFORGE_BASE"
STORE_VARIABLE: Final = "AGENTFORGE_STORE"
WORKFLOW_TYPE: Final = "agent"
_BINDING: Final = frozenset({Moment.STARTED, Moment.PROMPTED})


class Found(NamedTuple):
    """A session, by where it is and its id."""

    place: Place
    session_id: str

    def knows(self, event: HookEvent) -> bool:
        """Return whether the session's record says what of the event's conversation is charged."""
        session = self.place.sessions.load(self.session_id)
        return session is not None and bool(
            charged_total(session, event.program, event.agent_session)
        )


def bound_place(
    binding: Binding, data_folder: Path, environment: Mapping[str, str], stores: Stores
) -> Place | None:
    """Return where the session is that a conversation is bound to; None where it can't be reached.

    A binding has no password: a database is reached by the address that is configured.
    """
    if not binding.store:
        return Place(Path(binding.base), None, stores)
    store = environment.get(STORE_VARIABLE) or read_settings(data_folder).store
    place = Place(Path(binding.base), store, stores)
    return place if place.name == binding.store else None


def find_session(
    event: HookEvent,
    binding: Binding,
    bound: Place | None,
    data_folder: Path,
    environment: Mapping[str, str],
    *,
    stores: Stores,
    now: datetime,
) -> Found | None:
    """Return the session that an event is of, or None if there is none.

    That is the one that AGENTFORGE_SESSION names, else the one that the conversation was bound to
    (at `bound`), else, where a context or a prompt begins, the only open one of the project's
    files. Where there is none at all and the configuration says so, the first prompt creates one,
    of which it is the goal.
    """
    named = environment.get(SESSION_VARIABLE)
    if named:
        store = environment.get(STORE_VARIABLE) or read_settings(data_folder).store
        place = Place(_base(data_folder, environment, None), store, stores)
        return Found(place, place.sessions.resolve(named))
    if binding.session_id is not None and bound is not None:
        found = Found(bound, binding.session_id)
        if _is_open(found):
            return found
    if event.moment not in _BINDING:
        return None
    settings = read_settings(data_folder)
    store = environment.get(STORE_VARIABLE) or settings.store
    place = Place(_base(data_folder, environment, settings.sessions), store, stores)
    open_sessions = _open_sessions(place)
    if len(open_sessions) == 1:
        return Found(place, open_sessions[0])
    if open_sessions or not _may_create(event, settings):
        return None
    return Found(place, _create(place.sessions, event, settings, now))


def _is_open(found: Found) -> bool:
    """Return whether a session is there and has not ended; what can't be read is said later."""
    head = found.place.head(found.session_id)
    if head is not None:
        return not head.state.is_terminal
    session = found.place.sessions.load(found.session_id)
    return session is not None and not session.state.is_terminal


def _base(data_folder: Path, environment: Mapping[str, str], configured: Path | None) -> Path:
    named = environment.get(BASE_VARIABLE)
    if named:
        return Path(named).absolute()
    return (configured or data_folder / "sessions").absolute()


def _open_sessions(place: Place) -> list[str]:
    """Return sessions that have not ended and that no runner leads now: two, if there are more.

    None of a database: it has those of all projects, and does not know whose each is.
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
