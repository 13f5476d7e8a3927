"""The options of a question, and the text that may be given instead of them."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
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
    """Draw a box: round where one is chosen, square where several may be."""
    if multi_select:
        return "[x]" if picked else "[ ]"
    return "(•)" if picked else "( )"


def _hanging(first: str, content: Content, width: int) -> Content:
    """Wrap a text behind `first`, its further lines indented as far."""
    indent = " " * len(first)
    lines = content.wrap(max(width - len(first), _NARROWEST))
    return Content("\n").join(
        Content(first if index == 0 else indent) + line for index, line in enumerate(lines)
    )


def option_row(
    question: Question, index: int, reply: Reply, *, cursor: bool, width: int
) -> Content:
    """Write an option as it is shown: cursor, box, number, label, recommendation, description.

    What is chosen and what is recommended is said by signs and words, never by colour alone.
    """
    option = question.options[index]
    picked = index in reply.picked and reply.ask is None
    mark = mark_of(multi_select=question.multi_select, picked=picked)
    number = f"{index + 1}" if index < _NUMBERED else " "
    first = f"{CURSOR if cursor else ' '} {mark} {number} "
    label = one_line(option.label)
    text = Content(without_mark(label)).stylize("bold" if picked else "")
    if is_recommended(label):
        text = text + Content(f"  {RECOMMENDED}")
    row = _hanging(first, text, width)
    if option.description and (description := harmless(option.description).strip()):
        below = Content(description).stylize("italic")
        row = Content("\n").join([row, _hanging(" " * len(first), below, width)])
    return row


def other_row(question: Question, reply: Reply, *, cursor: bool, width: int) -> Content:
    """Write the row of the free text."""
    picked = reply.has_text and reply.ask is None
    mark = mark_of(multi_select=question.multi_select, picked=picked)
    first = f"{CURSOR if cursor else ' '} {mark} o "
    text = OTHER
    if reply.text.strip() and not picked:
        text = f"{OTHER} (kept below, not part of your answer)"
    return _hanging(first, Content(text), width)


class Choices(OptionList):
    """The options of one question; the last row is the free text."""

    DEFAULT_CSS = """
    Choices {
        height: auto;
        max-height: 1fr;
        border: none;
        padding: 0;
        background: transparent;
        scrollbar-size-vertical: 1;
        &:focus { border: none; background-tint: transparent; }
        & > .option-list--option { padding: 0 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pick", "Choose"),
        Binding("enter", "pick_and_go_on", "Next"),
        Binding("o", "other", "Other"),
        Binding("pageup", "prompt(-1)", "Prompt up", show=False),
        Binding("pagedown", "prompt(1)", "Prompt down", show=False),
        Binding("j", "cursor_down", "Down", show=False),
        Binding("k", "cursor_up", "Up", show=False),
        *[
            Binding(str(number), f"number({number})", str(number), show=False)
            for number in range(1, _NUMBERED + 1)
        ],
    ]

    class Picked(Message):
        """An option was chosen, or its choice taken back.

        Attributes:
            index: The option.
            keep: Whether a choice that is made already stays.
            go_on: Whether the next question is wanted.
        """

        def __init__(self, index: int, *, keep: bool, go_on: bool) -> None:
            super().__init__()
            self.index = index
            self.keep = keep
            self.go_on = go_on

    class OtherWanted(Message):
        """The free text is to be written."""

    class GoOn(Message):
        """The next question is wanted."""

    class PromptScrolled(Message):
        """The prompt is to be scrolled.

        Attributes:
            pages: By how many pages.
        """

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

    def __init__(self, question: Question, reply: Reply, **kwargs: Any) -> None:
        """Show a question's options.

        Args:
            question: The question.
            reply: What was chosen and typed so far.
            kwargs: As of any widget.
        """
        self._question = question
        self._reply = reply
        count = len(question.options) + 1
        super().__init__(*[Row(Content(" ")) for _ in range(count)], markup=False, **kwargs)

    def on_mount(self) -> None:
        """Begin at what was chosen, else at what is recommended."""
        labels = [option.label for option in self._question.options]
        if self._reply.picked:
            start = self._reply.picked[0]
        elif self._reply.has_text:
            start = len(labels)
        else:
            start = first_recommended(labels)
        self.highlighted = start

    @property
    def other_index(self) -> int:
        """The row of the free text."""
        return len(self._question.options)

    def show(self, reply: Reply) -> None:
        """Show what was chosen and typed."""
        self._reply = reply
        self._write_rows()

    def on_resize(self, _: events.Resize) -> None:
        """Wrap the rows anew."""
        self._write_rows()

    def watch_highlighted(self, highlighted: int | None) -> None:
        """Move the mark at the cursor with it."""
        self._write_rows()
        super().watch_highlighted(highlighted)

    def _write_rows(self) -> None:
        width = self.scrollable_content_region.width - 2
        if width <= 0:
            return
        for index in range(self.other_index):
            row = option_row(
                self._question, index, self._reply, cursor=index == self.highlighted, width=width
            )
            self.replace_option_prompt_at_index(index, row)
        cursor = self.highlighted == self.other_index
        row = other_row(self._question, self._reply, cursor=cursor, width=width)
        self.replace_option_prompt_at_index(self.other_index, row)

    # --------------------------------------------------------------------------------- the keys

    def action_pick(self) -> None:
        """Choose what is at the cursor, or take its choice back."""
        if self.highlighted is not None:
            self._pick(self.highlighted, keep=False, go_on=False)

    def action_pick_and_go_on(self) -> None:
        """Go on to the next question; where one is chosen, choose what is at the cursor first."""
        if self.highlighted is None:
            return
        if self._question.multi_select and self.highlighted != self.other_index:
            self.post_message(self.GoOn())
        else:
            self._pick(self.highlighted, keep=True, go_on=True)

    def action_number(self, number: int) -> None:
        """Choose an option by its number."""
        if number <= self.other_index:
            self.highlighted = number - 1
            self._pick(number - 1, keep=False, go_on=False)

    def action_other(self) -> None:
        """Write a free text."""
        self.highlighted = self.other_index
        self.post_message(self.OtherWanted())

    def action_prompt(self, pages: int) -> None:
        """Scroll the prompt."""
        self.post_message(self.PromptScrolled(pages))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Choose what was clicked."""
        event.stop()
        self._pick(event.option_index, keep=False, go_on=False)

    def _pick(self, index: int, *, keep: bool, go_on: bool) -> None:
        if index == self.other_index:
            self.post_message(self.OtherWanted())
        else:
            self.post_message(self.Picked(index, keep=keep, go_on=go_on))


class OtherText(TextArea):
    """The free text of a question."""

    DEFAULT_CSS = """
    OtherText {
        height: 5;
        margin: 0 1;
        border: round $quiet;
        &:focus { border: round $primary; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "To the options"),
        Binding("tab", "go_on", "Continue", priority=True),
        Binding("shift+tab", "leave", "To the options", show=False, priority=True),
    ]

    class Left(Message):
        """The options are wanted again.

        Attributes:
            go_on: Whether the next question is wanted instead.
        """

        def __init__(self, *, go_on: bool) -> None:
            super().__init__()
            self.go_on = go_on

    def __init__(self, text: str, **kwargs: Any) -> None:
        """Show a text.

        Args:
            text: What was typed so far.
            kwargs: As of any widget.
        """
        super().__init__(text, tab_behavior="focus", soft_wrap=True, **kwargs)
        self.border_title = Content("Other: your own words")

    def action_leave(self) -> None:
        """Go back to the options."""
        self.post_message(self.Left(go_on=False))

    def action_go_on(self) -> None:
        """Go on to the next question."""
        self.post_message(self.Left(go_on=True))


def note_of(question: Question, reply: Reply) -> str:
    """Return one line: what can be done with a question, and what was done."""
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
