"""Dialogs above a screen: text input, confirmation, messages and the list of keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static, TextArea

from .host import KeyLine, MessageLines

_Result = TypeVar("_Result")


class _Dialog(ModalScreen[_Result]):
    """A window with a title, a text and further widgets; subclasses define its result."""

    def __init__(self, title: str, text: str, *answering: Widget) -> None:
        """Set up a window with a title and a text, and the widgets `answering` below."""
        super().__init__()
        self._parts = (Static(Content(text)), *answering)
        self._heading = title

    def compose(self) -> ComposeResult:
        """Yield the window."""
        with Vertical() as box:
            box.border_title = Content(self._heading)
            yield from self._parts
        yield MessageLines()
        yield KeyLine()

    def action_close(self) -> None:
        """Close the window without a result."""
        self.dismiss(None)


class TextDialog(_Dialog[str]):
    """Asks for a text that may be empty; the result is None if it was cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "accept", "OK", priority=True),
        Binding("ctrl+j,shift+enter,alt+enter", "new_line", "New line", key_display="ctrl+j"),
        Binding("escape", "close", "Cancel"),
    ]

    def __init__(
        self, title: str, explanation: str, *, text: str = "", typed: Callable[[str], None]
    ) -> None:
        """Set up the window.

        Args:
            title: The window's title.
            explanation: What happens with the text.
            text: The initial text.
            typed: Receives the text at each change, so that it is not lost with the window.
        """
        self._text = TextArea(text, tab_behavior="focus", soft_wrap=True)
        super().__init__(title, explanation, self._text)
        self._typed = typed

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Pass the changed text on."""
        self._typed(event.text_area.text)

    def action_new_line(self) -> None:
        """Insert a line break."""
        self._text.insert("\n")

    def action_accept(self) -> None:
        """Close the window with the text as its result."""
        self.dismiss(self._text.text)


class YesDialog(_Dialog[bool]):
    """Asks a yes-or-no question."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No", key_display="n"),
    ]

    def action_answer(self, yes: bool) -> None:
        """Close the window with the answer as its result."""
        self.dismiss(yes)


class MessageDialog(_Dialog[None]):
    """Shows a message that must not be missed, with a longer text that can be scrolled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close"),  # never a key that someone may be typing
        Binding("up", "scroll(-1)", "Up", show=False),
        Binding("down", "scroll(1)", "Down", show=False),
        Binding("pageup", "scroll(-10)", "Page up", show=False),
        Binding("pagedown", "scroll(10)", "Page down", show=False),
    ]

    def __init__(self, title: str, message: str, text: str = "") -> None:
        """Set up a message, with the unformatted `text` below it."""
        longer = (VerticalScroll(Static(Content(text)), can_focus=False),) if text else ()
        super().__init__(title, message, *longer)

    def action_scroll(self, lines: int) -> None:
        """Scroll the text."""
        for view in self.query(VerticalScroll):
            view.scroll_relative(y=lines, animate=False, immediate=True)


KEYS: Final = Path(__file__).with_name("keys.txt").read_text("utf-8")


class KeysDialog(MessageDialog):
    """Shows all keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,question_mark", "close", show=False),
    ]

    def __init__(self) -> None:
        super().__init__("Keys", "Everything works without a mouse.", KEYS)
