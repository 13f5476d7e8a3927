"""The line of keys at the bottom of a screen.

Textual's own footer has a widget for each key and rebuilds all of them whenever the focus moves,
which took most of the time of a key press. This is a single widget, drawn as one line.
"""

from __future__ import annotations

from textual.binding import Binding
from textual.content import Content
from textual.screen import Screen
from textual.style import Style
from textual.widgets import Static


class KeyLine(Static, can_focus=False):
    """The currently active keys that are meant to be shown; a click presses a key."""

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
