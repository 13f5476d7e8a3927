"""Which session of ours a conversation of an agent program works on."""

# Annotations are evaluated here: each field's would be compiled if it were a text.

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from ..agent_programs.hook_event import HookEvent, Moment
from ..durable import FileLock, LockTimeout, OsFileSystem
from ..durable.errors import DurableError
from ..harness.session_checks import MAX_GOAL_CHARS
from ..harness.session_domain import SessionContext, SessionState
from ..harness.session_head import SessionSummary
from ..harness.session_layout import RUN_LOCKS
from ..harness.session_store import SessionStore
from .binding import Binding
from .recording import charged_total, kept_text
from .session_heads import head_of
from .settings import AgentSettings, read_settings

SESSION_VARIABLE: Final = "AGENTFORGE_SESSION"
BASE_VARIABLE: Final = "AGENTFORGE_BASE"
WORKFLOW_TYPE: Final = "agent"
_BINDING: Final = frozenset({Moment.STARTED, Moment.PROMPTED})


class Found(NamedTuple):
    """A session, by its base and its id."""

    base: Path
    session_id: str

    def knows(self, event: HookEvent) -> bool:
        """Return whether the session's record says what of the event's conversation is charged."""
        session = SessionStore(self.base).load(self.session_id)
        return session is not None and bool(
            charged_total(session, event.program, event.agent_session)
        )


def find_session(
    event: HookEvent,
    binding: Binding,
    data_folder: Path,
    environment: Mapping[str, str],
    *,
    now: datetime,
) -> Found | None:
    """Return the session that an event is of, or None if there is none.

    That is the one that AGENTFORGE_SESSION names, else the one that the conversation was bound to,
    else, where a context or a prompt begins, the project's only open one. Where there is none at
    all and the configuration says so, the first prompt creates one, of which it is the goal.
    """
    named = environment.get(SESSION_VARIABLE)
    if named:
        base = _base(data_folder, environment, None)
        return Found(base, SessionStore(base).resolve(named))
    if binding.session_id is not None:
        bound = Found(Path(binding.base), binding.session_id)
        if _is_open(bound):
            return bound
    if event.moment not in _BINDING:
        return None
    settings = read_settings(data_folder)
    base = _base(data_folder, environment, settings.sessions)
    store = SessionStore(base)
    open_sessions = _open_sessions(store)
    if len(open_sessions) == 1:
        return Found(base, open_sessions[0])
    if open_sessions or not _may_create(event, settings):
        return None
    return Found(base, _create(store, event, settings, now))


def _is_open(found: Found) -> bool:
    """Return whether a session is there and has not ended; what can't be read is said later."""
    head = head_of(found.base, found.session_id)
    if head is not None:
        return not head[0].state.is_terminal
    session = SessionStore(found.base).load(found.session_id)
    return session is not None and not session.state.is_terminal


def _base(data_folder: Path, environment: Mapping[str, str], configured: Path | None) -> Path:
    named = environment.get(BASE_VARIABLE)
    if named:
        return Path(named).absolute()
    return (configured or data_folder / "sessions").absolute()


def _open_sessions(store: SessionStore) -> list[str]:
    """Return the sessions that have not ended and that no runner leads now."""
    return [
        one.session_id
        for one in store.summaries()
        if isinstance(one, SessionSummary)
        and not one.head.state.is_terminal
        and not (one.head.state is SessionState.ACTIVE and _is_led(one.path.parent))
    ]


def _is_led(directory: Path) -> bool:
    """Return whether a runner holds the session's run lock."""
    for name in RUN_LOCKS:
        lock = FileLock(OsFileSystem(), directory / name, timeout_s=0.0)
        try:
            lock.acquire()
        except LockTimeout:
            return True
        except (FileNotFoundError, DurableError):
            continue
        lock.release()
    return False


def _may_create(event: HookEvent, settings: AgentSettings) -> bool:
    return (
        settings.create
        and event.moment is Moment.PROMPTED
        and event.by_person
        and bool(event.text.strip())
    )


def _create(store: SessionStore, event: HookEvent, settings: AgentSettings, now: datetime) -> str:
    session = SessionContext.create(
        WORKFLOW_TYPE,
        None,
        settings.token_budget,
        goal=kept_text(event.text)[:MAX_GOAL_CHARS],
        now=now,
    )
    store.save(session)
    return session.session_id
