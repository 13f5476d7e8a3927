"""The first screen: the waiting sessions.

Only visible lines are drawn, however many sessions wait.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Final

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from ....base.clock import Clock
from ....base.errors import counted
from ..drafts.session_text import asked_text
from ..question_queue import QueueListing, WaitingSession
from ..text import CURSOR, SHORT_ID, one_line, running, since
from .host import Host, KeyLine, MessageLines

_AGE_WIDTH: Final = 7
_COUNT_WIDTH: Final = 12
_NOTE_WIDTH: Final = 8
_LEFT_WIDTH: Final = 9
_TICK_S: Final = 1.0
_SLOW_TICK_S: Final = 30.0


def cursor_after(before: Sequence[str], cursor: int, after: Sequence[str]) -> int:
    """Return the cursor's index after a change of the list: it stays on its session.

    If that session ended, the cursor moves to the next one that still waits, else to the last.

    Args:
        before: The ids before the change.
        cursor: The cursor's index before.
        after: The ids after the change.
    """
    places = {session_id: index for index, session_id in enumerate(after)}
    for session_id in before[cursor:]:
        if session_id in places:
            return places[session_id]
    return max(0, len(after) - 1) if before else 0


def row_text(
    waiting: WaitingSession,
    *,
    width: int,
    now: datetime,
    draft: bool,
    at_cursor: bool,
    limited: bool = False,
) -> str:
    """Return a session's line, exactly `width` cells wide.

    The columns: cursor mark, short id, time waited, time left (with `limited` only), number of
    questions, "draft" if there is one, titles.
    """
    ends_at = waiting.ends_at
    left = running((ends_at - now).total_seconds()) if ends_at is not None else ""
    age = since((now - waiting.created_at).total_seconds())
    count = counted(len(waiting.titles), "question")
    start = "  ".join(
        [
            f"{CURSOR if at_cursor else ' '} {waiting.session_id[:SHORT_ID]}",
            age.rjust(_AGE_WIDTH),
            *([left.rjust(_LEFT_WIDTH)] if limited else []),
            count.ljust(_COUNT_WIDTH),
            ("draft" if draft else "").ljust(_NOTE_WIDTH - 2),
        ]
    )
    titles = ", ".join(one_line(title, 60) or "(no title)" for title in waiting.titles)
    text = f"{start}{titles}"
    if cell_len(text) > width:
        return set_cell_size(text, max(width - 1, 0)) + "…"
    return set_cell_size(text, width)


def heading_text(width: int, *, limited: bool = False) -> str:
    """Return the line of column headings, exactly `width` cells wide."""
    parts = [
        "  id      ",
        "waiting".rjust(_AGE_WIDTH),
        *(["time left".rjust(_LEFT_WIDTH)] if limited else []),
        "questions".ljust(_COUNT_WIDTH),
        " " * (_NOTE_WIDTH - 2),
    ]
    return set_cell_size("  ".join(parts) + "titles", width)


class QueueView(ScrollView, can_focus=True):
    """The list of waiting sessions, in the order given to `show`."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"queue--row", "queue--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("home", "edge(-1)", "First", show=False),
        Binding("end", "edge(1)", "Last", show=False),
        Binding("enter,space", "screen.open", "Answer", key_display="enter"),
    ]

    cursor: reactive[int] = reactive(0, repaint=False)

    def __init__(self, *, clock: Clock) -> None:
        """Set up an empty list."""
        super().__init__()
        self._clock = clock
        self._rows: tuple[WaitingSession, ...] = ()
        self._drafts: frozenset[str] = frozenset()
        self._drawn_at: datetime | None = None

    @property
    def limited(self) -> bool:
        """Whether any of the sessions has a time limit."""
        return any(one.ends_at is not None for one in self._rows)

    def on_mount(self) -> None:
        """Start updating the times waited and the times left."""
        self.set_interval(_TICK_S, self._tick)

    def _tick(self) -> None:
        now = self._clock()
        slow = timedelta(seconds=_SLOW_TICK_S)
        if self.limited or self._drawn_at is None or abs(now - self._drawn_at) >= slow:
            self._drawn_at = now
            self.refresh()

    def show(self, rows: Sequence[WaitingSession], drafts: Collection[str]) -> None:
        """Show these sessions; the cursor stays on its session."""
        before = [one.session_id for one in self._rows]
        after = [one.session_id for one in rows]
        self._rows = tuple(rows)
        self._drafts = frozenset(drafts)
        self.on_resize()
        self.cursor = cursor_after(before, self.cursor, after)
        self.refresh()

    @property
    def selected(self) -> WaitingSession | None:
        """The session at the cursor."""
        return self._rows[self.cursor] if self._rows else None

    def select(self, session_id: str) -> None:
        """Put the cursor on a session, if it is in the list."""
        for index, one in enumerate(self._rows):
            if one.session_id == session_id:
                self.cursor = index

    def on_resize(self) -> None:
        """Fit the list to the new size and keep the cursor visible."""
        self.virtual_size = Size(self.scrollable_content_region.width, len(self._rows))
        self._keep_in_sight()

    def render_line(self, y: int) -> Strip:
        """Return one visible line."""
        width = self.size.width
        index = y + round(self.scroll_offset.y)
        if index >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        one = self._rows[index]
        at_cursor = index == self.cursor
        text = row_text(
            one,
            width=width,
            now=self._clock(),
            draft=one.session_id in self._drafts,
            at_cursor=at_cursor,
            limited=self.limited,
        )
        style = self.get_component_rich_style("queue--cursor" if at_cursor else "queue--row")
        return Strip([Segment(text, style + Style(meta={"row": index}))], width)

    async def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked session; open it if the cursor is already there."""
        row = event.style.meta.get("row")
        if row == self.cursor:
            await self.run_action("screen.open")
        elif row is not None:
            self.cursor = row

    def action_move(self, by: int) -> None:
        """Move the cursor."""
        self.cursor += by

    def action_page(self, by: int) -> None:
        """Move the cursor by pages."""
        self.cursor += by * max(1, self.size.height - 1)

    def action_edge(self, to: int) -> None:
        """Move the cursor to the first or the last session."""
        self.cursor = 0 if to < 0 else len(self._rows)

    def validate_cursor(self, cursor: int) -> int:
        """Clamp the cursor to the list."""
        return min(max(cursor, 0), max(0, len(self._rows) - 1))

    def watch_cursor(self, before: int, after: int) -> None:
        """Redraw the cursor at its new position and scroll it into view."""
        self.refresh_line(before)
        self.refresh_line(after)
        self._keep_in_sight()

    def _keep_in_sight(self) -> None:
        if self._rows:
            region = Region(0, self.cursor, self.size.width, 1)
            self.scroll_to_region(region, animate=False, force=True, immediate=True)


_NOTHING = "No questions are waiting. New ones appear here as soon as they are asked."


class QueueScreen(Screen[None]):
    """The waiting sessions."""

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
            parts.append(f"! {count} can't be read; `agentforge questions history` says why.")
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
