"""Notifies open pages of changes; the cost of looking does not grow with the number of pages.

A notification holds topics and no content; a page then requests its content again. Topics that
change at about the same time share a notification. A page that reads slowly misses none, since its
topics accumulate.
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
"""Maximum number of pages that listen at once."""

_GATHER_S: Final = 0.05
_REST_S: Final = 0.2
"""Minimum time between two looks, in seconds; changes in between share a notification."""
_TICK_S: Final = 1.0
"""Maximum time between two looks while a page is open, in seconds: nothing reports changes in a
database or runs that were cut off."""
_IDLE_TICK_S: Final = 15.0
_FLEET_S: Final = 2.0
_QUESTIONS_S: Final = 10.0
"""Maximum time between two looks at waiting questions, in seconds: one may have timed out, and an
asker's death changes no file."""
_HEARTBEAT_S: Final = 15.0
"""Maximum time between two messages to a page, in seconds, so that it knows the server lives."""

_log = get_logger("agentforge.ui")


def session_topic(session_id: str) -> str:
    """Return the topic of one session."""
    return f"session:{session_id}"


class Listener:
    """An open page's subscription to topics."""

    def __init__(self, topics: frozenset[str]) -> None:
        self.topics = topics
        self._waiting: set[str] = set()
        self._event = asyncio.Event()
        self._closed = False

    def tell(self, topics: Iterable[str]) -> None:
        """Queue changed topics for the page; topics without subscription are ignored."""
        if found := self.topics.intersection(topics):
            self._waiting |= found
            self._event.set()

    def close(self) -> None:
        """End the stream of the page."""
        self._closed = True
        self._event.set()

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield changed topics as server-sent events until closed."""
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
    """Watches sessions, questions and fleet for changes and notifies listening pages.

    Args:
        services: The data to watch.
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
        """Subscribe a page to topics; `leave` ends the subscription."""
        listener = Listener(frozenset(topics))
        self._listeners.add(listener)
        if self._bell is not None:
            self._bell.ring()
        return listener

    def leave(self, listener: Listener) -> None:
        """Remove a page's subscription."""
        self._listeners.discard(listener)

    def tell(self, *topics: str) -> None:
        """Notify the pages subscribed to the topics."""
        for one in tuple(self._listeners):
            one.tell(topics)

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        for one in tuple(self._listeners):
            one.close()

    def _sessions_looked_at(self) -> set[str]:
        topics = frozenset().union(*(one.topics for one in self._listeners))
        beginning = session_topic("")
        return {one.removeprefix(beginning) for one in topics if one.startswith(beginning)}

    # ----------------------------------------------------------------------------- looking

    async def run(self) -> None:
        """Watch for changes until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._follow_sessions)
            group.start_soon(self._follow_questions)
            if self._services.in_database:
                group.start_soon(self._follow_fleet)

    async def _follow_sessions(self) -> None:
        self._bell = bell = LoopBell()
        self._services.watch.on_change = bell.ring
        thread = anyio.CapacityLimiter(1)  # its own, so that it never queues behind requests
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
            except (AgentForgeError, OSError) as error:  # their store can't be read or watched
                _log.warning("ui.look_failed", error=str(error))
            await anyio.sleep(_TICK_S)

    async def _follow_fleet(self) -> None:
        while True:
            await anyio.sleep(_FLEET_S)
            self.tell(FLEET)
