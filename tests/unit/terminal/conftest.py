"""The application, driven by a person who only sees the screen and presses keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import define
from textual import events
from textual.message_pump import MessagePump
from textual.pilot import Pilot

from agentforge_sessions.entrypoints.terminal.app import QuestionsApp
from agentforge_sessions.entrypoints.terminal.drafts.draft_store import DraftStore
from agentforge_sessions.entrypoints.terminal.theme_name import ThemeName
from agentforge_sessions.questions import Question, UserAnswer
from tests.support.question_queue import FakeQueue

PATIENCE_S = 30.0
_NAMED = {
    " ": ("space", " "),
    "\n": ("enter", "\r"),
    "'": ("apostrophe", "'"),
    ",": ("comma", ","),
    "[": ("left_square_bracket", "["),
    "]": ("right_square_bracket", "]"),
}
_CHARACTERS = {"enter": "\r", "tab": "\t", "space": " ", "escape": "\x1b", "question_mark": "?"}
_ENDLESS = frozenset({"follow", "keys"})
"""The work that ends with the application."""


def _waits_for_messages(pump: MessagePump) -> bool:
    queue = pump._message_queue
    waiting = any(not one.done() for one in queue.ready_event._waiters)  # type: ignore[attr-defined]
    return waiting and queue.empty() and not pump._next_callbacks


def flat(text: str) -> str:
    """Undo the wrapping of a window."""
    return " ".join(text.replace("│", " ").replace("▌", " ").split())


@define
class Person:
    """Somebody at the terminal."""

    app: QuestionsApp
    pilot: Pilot[None]
    queue: FakeQueue
    drafts: DraftStore
    which: str = ""
    """The session that was asked for this sitting."""

    @property
    def answers(self) -> tuple[UserAnswer, ...]:
        """What was sent to that session."""
        return self.queue.sessions[self.which].answers

    async def press(self, *keys: str) -> None:
        """Press keys slowly: each when all that the one before it began is done and drawn."""
        for key in keys:
            character = key if len(key) == 1 else _CHARACTERS.get(key)
            await self.burst((_NAMED.get(key, (key, None))[0], character))

    async def sends(self, *keys: str) -> None:
        """Press keys, of which the last one ends the last session that waits."""
        await self.press(*keys)
        await self.waits_for("0 waiting")

    async def write(self, text: str) -> None:
        """Type a text, as fast as it goes."""
        await self.burst(*[_NAMED.get(one, (one, one)) for one in text])

    async def burst(self, *keys: tuple[str, str | None]) -> None:
        """Send keys all at once, as they come in one packet over a slow line."""
        self.send(*keys)
        await self.settles()

    def send(self, *keys: tuple[str, str | None]) -> None:
        """Send keys, and wait for nothing."""
        for key, character in keys:
            self.app.post_message(events.Key(key, character))

    async def settles(self) -> None:
        """Wait until nothing is left to be done, and all of it is drawn."""
        with anyio.move_on_after(PATIENCE_S):
            while True:
                while not self._at_rest():
                    await asyncio.sleep(0.001)
                self.app.screen._on_timer_update()  # what the next sixtieth of a second would draw
                if self._at_rest():
                    return
        raise AssertionError(f"it never came to rest:\n{self.sees()}")

    def _at_rest(self) -> bool:
        """Return whether all messages are handled, all work is done, all callbacks are called."""
        app = self.app
        if not app.is_running:
            return True
        if app._typed._unfinished_tasks or any(  # type: ignore[attr-defined]
            not one.is_finished for one in app.workers if one.name not in _ENDLESS
        ):
            return False
        pumps: list[MessagePump] = [app]
        for screen in app.screen_stack:
            pumps += screen.walk_children(with_self=True)
        return all(map(_waits_for_messages, pumps)) and not app.screen._callbacks

    def sees(self) -> str:
        """Everything on the screen, line by line."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips)

    async def waits_for(self, text: str | Callable[[str], bool]) -> str:
        """Wait until a text is on the screen, wrapped or not; return what is seen then."""
        found = text if callable(text) else lambda seen: text in seen or text in flat(seen)
        with anyio.move_on_after(PATIENCE_S):
            while not found(seen := self.sees()):
                await self.pilot.pause(0.01)
            return seen
        raise AssertionError(f"{text!r} never came:\n{self.sees()}")

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until something holds."""
        with anyio.move_on_after(PATIENCE_S):
            while not holds():
                await self.pilot.pause(0.01)
            return
        raise AssertionError(f"never: {what}\n{self.sees()}")


def unsent(drafts: DraftStore, which: str) -> str:
    """Read what was kept of answers that can't be sent any more."""
    return drafts.unsent_path_of(which).read_text(encoding="utf-8")


Sitting = Callable[..., AbstractAsyncContextManager[Person]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def queue() -> FakeQueue:
    return FakeQueue()


@pytest.fixture
def drafts(tmp_path: Path) -> DraftStore:
    return DraftStore(tmp_path / "drafts")


@pytest.fixture
def sitting(queue: FakeQueue, drafts: DraftStore, monkeypatch: pytest.MonkeyPatch) -> Sitting:
    """Sit down at a terminal, after questions were asked: `async with sitting(…) as person`."""
    for name in ("NO_COLOR", "TEXTUAL_DRIVER"):
        monkeypatch.delenv(name, raising=False)

    @asynccontextmanager
    async def sit(
        *questions: Question,
        size: tuple[int, int] = (80, 24),
        first: str | None = None,
        patience_s: float = PATIENCE_S,
        theme: ThemeName = ThemeName.DARK,
        **asking: Any,
    ) -> AsyncIterator[Person]:
        which = queue.ask(*questions, **asking) if questions else ""
        app = QuestionsApp(
            queue, drafts, clock=queue.clock, first=first, patience_s=patience_s, theme=theme
        )
        async with app.run_test(size=size) as pilot:
            person = Person(app, pilot, queue, drafts, which)
            await person.waits_for(lambda seen: "waiting" in seen and "Loading" not in seen)
            asked = () if first else queue.listing().waiting
            if asked:
                await person.waits_for(asked[0].session_id[:8])
            yield person
        app.drafts.save_all()

    return sit
