"""The line at the foot of a screen: which keys do what.

Textual's own footer is a widget for each key, all of them made anew whenever the focus moves; that
took most of the time of a key press. This is one widget, drawn as one line.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget


@frozen
class _Key:
    name: str
    """As a key press has it."""
    shown: str
    meaning: str


class KeyLine(Widget, can_focus=False):
    """The keys that act now, as far as they are to be shown; the mouse can press them, too."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys--key", "keys--meaning", "keys--pointed"}
    DEFAULT_CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        color: $footer-foreground;
        background: $footer-background;
        & > .keys--key {
            color: $footer-key-foreground;
            background: $footer-key-background;
            text-style: bold;
        }
        & > .keys--meaning {
            color: $footer-description-foreground;
            background: $footer-description-background;
        }
        & > .keys--pointed {
            color: $footer-key-foreground;
            background: $block-hover-background;
        }
    }
    """

    def __init__(self) -> None:
        """Show nothing yet."""
        super().__init__()
        self._keys: tuple[_Key, ...] = ()
        self._pointed: str | None = None

    def on_mount(self) -> None:
        """Follow the keys of the screen and of what has the focus in it."""
        self.screen.bindings_updated_signal.subscribe(self, self._follow)

    def _follow(self, screen: Screen[object]) -> None:
        if not screen.app.app_focus:
            return  # nothing has the focus while the terminal is in the background
        by_action: dict[str, Binding] = {}
        for one in screen.active_bindings.values():
            if one.binding.show:
                by_action.setdefault(one.binding.action, one.binding)
        keys = tuple(
            _Key(one.key, self.app.get_key_display(one), one.description)
            for one in by_action.values()
        )
        if keys != self._keys:
            self._keys = keys
            self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 (it has one line)
        """Draw the line; what does not fit is cut off."""
        key = self.get_component_rich_style("keys--key")
        meaning = self.get_component_rich_style("keys--meaning")
        pointed = self.get_component_rich_style("keys--pointed")
        parts = []
        for one in self._keys:
            over = pointed if one.name == self._pointed else Style.null()
            mark = over + Style(meta={"key": one.name})
            parts += [
                Segment(one.shown, key + mark),
                Segment(f" {one.meaning}", meaning + mark),
                Segment(" ", self.rich_style),
            ]
        return Strip(parts).adjust_cell_length(self.size.width, self.rich_style)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Press the key that the mouse points at."""
        if (name := event.style.meta.get("key")) is not None:
            self.app.simulate_key(name)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Mark the key that the mouse points at."""
        self._point_at(event.style.meta.get("key"))

    def on_leave(self) -> None:
        """Mark none."""
        self._point_at(None)

    def _point_at(self, name: str | None) -> None:
        if name != self._pointed:
            self._pointed = name
            self.refresh()
