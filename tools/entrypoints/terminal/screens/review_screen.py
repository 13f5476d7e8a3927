"""All answers on one screen, before they are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option as Row

from ....base.errors import counted
from ..drafts.draft import Draft, answers_of
from ..drafts.session_text import reply_lines
from ..text import CURSOR, SHORT_ID, one_line
from .dialogs import YesDialog
from .host import Host, KeyLine, MessageLines

if TYPE_CHECKING:
    from .answer_screen import AnswerScreen


class ReviewScreen(Screen[int | None]):
    """Shows all answers; the result is the index of the question to change, or None to go back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "send", "Send"),
        Binding("e", "edit", "Change", key_display="enter"),
        Binding("x", "reject", "Reject"),
        Binding("escape,b,left", "back", "Back", key_display="esc"),
    ]

    def __init__(self, host: Host, answering: AnswerScreen) -> None:
        """Set up the review of the draft on `answering`."""
        super().__init__()
        self._host = host
        self._answering = answering

    @property
    def _draft(self) -> Draft:
        return self._answering.draft

    def compose(self) -> ComposeResult:
        """Yield the list of answers and the verdict on them."""
        questions = self._answering.questions
        count = counted(len(questions), "answer")
        short = self._answering.waiting.session_id[:SHORT_ID]
        head = f"Review of {count} · session {short} · nothing is sent yet"
        yield Static(Content(head), id="head")
        yield OptionList(*[Row(self._row(index)) for index in range(len(questions))], markup=False)
        yield Static(Content(self._verdict()), id="verdict")
        yield MessageLines()
        yield KeyLine()

    def on_mount(self) -> None:
        """Put the cursor on the first question without an answer."""
        rows = self.query_one(OptionList)
        rows.highlighted = (*self._draft.unanswered, 0)[0]
        rows.focus()

    def _row(self, index: int, *, cursor: bool = False) -> Content:
        question = self._answering.questions[index]
        heading = f"{CURSOR if cursor else ' '} {index + 1}. {one_line(question.title)}"
        lines = reply_lines(question, self._draft.replies[index])
        text = Content(heading).stylize("bold")
        return Content("\n").join([text, *[Content(f"     {line}") for line in lines]])

    def _verdict(self) -> str:
        missing = len(self._draft.unanswered)
        if missing == len(self._draft.replies):
            return "Nothing is answered yet. Enter opens a question, x rejects."
        if missing:
            return f"{counted(missing, 'question')} without an answer. s sends anyway."
        preselected = sum(reply.preselected for reply in self._draft.replies)
        if preselected:
            return f"All answered, {preselected} of them preselected. s sends."
        return "All answered. s sends."

    @on(OptionList.OptionHighlighted)
    def _moved(self, event: OptionList.OptionHighlighted) -> None:
        for index in range(event.option_list.option_count):
            cursor = index == event.option_index
            event.option_list.replace_option_prompt_at_index(index, self._row(index, cursor=cursor))

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)

    def action_edit(self) -> None:
        """Change the answer at the cursor."""
        self.dismiss(self.query_one(OptionList).highlighted)

    def action_back(self) -> None:
        """Go back to the questions."""
        self.dismiss(None)

    def action_reject(self) -> None:
        """Ask for a reason and reject the session."""
        self._answering.action_reject()

    def action_send(self) -> None:
        """Send the answers; ask first if some are missing."""
        missing = len(self._draft.unanswered)
        if missing == len(self._draft.replies):
            self._host.say("Nothing is answered yet, so nothing was sent. x rejects the session.")
            return
        if not missing:
            self._send()
            return

        def decided(yes: bool | None) -> None:
            if yes:
                self._send()

        question = (
            f"{counted(missing, 'question')} without an answer. Send the other answers? Nothing "
            "can be added to them later."
        )
        self.app.push_screen(YesDialog("Send incomplete answers?", question), decided)

    def _send(self) -> None:
        answers = answers_of(self._answering.questions, self._draft)
        self._host.send(self._answering, answers)
