"""A session of the OpenAI Agents SDK, stored in one of ours.

    from agentforge_sessions.integrations.bridges.openai_agents import AgentForgeSession

    await Runner.run(agent, "Hello", session=AgentForgeSession("user-42"))

A conversation is an active session of the workflow `openai-agents`, whose id is a hash of the
conversation's; its items are entries of a stream beside it. So `agentforge list` shows it, a prune
removes it once it has ended, and `agentforge fleet store copy` includes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from ...base.clock import Clock, utc_now
from ...base.errors import ExtraMissing
from ...harness import LocalSessions, SessionObserver
from ...harness.stream_port import NewEntry, StreamEntry
from .followed_stream import FollowedStream
from .foreign_sessions import StoreUser, UnreadableEntry, in_thread

try:
    from agents.items import TResponseInputItem
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import (
        SessionSettings,
        coerce_session_settings,
        resolve_session_limit,
    )
except ModuleNotFoundError as error:
    raise ExtraMissing("this bridge", "an SDK", "openai-agents") from error

_KIND: Final = "openai-agents"
_ITEM: Final = b""
_POP: Final = b"pop"
_DEAD: Final = 100
"""The least number of obsolete entries for which a conversation is rewritten."""


class AgentForgeSession(StoreUser, SessionABC):
    """Stores the items of a conversation in a session.

    Guarantees: when a call that writes returns, what it wrote survives the death of the process;
    when it raises, nothing of it is stored. The items of one `add_items` appear all together.
    Several processes may write to one conversation: no added item is lost, and each item is popped
    once. A conversation whose session has ended accepts no more items.

    Instances may be shared between threads and event loops. Blocking work runs in a worker thread;
    a cancelled call has ended when the caller continues.

    Args:
        session_id: The conversation's id, any text.
        store: A folder's path, `postgresql://…`, or an open store. By default as the command line:
            the one in AGENTFORGE_STORE, or `.agentforge/sessions`.
        session_settings: The SDK's settings; their `limit` is how many items are read by default.
        clock: The time.
        observers: The observers of sessions created for it; see `harness.SessionObserver`.

    Attributes:
        session_id: The conversation's id.
        session_settings: The settings.

    Raises:
        InvalidStoreAddress: `store` is not a store's address.
        ExtraMissing: It is a database, and the packages for it are not installed.
    """

    def __init__(
        self,
        session_id: str,
        store: LocalSessions | Path | str | None = None,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        clock: Clock = utc_now,
        observers: Iterable[SessionObserver] = (),
    ) -> None:
        self.session_id = session_id
        self.session_settings = (
            SessionSettings()
            if session_settings is None
            else coerce_session_settings(session_settings)
        )
        self._sessions = self._opened(
            store, _KIND, words="OpenAI Agents conversation", clock=clock, observers=observers
        )
        self._items: list[StreamEntry] = []
        self._entries = 0
        self._stream = FollowedStream(
            self._sessions, session_id, _KIND, forget=self._forget, take=self._take
        )

    @property
    def agentforge_session_id(self) -> str:
        """The id of the conversation's session, existing or not."""
        return self._stream.session_id

    # ------------------------------------------------------------------------- the SDK's protocol

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, the oldest first.

        Args:
            limit: Only this many, the last ones; the settings' limit if None, and all of them if
                that is None too, or less than 0.

        Raises:
            HarnessError: The store refused, or its data is damaged.
            BridgeError: The session belongs to another id, or its entries can't be read.
        """
        most = resolve_session_limit(limit, self.session_settings)
        return await in_thread(self._stream.reading, lambda: self._decoded(self._last(most)))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items, all or none, durably.

        Raises:
            TypeError: An item can't be written as JSON; nothing was added.
            InvalidStateTransition: The session has ended.
            HarnessError: The store refused; nothing was added.
            BridgeError: The session belongs to another id.
        """
        entries = [NewEntry(_ITEM, json.dumps(item).encode()) for item in items]
        if entries:
            await in_thread(self._stream.append, entries)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove the last item and return it; None if there is none.

        Raises:
            HarnessError: As from `add_items`; nothing was removed.
            BridgeError: As from `get_items`.
        """
        return await in_thread(self._stream.reading, self._pop)

    async def clear_session(self) -> None:
        """Remove all items; the session stays.

        Raises:
            HarnessError: As from `add_items`; nothing was removed.
            BridgeError: The session belongs to another id.
        """
        await in_thread(self._stream.reading, self._clear)

    # --------------------------------------------------------------------------- within a look

    def _take(self, entries: Sequence[StreamEntry]) -> None:
        for entry in entries:
            self._entries += 1
            if entry.head == _ITEM:
                self._items.append(entry)
            elif entry.head == _POP and self._items:
                self._items.pop()
            elif entry.head == _POP and not self._stream.whole:
                pass  # it popped an item before the ones read here
            else:
                raise UnreadableEntry(entry.position, f"its kind is unknown, {entry.head!r}")

    def _forget(self) -> None:
        self._items = []
        self._entries = 0

    def _last(self, most: int | None) -> list[StreamEntry]:
        if most is None or most < 0:
            self._stream.all()
            return self._items
        while len(self._items) < most and not self._stream.whole:
            self._stream.further()
        return self._items[-most:] if most else []

    def _decoded(self, entries: Sequence[StreamEntry]) -> list[TResponseInputItem]:
        bodies = self._stream.bodies(entries)
        try:
            return list(map(json.loads, bodies))
        except ValueError as error:
            reason = f"an item from there on is no JSON: {error}"
            raise UnreadableEntry(entries[0].position, reason) from error

    def _pop(self) -> TResponseInputItem | None:
        last = self._last(1)
        if not last:
            return None
        (item,) = self._decoded(last)
        if self._entries - len(self._items) >= max(_DEAD, len(self._items)):
            self._stream.all()
        if self._entries - len(self._items) >= max(_DEAD, len(self._items)):
            left = self._stream.bodies(self._items[:-1])
            self._stream.replace([NewEntry(_ITEM, body) for body in left])
        else:
            self._stream.append([NewEntry(_POP, b"")], expected=self._stream.mark)
        return item

    def _clear(self) -> None:
        if self._stream.mark is not None:
            self._stream.replace([])
