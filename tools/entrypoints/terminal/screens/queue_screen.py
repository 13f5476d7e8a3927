"""The first screen: the waiting sessions."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from ....base.errors import counted
from ..drafts.session_text import asked_text
from ..key_line import KeyLine
from ..messages import MessageLines
from ..question_queue import QueueListing
from ..text import one_line
from .host import Host
from .queue_view import QueueView, heading_text

_NOTHING = "No questions are waiting. New ones appear here as soon as they are asked."


class QueueScreen(Screen[None]):
    """The waiting sessions."""

    DEFAULT_CSS = """
    QueueScreen {
        #nothing { height: 1fr; padding: 1 1; }
        QueueView { margin: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "reject", "Reject"),
        Binding("q,ctrl+c", "app.quit", "Leave", key_display="q"),
    ]

    def __init__(self, host: Host, *, where: str) -> None:
        """Set up the screen of an empty queue of the sessions in `where`."""
        super().__init__()
        self._host = host
        self._where = where
        self._listing: QueueListing | None = None

    def compose(self) -> ComposeResult:
        """Yield the list and the lines around it."""
        yield Static(id="head")
        yield Static(id="columns")
        yield QueueView(clock=self._host.clock)
        yield Static(Content("Loading …"), id="nothing")
        yield Static(id="note")
        yield MessageLines()
        yield KeyLine()

    def on_mount(self) -> None:
        """Show an empty list and follow its cursor."""
        self.watch(self.view, "cursor", self._write_note, init=False)
        self._write()

    @property
    def view(self) -> QueueView:
        """The list."""
        return self.query_one(QueueView)

    def show(self, listing: QueueListing, drafts: set[str]) -> None:
        """Show a listing of the queue, and which sessions have drafts."""
        self._listing = listing
        self.view.show(listing.waiting, drafts)
        self._write()

    def on_resize(self) -> None:
        """Fit the lines to the new size."""
        self._write()

    def _write(self) -> None:
        listing = self._listing or QueueListing()
        waiting = bool(listing.waiting)
        for selector in ("#columns", "QueueView"):
            self.query_one(selector).display = waiting
        nothing = self.query_one("#nothing", Static)
        nothing.display = not waiting
        if self._listing is not None:
            nothing.update(Content(_NOTHING))
        if waiting and self.focused is not self.view:
            self.view.focus()
        head = f"Questions · {len(listing.waiting):,} waiting · {one_line(self._where)}"
        self.query_one("#head", Static).update(Content(head))
        columns = heading_text(max(self.size.width - 2, 1), limited=self.view.limited)
        self.query_one("#columns", Static).update(Content(columns))
        self._write_note()

    def _write_note(self) -> None:
        """Show the number of unreadable sessions, and the asker of the session at the cursor."""
        listing = self._listing or QueueListing()
        parts = []
        if listing.unreadable:
            count = counted(len(listing.unreadable), "session")
            parts.append(f"! {count} can't be read; `agentforge history` says why.")
        if (one := self.view.selected) is not None:
            asked = asked_text(one, self.size.width - 3)
            parts.append(asked[:1].upper() + asked[1:])
        self.query_one("#note", Static).update(Content("  ".join(parts)))

    def action_open(self) -> None:
        """Answer the session at the cursor."""
        if (one := self.view.selected) is not None:
            self._host.open_session(one.session_id)

    def action_reject(self) -> None:
        """Reject the session at the cursor."""
        if (one := self.view.selected) is not None:
            self._host.ask_to_reject(one, typed=lambda _: None)
