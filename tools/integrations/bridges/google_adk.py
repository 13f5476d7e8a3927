"""A session service of Google's Agent Development Kit that stores its sessions in ours.

    from agentforge_sessions.integrations.bridges.google_adk import AgentForgeSessionService

    runner = Runner(app_name="app", agent=agent, session_service=AgentForgeSessionService())

An ADK session is an active session of the workflow `google-adk`, whose id is a hash of the app's,
the user's and the session's; its events are entries of a stream beside it. So `agentforge list`
shows it, a prune removes it once it has ended, and `agentforge fleet store copy` includes it. The
state that the sessions of an app or a user share is a session of its own, of the workflow
`google-adk-state`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...base.clock import Clock, utc_now
from ...base.errors import ExtraMissing
from ...base.files.atomic_file import random_token
from ...harness import LocalSessions, SessionObserver
from ...harness.stream_port import NewEntry, StreamEntry, StreamMark
from .followed_stream import Followed, FollowedStream
from .foreign_sessions import ForeignSessions, StoreUser, UnreadableEntry, in_thread

try:
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events import Event
    from google.adk.sessions import BaseSessionService, Session, State
    from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
    from pydantic_core import to_jsonable_python
except ModuleNotFoundError as error:
    raise ExtraMissing("this bridge", "Google's ADK", "google-adk") from error

_KIND: Final = "google-adk"
_STATE_KIND: Final = "google-adk-state"

_State = dict[str, Any]


class _Head(NamedTuple):
    """What the head of an entry has.

    Attributes:
        id: The event's id; random for the first entry, which has the state given at creation.
        at: When it was made, in seconds since the epoch.
        own: What it changed in the state of the session, or of what else the stream is of.
        app: What it changed in the state of the app.
        user: What it changed in the state of the user.
    """

    id: str
    at: float
    own: _State
    app: _State
    user: _State


class _Log:
    """The entries of a session, or of a shared state, followed."""

    def __init__(self, sessions: ForeignSessions, kind: str, name: str) -> None:
        self.heads: list[tuple[_Head, StreamEntry]] = []
        self.state: _State = {}
        self.ids: set[str] = set()
        self.stream = FollowedStream(sessions, name, kind, forget=self._forget, take=self._take)

    def _take(self, entries: Sequence[StreamEntry]) -> None:
        for entry in entries:
            try:
                head = _Head(**json.loads(entry.head))
                self.state.update(head.own)
                self.ids.add(head.id)
            except (ValueError, TypeError) as error:
                raise UnreadableEntry(entry.position, str(error)) from error
            self.heads.append((head, entry))

    def _forget(self) -> None:
        self.heads, self.state, self.ids = [], {}, set()

    def add(self, head: _Head, body: bytes = b"") -> None:
        """Append an entry to what was read; within a look.

        Raises:
            StreamMoved: Another worker appended since.
        """
        entry = NewEntry(json.dumps(head._asdict()).encode(), body)
        self.stream.append([entry], expected=self.stream.mark or StreamMark())

    def revision_with(self, *further: _Head) -> str:
        """Return a text that differs after each further entry, or the one after some."""
        last = further[-1] if further else self.heads[-1][0]
        return f"{len(self.heads) + len(further)} {last.id}"


class AgentForgeSessionService(StoreUser, BaseSessionService):
    """Stores the sessions of ADK's apps, each in a session.

    Guarantees: when `append_event` returns, the event survives the death of the process; when it
    raises, the event is not stored. An event for a session that another process changed since the
    caller read it is refused. What an event changes in the state of its app or user is stored after
    the event; if the process dies between the two, the next use of the session completes it. A
    session that has ended accepts no more events.

    Instances may be shared between threads and event loops. Blocking work runs in a worker thread;
    a cancelled call has ended when the caller continues.

    Args:
        store: A folder's path, `postgresql://…`, or an open store. By default as the command line:
            the one in AGENTFORGE_STORE, or `.agentforge/sessions`.
        clock: The time.
        observers: The observers of sessions created for it; see `harness.SessionObserver`.
        token: Returns new random text.

    Raises:
        InvalidStoreAddress: `store` is not a store's address.
        ExtraMissing: It is a database, and the packages for it are not installed.
    """

    def __init__(
        self,
        store: LocalSessions | Path | str | None = None,
        *,
        clock: Clock = utc_now,
        observers: Iterable[SessionObserver] = (),
        token: Callable[[], str] = random_token,
    ) -> None:
        self._clock = clock
        self._token = token
        opened = partial(self._opened, clock=clock, observers=observers)
        sessions = opened(store, _KIND, words="ADK session")
        shared = ForeignSessions(
            self._store, _STATE_KIND, words="ADK state of", clock=clock, observers=observers
        )
        self._logs = Followed(sessions, partial(_Log, sessions, _KIND))
        self._shared = Followed(shared, partial(_Log, shared, _STATE_KIND))

    def agentforge_session_id(self, *, app_name: str, user_id: str, session_id: str) -> str:
        """Return the id of the session of ours, existing or not."""
        return self._logs.sessions.session_id(_name(app_name, user_id, session_id))

    # ------------------------------------------------------------------------- the SDK's protocol

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session, durably.

        Raises:
            AlreadyExistsError: The user has one of this id.
            PydanticSerializationError: The state can't be written as JSON; nothing was created.
            HarnessError: The store refused.
            BridgeError: The session belongs to another id.
        """
        given = to_jsonable_python(state or {})
        wanted = (session_id or "").strip() or self._token()
        head = _head(self._token(), self._clock().timestamp(), given)
        return await in_thread(self._created, (app_name, user_id, wanted), head)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with the events that are asked for; None if there is none.

        Raises:
            HarnessError: The store refused, or its data is damaged.
            BridgeError: The session belongs to another id, or its entries can't be read.
        """
        key = (app_name, user_id, session_id.strip())
        return await in_thread(self._read, key, config or GetSessionConfig())

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of an app, or of one of its users, without their events.

        The one that changed last is the last. Raises as `get_session`.
        """

        def found() -> list[Session]:
            keys = [_key(name) for name in self._logs.sessions.names()]
            none = GetSessionConfig(num_recent_events=0)
            read = (
                self._read(key, none)
                for key in keys
                if key[0] == app_name and user_id in {None, key[1]}
            )
            return sorted(
                (one for one in read if one is not None),
                key=lambda one: (one.last_update_time, one.user_id, one.id),
            )

        return ListSessionsResponse(sessions=await in_thread(found))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session, if it exists; the state of its app and user stays.

        Raises:
            SessionInUse: Something is at work in it.
            HarnessError: The store refused.
        """
        await in_thread(self._logs.remove, _name(app_name, user_id, session_id.strip()))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return what the sessions of a user share, without the prefix of its keys.

        Raises as `get_session`.
        """
        return await in_thread(self._shared_state, app_name, user_id)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store an event durably, then add it to the session in memory.

        Raises:
            SessionNotFoundError: There is no such session.
            StaleSessionError: Another process changed it since `session` was read.
            InvalidStateTransition: The session has ended.
            HarnessError: The store refused; nothing was stored.
            BridgeError: As from `get_session`.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        delta = event.model_dump(mode="json", include={"actions": {"state_delta"}})
        head = _head(event.id, event.timestamp, delta["actions"]["state_delta"])
        await in_thread(self._append, session, head, event.model_dump_json().encode())
        return self._commit_event_to_session(session, event)

    # --------------------------------------------------------------------------- in a thread

    def _created(self, key: _Key, head: _Head) -> Session:
        log = self._logs.get(_name(*key))

        def begin() -> None:
            if log.heads:
                raise AlreadyExistsError(f"Session with id {key[2]} already exists.")
            log.add(head)

        log.stream.reading(begin)
        made = self._read(key, GetSessionConfig())
        if made is None:
            raise SessionNotFoundError(f"Session {key[2]} was deleted while it was created.")
        return made

    def _append(self, session: Session, head: _Head, body: bytes) -> None:
        log = self._logs.get(_name(session.app_name, session.user_id, session.id))

        def append() -> None:
            log.stream.all()
            if not log.heads:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            self._complete(session.app_name, session.user_id, log.heads[-1][0])
            if _is_stale(session, log):
                raise StaleSessionError(
                    f"Session {session.id} was changed since it was read; the event was not stored."
                    " Get the session again."
                )
            log.add(head, body)
            # Before the next look: the branches of an invocation share one `session`.
            session._storage_update_marker = log.revision_with(head)
            session.last_update_time = head.at

        log.stream.reading(append)
        self._complete(session.app_name, session.user_id, head)

    def _read(self, key: _Key, config: GetSessionConfig) -> Session | None:
        app_name, user_id, session_id = key
        log = self._logs.get(_name(*key))

        def look() -> Session | None:
            log.stream.all()
            if not log.heads:
                return None
            self._complete(app_name, user_id, log.heads[-1][0])
            since = config.after_timestamp or 0.0
            wanted = [entry for head, entry in log.heads[1:] if head.at >= since]
            if config.num_recent_events is not None:
                wanted = wanted[max(len(wanted) - config.num_recent_events, 0) :]
            events = [Event.model_validate_json(body) for body in log.stream.bodies(wanted)]
            shared = {
                **_prefixed(State.APP_PREFIX, self._shared_state(app_name)),
                **_prefixed(State.USER_PREFIX, self._shared_state(app_name, user_id)),
            }
            session = Session(
                id=session_id,
                app_name=app_name,
                user_id=user_id,
                state={**deepcopy(log.state), **shared},
                events=events,
                last_update_time=log.heads[-1][0].at,
            )
            session._storage_update_marker = log.revision_with()
            return session

        return log.stream.reading(look)

    def _complete(self, app_name: str, user_id: str, head: _Head) -> None:
        """Store what an entry changed in shared states, if that is not done."""
        for delta, names in ((head.app, (app_name,)), (head.user, (app_name, user_id))):
            if delta:
                self._share(self._shared.get(_name(*names)), head._replace(own=delta))

    def _share(self, shared: _Log, head: _Head) -> None:
        def add() -> None:
            shared.stream.all()
            if head.id not in shared.ids:
                shared.add(head._replace(app={}, user={}))

        shared.stream.reading(add)

    def _shared_state(self, *names: str) -> _State:
        shared = self._shared.get(_name(*names))

        def look() -> _State:
            shared.stream.all()
            return deepcopy(shared.state)

        return shared.stream.reading(look)


_Key = tuple[str, str, str]
"""An app, a user of it, and a session of theirs."""


def _name(*key: str) -> str:
    return json.dumps(key)


def _key(name: str) -> _Key:
    app_name, user_id, session_id = json.loads(name)
    return app_name, user_id, session_id


def _head(event_id: str, at: float, delta: Mapping[str, Any]) -> _Head:
    """Return the head of an entry that changes a state, without what is only for the moment."""
    parts: dict[str, _State] = {State.APP_PREFIX: {}, State.USER_PREFIX: {}, State.TEMP_PREFIX: {}}
    own: _State = {}
    for name, value in delta.items():
        prefix = next(filter(name.startswith, parts), "")
        parts.get(prefix, own)[name.removeprefix(prefix)] = value
    return _Head(event_id, at, own, parts[State.APP_PREFIX], parts[State.USER_PREFIX])


def _prefixed(prefix: str, state: _State) -> _State:
    return {f"{prefix}{name}": value for name, value in state.items()}


def _is_stale(session: Session, log: _Log) -> bool:
    """Return whether a session has changed since it was read; one made by hand has no mark."""
    mark = session._storage_update_marker
    if mark is not None:
        return bool(mark != log.revision_with())
    own = session.events[-1].id if session.events else None
    last = log.heads[-1][0].id if len(log.heads) > 1 else None
    return own != last
