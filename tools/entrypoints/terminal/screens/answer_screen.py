"""The screen for answering one session's questions, one at a time."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import OptionList, Static, TextArea

from ....questions import Question
from ..drafts.draft import (
    Ask,
    Draft,
    Reply,
    ask_back,
    confirm,
    pick,
    preselect,
    take_recommended,
    take_text,
    write,
)
from ..drafts.session_text import head_text, prompt_title, review_text, steps_text
from ..markdown import PromptView
from ..question_queue import WaitingSession
from .choices import Choices, OtherText, note_of
from .dialogs import TextDialog
from .host import Host, KeyLine, MessageLines

_LEAST_PROMPT: Final = 4

_WISHES: Final = {
    Ask.ELABORATE: (
        "Ask for more detail",
        "The asker receives this request instead of your answer to this question. What should it "
        "explain? You may leave this empty.",
    ),
    Ask.REPHRASE: (
        "Ask to rephrase the question",
        "The asker receives this request instead of your answer to this question. What is "
        "unclear? You may leave this empty.",
    ),
}


class AnswerScreen(Screen[None]):
    """One session's questions."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,b", "step(-1)", "Back", key_display="←"),
        Binding("right,n", "step(1)", "Next", show=False),
        Binding("v", "review", "Review"),
        Binding("e", "ask('elaborate')", "Detail"),
        Binding("d", "ask('rephrase')", "Rephrase", show=False),
        Binding("r", "take_recommended", "Recommended", show=False),
        Binding("a", "take_all_recommended", "All recommended", show=False),
        Binding("x", "reject", "Reject"),
        Binding("right_square_bracket", "step_session(1)", "Next session", show=False),
        Binding("left_square_bracket", "step_session(-1)", "Session before", show=False),
        Binding("escape", "leave", "Queue"),
    ]

    def __init__(
        self, host: Host, waiting: WaitingSession, questions: tuple[Question, ...], draft: Draft
    ) -> None:
        """Set up the screen of a session's questions and its draft."""
        super().__init__()
        self._host = host
        self.waiting = waiting
        self.questions = questions
        self.draft = draft
        self.loose_text = ""
        """Text being typed in a dialog above: a reason or a request."""

    # ----------------------------------------------------------------------------------- display

    def compose(self) -> ComposeResult:
        """Yield the frame; `show_question` fills it."""
        yield Static(id="head")
        yield Static(id="steps")
        yield Vertical(id="body")
        yield Static(id="note")
        yield MessageLines()
        yield KeyLine()

    async def on_mount(self) -> None:
        """Show the question at the draft's position, and update the time each second."""
        self.set_interval(1, self._write_head)
        await self.show_question()

    @property
    def question(self) -> Question:
        """The current question."""
        return self.questions[self.draft.position]

    @property
    def reply(self) -> Reply:
        """The draft reply to the current question."""
        return self.draft.replies[self.draft.position]

    def typed_text(self) -> str:
        """Return all choices and typed text as plain text; "" if there are none."""
        loose = self.loose_text.strip()
        text = "" if self.draft.empty else review_text(self.questions, self.draft)
        return f"{text}\nBeing typed: {loose}\n".lstrip() if loose else text

    async def show_question(self) -> None:
        """Show the question at the draft's position; the first time, preselect recommendations."""
        shown = preselect(self.question, self.reply)
        if shown != self.reply:
            self._keep(self.draft.with_reply(self.draft.position, shown))
        body = self.query_one("#body", Vertical)
        title = prompt_title(self.question, self.waiting)
        async with self.batch():
            await body.remove_children()
            choices = Choices(self.question, self.reply)
            text = OtherText(self.reply.text)
            text.display = bool(self.reply.text)
            await body.mount(PromptView(self.question.prompt, title=title), choices, text)
            self._write_lines()
        if self.question.options:
            choices.focus()
        else:
            self._open_text()
        self.call_after_refresh(self._fit)

    def _write_lines(self) -> None:
        self._write_head()
        width = max(self.size.width - 2, 1)
        self.query_one("#steps", Static).update(
            Content(steps_text(self.questions, self.draft, width))
        )
        self.query_one("#note", Static).update(Content(note_of(self.question, self.reply)))

    def _write_head(self) -> None:
        others = self._host.others_waiting(self.waiting.session_id)
        text = head_text(
            self.waiting,
            f"Question {self.draft.position + 1} of {len(self.questions)}",
            now=self._host.clock(),
            others=others,
            width=max(self.size.width - 2, 1),
        )
        self.query_one("#head", Static).update(Content(text))

    def queue_changed(self, waiting: WaitingSession | None) -> None:
        """Show the queue's current entry for this session, and how many others wait.

        Args:
            waiting: This session in the queue; None if it is not in the queue.
        """
        self.waiting = waiting or self.waiting
        if self.is_mounted:
            self._write_head()
            for prompt in self.query(PromptView):
                prompt.border_title = Content(prompt_title(self.question, self.waiting))

    def on_resize(self) -> None:
        """Fit the lines and the prompt to the new size."""
        self.call_after_refresh(self._fit)
        self.call_after_refresh(self._write_lines)

    def _fit(self) -> None:
        """Limit the prompt's height so that prompt and options both stay visible.

        If the body is not complete yet, nothing happens; `show_question` calls this again later.
        """
        body = self.query_one("#body", Vertical)
        for prompt, choices, text in zip(
            body.query(PromptView), body.query(Choices), body.query(OtherText), strict=False
        ):
            taken = text.outer_size.height if text.display else 0
            room = body.size.height - taken
            options = min(choices.virtual_size.height, max(room // 2, 1))
            prompt.styles.max_height = max(room - options, _LEAST_PROMPT)

    # ----------------------------------------------------------------------------------- actions

    def change(self, reply: Reply) -> None:
        """Replace the reply to the current question, save it and show it."""
        self._keep(self.draft.with_reply(self.draft.position, reply))
        self.query_one(Choices).show(reply)
        self._write_lines()

    def _keep(self, draft: Draft) -> None:
        self.draft = draft
        self._host.keep(draft)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._pick(event.option_index)

    def _pick(self, index: int) -> None:
        """Choose an option or withdraw its choice; the last row opens the free text."""
        if index == len(self.question.options):
            self._open_text()
        else:
            self.change(pick(self.question, self.reply, index))

    def action_pick(self) -> None:
        """Choose the option at the cursor, or withdraw its choice."""
        self._pick(self.query_one(Choices).highlighted or 0)

    async def action_pick_and_go_on(self) -> None:
        """Go to the next question; in a single choice, choose the option at the cursor first."""
        row = self.query_one(Choices).highlighted or 0
        is_other = row == len(self.question.options)
        held = row in self.reply.picked and self.reply.ask is None
        if not is_other and (held or self.question.multi_select):
            self.change(confirm(self.reply))
        else:
            self._pick(row)
        if not is_other:
            await self._go_on()

    def action_number(self, number: int) -> None:
        """Choose an option by its number."""
        if number <= len(self.question.options):
            self.query_one(Choices).highlighted = number - 1
            self._pick(number - 1)

    def action_other(self) -> None:
        """Open the free text."""
        self.query_one(Choices).highlighted = len(self.question.options)
        self._open_text()

    async def _go_on(self) -> None:
        if self.draft.position + 1 < len(self.questions):
            await self.action_step(1)
        else:
            self.action_review()

    def _open_text(self) -> None:
        text = self.query_one(OtherText)
        text.display = True
        text.focus()
        text.move_cursor(text.document.end)
        if self.reply.text.strip() and not self.reply.has_text:
            self.change(take_text(self.question, self.reply, taken=True))
        self.call_after_refresh(self._fit)

    @on(TextArea.Changed)
    def _typed(self, event: TextArea.Changed) -> None:
        if event.text_area.text != self.reply.text:
            self.change(write(self.question, self.reply, event.text_area.text))

    def _close_text(self) -> None:
        """Hide the text if it is empty."""
        text = self.query_one(OtherText)
        text.display = bool(text.text)

    def action_leave_text(self) -> None:
        """Go back from the text to the options."""
        self._close_text()
        self.query_one(Choices).focus()
        self.call_after_refresh(self._fit)

    async def action_continue_from_text(self) -> None:
        """Leave the text and go to the next question."""
        self._close_text()
        await self._go_on()

    def action_scroll_prompt(self, pages: int) -> None:
        """Scroll the prompt by pages."""
        prompt = self.query_one(PromptView)
        lines = max(prompt.scrollable_content_region.height - 1, 1)
        prompt.scroll_relative(y=pages * lines, animate=False, immediate=True)

    async def action_step(self, by: int) -> None:
        """Go to another question; beyond the last one, to the review."""
        draft = self.draft.at(self.draft.position + by)
        if draft.position == self.draft.position:
            if by > 0:
                self.action_review()
            return
        self._keep(draft)
        await self.show_question()

    async def go_to(self, position: int) -> None:
        """Show the question at a position."""
        self._keep(self.draft.at(position))
        await self.show_question()

    def action_step_session(self, by: int) -> None:
        """Go to another session in the queue; the draft stays saved."""
        self._host.step_session(self, by)

    def action_review(self) -> None:
        """Show all answers for a review before they are sent."""
        self._host.review(self)

    def action_take_recommended(self) -> None:
        """Choose the recommended options of this question."""
        reply = take_recommended(self.question, self.reply)
        if not reply.picked:
            self._host.say("No option of this question is recommended.")
            return
        self.change(reply)

    def action_take_all_recommended(self) -> None:
        """Choose the recommended options of all open questions, then review."""
        draft = self.draft
        for index, (question, reply) in enumerate(zip(self.questions, draft.replies, strict=True)):
            if reply.preselected or not reply.answered:
                draft = draft.with_reply(index, take_recommended(question, reply))
        if draft == self.draft:
            self._host.say("Nothing to take: no open question has a recommended option.")
            return
        self._keep(draft)
        self.query_one(Choices).show(self.reply)
        self._write_lines()
        self.action_review()

    def action_ask(self, kind: str) -> None:
        """Ask for a request's text to send instead of an answer; the same key withdraws it."""
        ask = Ask(kind)
        if self.reply.ask is ask:
            self.change(ask_back(self.reply, None))
            return
        title, explanation = _WISHES[ask]
        self.loose_text = self.reply.guidance

        async def wish(guidance: str | None) -> None:
            self.loose_text = ""
            if guidance is not None:
                self.change(ask_back(self.reply, ask, guidance))
                await self._go_on()

        self.app.push_screen(
            TextDialog(title, explanation, text=self.reply.guidance, typed=self._note_loose_text),
            wish,
        )

    def _note_loose_text(self, text: str) -> None:
        self.loose_text = text

    def action_reject(self) -> None:
        """Ask for a reason and reject the session."""
        self._host.ask_to_reject(self.waiting, typed=self._note_loose_text)

    def action_leave(self) -> None:
        """Go back to the queue; the draft stays saved."""
        self._host.leave_session(self)
