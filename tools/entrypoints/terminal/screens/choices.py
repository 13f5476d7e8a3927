"""The options of a question, and the free text for other answers."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, TextArea
from textual.widgets.option_list import Option as Row

from ....questions import Question
from ..drafts.draft import ASKS, Reply, first_recommended, is_recommended, without_mark
from ..text import CURSOR, harmless, one_line

_NARROWEST: Final = 20
_NUMBERED: Final = 9
OTHER: Final = "Other: an answer in your own words"
RECOMMENDED: Final = "★ recommended"


def mark_of(*, multi_select: bool, picked: bool) -> str:
    """Return an option's box: round for a single choice, square for a multiple choice."""
    if multi_select:
        return "[x]" if picked else "[ ]"
    return "(•)" if picked else "( )"


def _hanging(first: str, content: Content, width: int) -> Content:
    """Wrap a text after `first`, with a hanging indent of the same width."""
    indent = " " * len(first)
    lines = content.wrap(max(width - len(first), _NARROWEST))
    return Content("\n").join(
        Content(first if index == 0 else indent) + line for index, line in enumerate(lines)
    )


def choice_row(
    question: Question, index: int, reply: Reply, *, cursor: bool, width: int
) -> Content:
    """Return a row: cursor, box, key, label, recommendation, description.

    The row after the last option is the free text's. Signs and words show what is chosen and what
    is recommended, never colour alone.
    """
    if is_other := index == len(question.options):
        picked, key = reply.has_text and reply.ask is None, "o"
    else:
        picked = index in reply.picked and reply.ask is None
        key = f"{index + 1}" if index < _NUMBERED else " "
    mark = mark_of(multi_select=question.multi_select, picked=picked)
    first = f"{CURSOR if cursor else ' '} {mark} {key} "
    if is_other:
        unsent = reply.text.strip() and not picked
        note = " (kept below, not part of your answer)" if unsent else ""
        return _hanging(first, Content(f"{OTHER}{note}"), width)
    option = question.options[index]
    label = one_line(option.label)
    text = Content(without_mark(label)).stylize("bold" if picked else "")
    if is_recommended(label):
        text = text + Content(f"  {RECOMMENDED}")
    row = _hanging(first, text, width)
    if option.description and (description := harmless(option.description).strip()):
        below = Content(description).stylize("italic")
        row = Content("\n").join([row, _hanging(" " * len(first), below, width)])
    return row


class Choices(OptionList):
    """The options of one question; the last row is the free text. The screen handles the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "screen.pick", "Choose"),
        Binding("enter", "screen.pick_and_go_on", "Next"),
        Binding("o", "screen.other", "Other"),
        Binding("pageup", "screen.scroll_prompt(-1)", "Prompt up", show=False),
        Binding("pagedown", "screen.scroll_prompt(1)", "Prompt down", show=False),
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
        *[
            Binding(str(number), f"screen.number({number})", str(number), show=False)
            for number in range(1, _NUMBERED + 1)
        ],
    ]

    def __init__(self, question: Question, reply: Reply) -> None:
        """Set up the rows of a question's options and its reply."""
        self._question = question
        self._reply = reply
        count = len(question.options) + 1
        super().__init__(*[Row(Content(" ")) for _ in range(count)], markup=False)

    def on_mount(self) -> None:
        """Put the cursor on the first chosen row, else on the first recommended option."""
        if self._reply.picked:
            self.highlighted = self._reply.picked[0]
        elif self._reply.has_text:
            self.highlighted = self.other_index
        else:
            self.highlighted = first_recommended([one.label for one in self._question.options])

    @property
    def other_index(self) -> int:
        """The index of the free text's row."""
        return len(self._question.options)

    def show(self, reply: Reply) -> None:
        """Show another reply."""
        self._reply = reply
        self._write_rows()

    def on_resize(self, _: events.Resize) -> None:
        """Wrap the rows to the new width."""
        self._write_rows()

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Move the cursor's mark."""
        self._write_rows()
        super().watch_highlighted(highlighted)

    def _write_rows(self) -> None:
        width = self.scrollable_content_region.width - 2
        if width <= 0:
            return
        for index in range(self.option_count):
            cursor = index == self.highlighted
            row = choice_row(self._question, index, self._reply, cursor=cursor, width=width)
            self.replace_option_prompt_at_index(index, row)


class OtherText(TextArea):
    """The free text of a question."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.leave_text", "To the options"),
        Binding("tab", "screen.continue_from_text", "Continue", priority=True),
        Binding("shift+tab", "screen.leave_text", "To the options", show=False, priority=True),
    ]

    def __init__(self, text: str) -> None:
        """Set up the field with the text typed so far."""
        super().__init__(text, tab_behavior="focus", soft_wrap=True)
        self.border_title = Content("Other: your own words")


def note_of(question: Question, reply: Reply) -> str:
    """Return one line on how to answer a question, and on its current reply."""
    if reply.ask is not None:
        wish = ASKS[reply.ask].removeprefix("asks ")
        return f"Instead of an answer you ask {wish}. Choosing an option takes that back."
    if question.multi_select:
        count = len(reply.picked) + reply.has_text
        how = "preselected as recommended" if reply.preselected else "chosen"
        chosen = f" {count} {how}." if count else ""
        return f"Choose any number with Space. Enter continues.{chosen}"
    if reply.preselected:
        return "The recommended option is preselected. Enter takes the option at the cursor."
    return "Choose one. Enter chooses and continues."
