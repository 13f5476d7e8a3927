"""The application: syncs the queue with the stored sessions, and the screens with the queue."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.driver import Driver

from ...base.clock import Clock, utc_now
from ...base.files import DurableError
from ...questions import Question, QuestionError, SessionEnded, SessionNotFound, UserAnswer
from .drafts.draft_store import DraftCache, DraftStore
from .drafts.session_text import arrivals_text, ending_text
from .keyboard import PATIENCE_S, KeyQueue, escape_first
from .question_queue import QuestionQueue, QueueListing, SessionEnding, WaitingSession
from .screens.answer_screen import AnswerScreen
from .screens.dialogs import KeysDialog, MessageDialog, TextDialog
from .screens.host import Messages
from .screens.queue_screen import QueueScreen
from .screens.review_screen import ReviewScreen
from .text import SHORT_ID, harmless
from .theme_name import ThemeName
from .themes import THEMES, theme_after

_REFUSALS: Final = (QuestionError, DurableError, OSError)


class QuestionsApp(Messages, KeyQueue[None]):
    """The application that shows question sessions in a terminal.

    Guarantees: nothing is sent without a review. Choices and typed text are written to disk within
    half a second, and at the latest when the application ends; a failure to write is shown. They
    stay there until this person sends them or rejects the session. If the session ends elsewhere,
    they are saved as plain text and the person is shown where.
    """

    TITLE = "Questions"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "style.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Leave", show=False, priority=True),
        Binding("t", "next_theme", "Colours", show=False),
        Binding("question_mark", "keys", "Keys", key_display="?"),
    ]

    def __init__(
        self,
        queue: QuestionQueue,
        drafts: DraftStore,
        *,
        clock: Clock = utc_now,
        first: str | None = None,
        bell: bool = True,
        theme: ThemeName = ThemeName.DARK,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Set up the application; no I/O before it runs.

        It starts with the session `first`, or with the queue if that is None. A key waits at most
        `patience_s` seconds for the previous one. With `bell`, the terminal's bell rings when a
        session arrives.
        """
        super().__init__(patience_s=patience_s)
        for one in THEMES.values():
            self.register_theme(one)
        self.theme = theme.value
        self._queue = queue
        self.clock = clock
        self._first = first
        self._rings = bell
        self._listing: QueueListing | None = None
        self._unlisted = False
        self.drafts = DraftCache(drafts, say=self.say, after=self.set_timer)
        self.keep = self.drafts.keep
        self._busy: set[str] = set()
        self._settled: set[str] = set()
        self.fault: BaseException | None = None
        """The internal error that ended the application, or None."""

    # ------------------------------------------------------------------------------ life

    async def on_mount(self) -> None:
        """Show the queue and start following its changes."""
        self._queue_screen = QueueScreen(self, where=self._queue.where)
        await self.push_screen(self._queue_screen)
        await self.drafts.find()
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGHUP, signal.SIGTERM):
                loop.add_signal_handler(number, self.exit)
        self.begin_typing()
        self.run_worker(self._follow(), name="follow")
        if self._first is not None:
            self.open_session(self._first)

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver, changed to read Esc and a following key as two keys."""
        return escape_first(super().get_driver_class())

    def _fatal_error(self) -> None:
        """Record the error in `fault` and end, without Textual's traceback of local variables."""
        self.fault = sys.exc_info()[1] or self._exception
        self._close_messages_no_wait()

    async def _follow(self) -> None:
        async for _ in self._queue.changes():
            await self.refresh_queue()

    async def refresh_queue(self) -> None:
        """Read the queue again; show sessions that arrived or ended."""
        try:
            listing = await asyncio.to_thread(self._queue.listing)
        except _REFUSALS as error:
            if not self._unlisted:
                self.say(f"The queue can't be read: {harmless(str(error))} Trying again.")
            self._unlisted = True
            return
        self._unlisted = False
        before = self._listing
        self._listing = listing
        if listing is not before and listing != before:
            self._show_queue()
            for answering in self._answering():
                answering.queue_changed(self._listed(answering.waiting.session_id))
            if before is not None and (arrived := arrivals_text(before, listing)):
                if self._rings:
                    self.bell()
                self.say(arrived)
        await self._settle_ended(listing)

    def others_waiting(self, session_id: str) -> int:
        """Return the number of other sessions that wait."""
        return sum(one.session_id != session_id for one in self._waiting_now)

    def action_keys(self) -> None:
        """Show all keys."""
        self.push_screen(KeysDialog())

    def action_next_theme(self) -> None:
        """Switch to the next theme, for this run only."""
        self.theme = theme_after(self.theme).value
        self.say(f"Colours: {self.theme}. `--theme {self.theme}` begins with them.")

    # ------------------------------------------------------------------------------ answering

    def _answering(self) -> list[AnswerScreen]:
        return [one for one in self.screen_stack if isinstance(one, AnswerScreen)]

    def open_session(self, session_id: str) -> None:
        """Show a session's questions."""
        self.hold_keys(partial(self._open, session_id))

    async def _open(self, session_id: str) -> None:
        if self._answering():
            return
        try:
            ending = await asyncio.to_thread(self._queue.ending, session_id)
            if ending is not None:
                self.say(f"Session {session_id[:SHORT_ID]} {ending_text(ending)}.")
                await self.refresh_queue()
                return
            questions = await asyncio.to_thread(self._queue.questions, session_id)
        except _REFUSALS as error:
            self.push_screen(MessageDialog("This session can't be shown", harmless(str(error))))
            return
        if not questions:
            self.say(f"Session {session_id[:SHORT_ID]} has no questions; press x to reject it.")
            return
        draft = await self.drafts.of(session_id, questions)
        waiting = self._waiting(session_id, questions)
        await self.push_screen(AnswerScreen(self, waiting, questions, draft))

    @property
    def _waiting_now(self) -> tuple[WaitingSession, ...]:
        return self._listing.waiting if self._listing is not None else ()

    def _listed(self, session_id: str) -> WaitingSession | None:
        return next((one for one in self._waiting_now if one.session_id == session_id), None)

    def _waiting(self, session_id: str, questions: Sequence[Question]) -> WaitingSession:
        if (listed := self._listed(session_id)) is not None:
            return listed
        titles = tuple(question.title for question in questions)
        return WaitingSession(session_id=session_id, titles=titles, created_at=self.clock())

    def step_session(self, answering: AnswerScreen, by: int) -> None:
        """Show the session `by` places after this one in the queue, which wraps around."""
        current = answering.waiting.session_id
        ids = [one.session_id for one in self._waiting_now]
        if not set(ids) - {current}:
            self.say("No other session is waiting.")
            return
        place = ids.index(current) if current in ids else -1
        self._close(answering)
        self._show_queue()
        following = ids[(place + by) % len(ids)]
        self._queue_screen.view.select(following)
        self.open_session(following)

    def review(self, answering: AnswerScreen) -> None:
        """Show all answers for a review before they are sent."""

        async def chosen(position: int | None) -> None:
            if position is not None:
                await answering.go_to(position)
            else:
                await answering.show_question()

        self.push_screen(ReviewScreen(self, answering), chosen)

    def leave_session(self, answering: AnswerScreen) -> None:
        """Go back to the queue."""
        if not answering.draft.empty:
            self.say("Your choices and text are kept as a draft.")
        self._close(answering)
        self._show_queue()

    def _show_queue(self) -> None:
        if self._listing is not None:
            self._queue_screen.show(self._listing, self.drafts.ids)

    def _close(self, answering: AnswerScreen) -> None:
        """Close a session's screen and all screens above it."""
        while answering in self.screen_stack:
            self.pop_screen()

    def send(self, answering: AnswerScreen, answers: Sequence[UserAnswer]) -> None:
        """Send the answers of a session."""
        session_id = answering.waiting.session_id
        self._act(
            session_id,
            lambda: self._queue.submit(session_id, answers),
            done=f"Sent: session {session_id[:SHORT_ID]} was answered.",
            failed="Not sent",
        )

    def ask_to_reject(self, waiting: WaitingSession, *, typed: Callable[[str], None]) -> None:
        """Ask for a reason and reject a session; `typed` receives the reason at each change."""
        session_id = waiting.session_id
        short = session_id[:SHORT_ID]

        def decided(reason: str | None) -> None:
            if reason is not None:
                self._act(
                    session_id,
                    lambda: self._queue.reject(session_id, reason.strip() or None),
                    done=f"Session {short} was rejected.",
                    failed="Not rejected",
                )

        explanation = (
            "Why? The asker reads the reason; you may leave it empty. This ends the session, and "
            "your choices are not sent."
        )
        self.push_screen(TextDialog(f"Reject session {short}", explanation, typed=typed), decided)

    def _act(self, session_id: str, act: Callable[[], None], *, done: str, failed: str) -> None:
        """Run `act` in a thread, unless another action on the session is running."""
        if session_id in self._busy:
            return
        self._busy.add(session_id)
        self.run_worker(self._acting(session_id, act, done=done, failed=failed), group="act")

    async def _acting(
        self, session_id: str, act: Callable[[], None], *, done: str, failed: str
    ) -> None:
        try:
            await asyncio.to_thread(act)
        except (SessionEnded, SessionNotFound):
            self._busy.discard(session_id)
            await self.refresh_queue()
            return
        except _REFUSALS as error:
            self._busy.discard(session_id)
            message = (
                f"{harmless(str(error))}\n\nYour choices and text are kept. You can try again."
            )
            self.push_screen(MessageDialog(failed, message))
            return
        self._busy.discard(session_id)
        for answering in self._answering():
            if answering.waiting.session_id == session_id:
                self._close(answering)
        await self.drafts.drop(session_id)
        self.say(done)
        await self.refresh_queue()

    # ------------------------------------------------------------------------------ endings

    async def _settle_ended(self, listing: QueueListing) -> None:
        """Settle sessions that ended elsewhere and are open here or have a draft."""
        waiting = {one.session_id for one in listing.waiting}
        open_ids = {one.waiting.session_id for one in self._answering()}
        for session_id in sorted((open_ids | self.drafts.ids) - waiting):
            if session_id in self._busy or session_id in self._settled:
                continue
            try:
                ending = await asyncio.to_thread(self._queue.ending, session_id)
            except _REFUSALS:
                continue  # can't be read now; an attempt to send shows the reason
            if ending is not None and session_id not in self._busy:
                await self._settle(session_id, ending)

    async def _settle(self, session_id: str, ending: SessionEnding) -> None:
        self._settled.add(session_id)
        answering = next(
            (one for one in self._answering() if one.waiting.session_id == session_id), None
        )
        read_questions = partial(self._queue.questions, session_id)
        text = (
            answering.typed_text()
            if answering is not None
            else await self.drafts.text_of(session_id, read_questions)
        )
        if text is None:
            return
        kept = await self.drafts.keep_unsent(session_id, text)
        short = session_id[:SHORT_ID]
        if answering is None:
            if text:
                self.say(f"Session {short} {ending_text(ending)}. Your draft {kept}.")
            return
        self._close(answering)
        message = f"Session {short} {ending_text(ending)}. None of your answers was sent."
        if text:
            message += f"\nWhat you chose and typed {kept}:"
        self.push_screen(MessageDialog("This session has ended", message, text))
