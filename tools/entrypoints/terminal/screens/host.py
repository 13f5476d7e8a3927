"""What all screens share: their port to the application, the line of keys, the messages.

Textual's own footer has a widget for each key and rebuilds all of them whenever the focus moves,
which took most of the time of a key press; here one widget draws one line. Messages have lines of
their own above it, so that they cover nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from textual.app import App
from textual.binding import Binding
from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen
from textual.style import Style
from textual.widgets import Static

from ....questions import UserAnswer
from ..drafts.draft import Draft
from ..question_queue import WaitingSession

if TYPE_CHECKING:
    from .answer_screen import AnswerScreen


class Host(Protocol):
    """The application, as its screens see it."""

    def clock(self) -> datetime:
        """Return the current time, timezone-aware."""

    def others_waiting(self, session_id: str) -> int:
        """Return the number of other sessions that wait."""

    def say(self, message: str) -> None:
        """Show a message for some seconds."""

    def keep(self, draft: Draft) -> None:
        """Store a draft, on disk within a second."""

    def open_session(self, session_id: str) -> None:
        """Show a session's questions."""

    def step_session(self, answering: AnswerScreen, by: int) -> None:
        """Show the session `by` places after this one in the queue, which wraps around."""

    def review(self, answering: AnswerScreen) -> None:
        """Show all answers for a review before they are sent."""

    def send(self, answering: AnswerScreen, answers: Sequence[UserAnswer]) -> None:
        """Send the answers of a session."""

    def ask_to_reject(self, waiting: WaitingSession, *, typed: Callable[[str], None]) -> None:
        """Ask for a reason and reject a session; `typed` receives the reason at each change."""

    def leave_session(self, answering: AnswerScreen) -> None:
        """Go back to the queue."""


class KeyLine(Static, can_focus=False):
    """The currently active keys that are meant to be shown; a click presses a key."""

    ALLOW_SELECT = False

    def on_mount(self) -> None:
        """Follow the keys of the screen and of its focused widget."""
        self.auto_links = False  # keys are clickable but must not look like links
        self.screen.bindings_updated_signal.subscribe(self, self._follow)

    def _follow(self, screen: Screen[object]) -> None:
        if not screen.app.app_focus:
            return  # no widget has the focus while the terminal is in the background
        by_action: dict[str, Binding] = {}
        for one in screen.active_bindings.values():
            if one.binding.show:
                by_action.setdefault(one.binding.action, one.binding)
        keys = Content("").join(map(self._key, by_action.values()))
        if keys != self.content:
            self.update(keys, layout=False)

    def _key(self, one: Binding) -> Content:
        shown = Content.styled(self.app.get_key_display(one), "bold $footer-key-foreground")
        presses = Style.from_meta({"@click": f"app.simulate_key({one.key!r})"})
        return Content.assemble(shown, f" {one.description} ").stylize(presses)


_SAY_S: Final = 6.0
MOST: Final = 3
"""Maximum number of messages shown at once; a new one replaces the oldest."""


class Messages(App[Any]):
    """An application that shows messages for a while, on any open screen."""

    messages: reactive[tuple[tuple[int, str], ...]] = reactive(())
    _shown: int = 0

    def say(self, message: str) -> None:
        """Show a message for some seconds; repeating a shown message restarts its time."""
        self._shown += 1
        entry = (self._shown, message)
        kept = [one for one in self.messages if one[1] != message]
        self.messages = (*kept, entry)[-MOST:]

        def remove() -> None:
            self.messages = tuple(one for one in self.messages if one != entry)

        self.set_timer(_SAY_S, remove)


class MessageLines(Static):
    """The messages' lines; takes no space while there are none."""

    def on_mount(self) -> None:
        """Follow the application's messages."""
        self.watch(self.app, "messages", self._show)

    def _show(self, messages: tuple[tuple[int, str], ...]) -> None:
        self.update(Content("\n".join(text for _, text in messages)))
        self.display = bool(messages)
