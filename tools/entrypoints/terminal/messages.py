"""Temporary messages in lines of their own above the keys, so that they cover nothing."""

from __future__ import annotations

from typing import Any, Final

from textual.app import App
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

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

    DEFAULT_CSS = """
    MessageLines {
        height: auto;
        max-height: 6;
        padding: 0 1;
        color: $message-foreground;
        background: $message-background;
        display: none;
    }
    """

    def on_mount(self) -> None:
        """Follow the application's messages."""
        self.watch(self.app, "messages", self._show)

    def _show(self, messages: tuple[tuple[int, str], ...]) -> None:
        self.update(Content("\n".join(text for _, text in messages)))
        self.display = bool(messages)
