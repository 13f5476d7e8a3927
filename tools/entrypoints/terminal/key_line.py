"""The line at the foot of a screen: which keys do what.

Textual's own footer is a widget for each key, all of them made anew whenever the focus moves; that
took most of the time of a key press. This is one widget, drawn as one line.
"""

from __future__ import annotations

from textual.binding import Binding
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widgets import Static


class KeyLine(Static, can_focus=False):
    """The keys that act now, as far as they are to be shown; the mouse can press them, too."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        text-wrap: nowrap;
        color: $footer-description-foreground;
        background: $footer-background;
    }
    """

    def on_mount(self) -> None:
        """Follow the keys of the screen and of what has the focus in it."""
        self.auto_links = False  # a key is no link, and has the colours of keys
        self.screen.bindings_updated_signal.subscribe(self, self._follow)

    def _follow(self, screen: Screen[object]) -> None:
        if not screen.app.app_focus:
            return  # nothing has the focus while the terminal is in the background
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
