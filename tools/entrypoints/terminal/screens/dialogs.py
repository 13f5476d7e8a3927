"""Dialogs above a screen: text input, confirmation, messages and the list of keys."""

from __future__ import annotations

from collections.abc import Callable
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


KEYS: Final = """\
The queue
  up, down, PgUp, PgDn, Home, End   move
  Enter        answer the session at the cursor
  x            reject it, with a reason if you like
  q            leave; what you typed is kept

A question
  up, down     move
  Space, 1-9   choose, or take the choice back
  Enter        choose and continue (where several may
               be chosen: continue)
  o            answer in your own words; there Tab
               continues and Esc returns
  left, right  the question before, the one after
  PgUp, PgDn   scroll the prompt
  e            ask for more detail instead
  d            ask to rephrase the question
  r            take what is recommended here
  a            take what is recommended where you
               chose nothing, then review
  v            review all answers
  ], [          the next session in the queue, the one
               before
  x            reject the whole session
  Esc          back to the queue; what you chose and
               typed is kept

The review
  s            send the answers
  Enter        change the answer at the cursor
  Esc          back to the questions

Everywhere
  t            other colours: dark, light, high contrast
  ?            these keys
  Ctrl+Q       leave
"""


class KeysDialog(MessageDialog):
    """Shows all keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,question_mark", "close", show=False),
    ]

    def __init__(self) -> None:
        super().__init__("Keys", "Everything works without a mouse.", KEYS)
