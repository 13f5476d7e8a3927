"""Telling open pages that something changed: one task looks, whatever the number of pages.

What is told is a topic and no content; a page then asks for what it shows. Topics that come
together are told together, and a page that does not read loses none, since they add up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from ...questions.waiting.waiting import LoopBell
from .services import UiServices

SESSIONS: Final = "sessions"
QUESTIONS: Final = "questions"
FLEET: Final = "fleet"
MAX_PAGES: Final = 64
"""How many pages may listen at once."""

_GATHER_S: Final = 0.05
_REST_S: Final = 0.2
"""The least time between two looks, in seconds: what comes meanwhile is told together."""
_TICK_S: Final = 1.0
"""How often is looked while a page is open, in seconds: a database, and whose run was cut off."""
_IDLE_TICK_S: Final = 15.0
_FLEET_S: Final = 2.0
_QUESTIONS_S: Final = 10.0
"""How often waiting questions are looked at though nothing was reported, in seconds: their time may
be over, and whether an asker lives stands in no file."""
_HEARTBEAT_S: Final = 15.0
"""How often a page hears that the server lives, in seconds."""

_log = get_logger("agentforge.ui")


def session_topic(session_id: str) -> str:
    """Return the topic of one session."""
    return f"session:{session_id}"


class Listener:
    """A page that listens."""

    def __init__(self, topics: frozenset[str]) -> None:
        self.topics = topics
        self._waiting: set[str] = set()
        self._event = asyncio.Event()
        self._closed = False

    def tell(self, topics: Iterable[str]) -> None:
        """Add topics that changed; those of others are left out."""
        if found := self.topics.intersection(topics):
            self._waiting |= found
            self._event.set()

    def close(self) -> None:
        """End the stream of the page."""
        self._closed = True
        self._event.set()

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield what changed as server-sent events, until it is closed."""
        yield b"retry: 1000\n\n"
        while True:
            with anyio.move_on_after(_HEARTBEAT_S):
                await self._event.wait()
            if self._closed:
                return
            self._event.clear()
            topics, self._waiting = sorted(self._waiting), set()
            if topics:
                yield f"event: changed\ndata: {json.dumps(topics)}\n\n".encode()
            else:
                yield b": still here\n\n"


class Live:
    """The one task of a server that looks, and the pages that listen.

    Args:
        services: What is looked at.
    """

    def __init__(self, services: UiServices) -> None:
        self._services = services
        self._listeners: set[Listener] = set()
        self._bell: LoopBell | None = None

    # ---------------------------------------------------------------------------- listeners

    @property
    def is_full(self) -> bool:
        """Whether no further page may listen."""
        return len(self._listeners) >= MAX_PAGES

    def listen(self, topics: Iterable[str]) -> Listener:
        """Add a page; `leave` removes it."""
        listener = Listener(frozenset(topics))
        self._listeners.add(listener)
        if self._bell is not None:
            self._bell.ring()
        return listener

    def leave(self, listener: Listener) -> None:
        """Remove a page."""
        self._listeners.discard(listener)

    def tell(self, *topics: str) -> None:
        """Tell the pages of topics that something of them changed."""
        for one in tuple(self._listeners):
            one.tell(topics)

    def close(self) -> None:
        """End all streams, so that the server can end."""
        for one in tuple(self._listeners):
            one.close()

    def _sessions_looked_at(self) -> set[str]:
        topics = frozenset().union(*(one.topics for one in self._listeners))
        beginning = session_topic("")
        return {one.removeprefix(beginning) for one in topics if one.startswith(beginning)}

    # ----------------------------------------------------------------------------- looking

    async def run(self) -> None:
        """Look until it is cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow_sessions)
            group.start_soon(self._follow_questions)
            if self._services.in_database:
                group.start_soon(self._follow_fleet)

    async def _follow_sessions(self) -> None:
        self._bell = bell = LoopBell()
        self._services.watch.on_change = bell.ring
        thread = anyio.CapacityLimiter(1)  # never behind the pages' own calls
        self._services.catch_up()
        while True:
            bell.clear()
            also = self._sessions_looked_at()
            try:
                look = partial(self._services.watch.look, also=also)
                changed = await anyio.to_thread.run_sync(look, limiter=thread)
            except AgentForgeError as error:
                _log.warning("ui.look_failed", error=str(error))
            else:
                if changed:
                    self.tell(SESSIONS, *map(session_topic, changed))
                    self._services.catch_up()
            await anyio.sleep(_REST_S)
            rest = (_TICK_S if self._listeners else _IDLE_TICK_S) - _REST_S
            if await bell.wait(rest):
                await anyio.sleep(_GATHER_S)

    async def _follow_questions(self) -> None:
        thread, questions = anyio.CapacityLimiter(1), self._services.questions
        look = self._services.look_at_questions
        while True:
            try:
                if not self._services.read_only:
                    questions.prepare()
                found = questions.changes_async(at_least_every_s=_QUESTIONS_S)
                async with aclosing(found) as changes:
                    async for _ in changes:
                        if asked := await anyio.to_thread.run_sync(look, limiter=thread):
                            self.tell(QUESTIONS, SESSIONS, *map(session_topic, asked))
            except (AgentForgeError, OSError) as error:  # what keeps them can't be read or watched
                _log.warning("ui.look_failed", error=str(error))
            await anyio.sleep(_TICK_S)

    async def _follow_fleet(self) -> None:
        while True:
            await anyio.sleep(_FLEET_S)
            self.tell(FLEET)
