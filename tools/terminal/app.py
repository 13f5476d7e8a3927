"""The application: it keeps the queue in step with the disk, and the screens with the queue."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.driver import Driver

from tools.durable import DurableError
from tools.event_log import get_logger
from tools.questions import (
    Question,
    QuestionError,
    SessionEnded,
    SessionNotFound,
    SessionStatus,
    UserAnswer,
)
from tools.terminal.answer_screen import AnswerScreen
from tools.terminal.desk import Ending, Listing, QuestionDesk, Waiting
from tools.terminal.dialogs import KeysDialog, TellDialog, TextDialog
from tools.terminal.draft import Draft, fits
from tools.terminal.drafts import DraftStore, DraftUnreadable
from tools.terminal.in_order import PATIENCE_S, InOrder
from tools.terminal.keyboard import escape_first
from tools.terminal.messages import Messages
from tools.terminal.queue_screen import QueueScreen
from tools.terminal.queue_view import SHORT_ID, now_utc
from tools.terminal.review_screen import ReviewScreen, bare_text, review_text
from tools.terminal.text import counted, harmless, one_line
from tools.terminal.theme_name import ThemeName
from tools.terminal.themes import THEMES, theme_after

_log = get_logger("agentforge.terminal")

SAVE_AFTER_S: Final = 0.5
"""How long after a key what was typed may not be on disk yet, in seconds."""

_SAY_S: Final = 6.0
_REFUSALS: Final = (QuestionError, DurableError, OSError)

_BY_OTHERS: Final = frozenset({SessionStatus.COMPLETED, SessionStatus.REJECTED})
"""How another person may have ended a session that was open here."""


def ending_text(ending: Ending) -> str:
    """Return how a session ended, as the end of a sentence that begins with it."""
    if ending.status is None:
        return "was deleted"
    text, _, meaning = ending.status.told.partition(": ")
    if ending.status in _BY_OTHERS:
        text += " elsewhere"
    if ending.at is not None:
        text += f" at {ending.at.astimezone():%H:%M:%S}"
    if meaning:
        text += f": {meaning}"
    reason = one_line(ending.reason or "", 200)
    return f"{text} ({reason})" if reason else text


class QuestionsApp(Messages, InOrder[None]):
    """Question sessions in a terminal.

    Guarantees: nothing is sent that was not reviewed; what was chosen and typed is on disk within
    `SAVE_AFTER_S` and at the latest when the application ends, and stays there until it is sent or
    its session is rejected by this person; if the session ends elsewhere it is kept as plain text
    and the person is told so.
    """

    TITLE = "Questions"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q", "quit", "Leave", show=False, priority=True),
        Binding("t", "next_theme", "Colours", show=False),
    ]

    def __init__(
        self,
        desk: QuestionDesk,
        drafts: DraftStore,
        *,
        clock: Callable[[], datetime] = now_utc,
        first: str | None = None,
        bell: bool = True,
        theme: ThemeName = ThemeName.DARK,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Make the application; nothing happens before it runs.

        Args:
            desk: Where the questions wait.
            drafts: Where what is typed is kept.
            clock: The time now, aware.
            first: The session to show at once, or None for the queue.
            bell: Whether the terminal's bell rings when a session comes.
            theme: The colours to begin with.
            patience_s: As `InOrder` has it.
        """
        super().__init__(patience_s=patience_s)
        for one in THEMES.values():
            self.register_theme(one)
        self.theme = theme.value
        self._desk = desk
        self._store = drafts
        self._clock = clock
        self._first = first
        self._rings = bell
        self._listing: Listing | None = None
        self._unlisted = False
        self._drafts: dict[str, Draft] = {}
        self._with_draft: set[str] = set()
        self._unsaved: set[str] = set()
        self._saving = False
        self._disk = asyncio.Lock()
        self._busy: set[str] = set()
        self._settled: set[str] = set()
        self.lost: list[str] = []
        """What could not be kept, to be shown after the end."""
        self.fault: BaseException | None = None
        """What ended the application, if it was a fault in it."""

    # ------------------------------------------------------------------------------ life

    async def on_mount(self) -> None:
        """Show the queue, and begin to follow it."""
        self._queue = QueueScreen(self, where=self._desk.where)
        await self.push_screen(self._queue)
        self._with_draft = set(await asyncio.to_thread(self._store.session_ids))
        if not self.is_headless:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGHUP, signal.SIGTERM):
                loop.add_signal_handler(number, self.exit)
        self.begin_typing()
        self.run_worker(self._follow(), name="follow")
        if self._first is not None:
            self.open_session(self._first)

    def get_driver_class(self) -> type[Driver]:
        """Return Textual's driver for this terminal, with Esc and the key after it apart."""
        return escape_first(super().get_driver_class())

    def _fatal_error(self) -> None:
        """End because of a fault; `fault` has it, and no local variables are printed."""
        self.fault = sys.exc_info()[1] or self._exception
        self._close_messages_no_wait()

    async def _follow(self) -> None:
        async for _ in self._desk.changes():
            await self.refresh_queue()

    async def refresh_queue(self) -> None:
        """Read the queue again, and show what came and what ended."""
        try:
            listing = await asyncio.to_thread(self._desk.listing)
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
            self._tell_arrivals(before, listing)
        await self._settle_ended(listing)

    def _tell_arrivals(self, before: Listing | None, after: Listing) -> None:
        if before is None:
            return
        known = {one.session_id for one in before.waiting}
        new = [one for one in after.waiting if one.session_id not in known]
        if not new:
            return
        if self._rings:
            self.bell()
        if len(new) == 1:
            title = one_line(new[0].titles[0], 40) if new[0].titles else "no title"
            self.say(f"New: {title} (session {new[0].session_id[:SHORT_ID]})")
        else:
            self.say(f"{counted(len(new), 'new session')} waiting")

    def clock(self) -> datetime:
        """The time now, aware."""
        return self._clock()

    def others_waiting(self, session_id: str) -> int:
        """Return how many sessions wait beside this one."""
        waiting = self._listing.waiting if self._listing is not None else ()
        return sum(one.session_id != session_id for one in waiting)

    def say(self, message: str) -> None:
        """Show a message for some seconds."""
        self.show_message(message, seconds=_SAY_S)

    def show_keys(self) -> None:
        """Show all keys."""
        self.push_screen(KeysDialog())

    def action_next_theme(self) -> None:
        """Change the colours, for this run."""
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
            ending = await asyncio.to_thread(self._desk.ending, session_id)
            if ending is not None:
                self.say(f"Session {session_id[:SHORT_ID]} {ending_text(ending)}.")
                await self.refresh_queue()
                return
            questions = await asyncio.to_thread(self._desk.questions, session_id)
        except _REFUSALS as error:
            self.push_screen(TellDialog("This session can't be shown", harmless(str(error))))
            return
        if not questions:
            self.say(f"Session {session_id[:SHORT_ID]} has no questions; press x to reject it.")
            return
        draft = await self._draft_of(session_id, questions)
        waiting = self._waiting(session_id, questions)
        await self.push_screen(AnswerScreen(self, waiting, questions, draft))

    def _listed(self, session_id: str) -> Waiting | None:
        listed = self._listing.waiting if self._listing is not None else ()
        return next((one for one in listed if one.session_id == session_id), None)

    def _waiting(self, session_id: str, questions: Sequence[Question]) -> Waiting:
        if (listed := self._listed(session_id)) is not None:
            return listed
        titles = tuple(question.title for question in questions)
        return Waiting(session_id=session_id, titles=titles, created_at=self.clock())

    async def _draft_of(self, session_id: str, questions: tuple[Question, ...]) -> Draft:
        draft = self._drafts.get(session_id)
        if draft is None:
            try:
                async with self._disk:
                    draft = await asyncio.to_thread(self._store.load, session_id)
            except DraftUnreadable as error:
                self.say(harmless(str(error)))
        if draft is None or not fits(draft, questions):
            return Draft.blank(session_id, questions)
        return draft

    def step_session(self, answering: AnswerScreen, by: int) -> None:
        """Show the questions of the session after this one in the queue, or before it."""
        current = answering.waiting.session_id
        listed = self._listing.waiting if self._listing is not None else ()
        ids = [one.session_id for one in listed]
        if not set(ids) - {current}:
            self.say("No other session is waiting.")
            return
        place = ids.index(current) if current in ids else -1
        self._close(answering)
        self._show_queue()
        following = ids[(place + by) % len(ids)]
        self._queue.view.select(following)
        self.open_session(following)

    def review(self, answering: AnswerScreen) -> None:
        """Show the answers before they are sent."""

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
            self._queue.show(self._listing, self._with_draft)

    def _close(self, answering: AnswerScreen) -> None:
        """Close a session's screen and all screens above it."""
        while answering in self.screen_stack:
            self.pop_screen()

    def send(self, answering: AnswerScreen, answers: Sequence[UserAnswer]) -> None:
        """Send the answers of a session."""
        session_id = answering.waiting.session_id
        self._act(
            session_id,
            lambda: self._desk.submit(session_id, answers),
            done=f"Sent: session {session_id[:SHORT_ID]} was answered.",
            failed="Not sent",
        )

    def ask_to_reject(self, waiting: Waiting, *, typed: Callable[[str], None]) -> None:
        """Ask for a reason and reject a session; `typed` is told the reason as it grows."""
        session_id = waiting.session_id
        short = session_id[:SHORT_ID]

        def decided(reason: str | None) -> None:
            if reason is not None:
                self._act(
                    session_id,
                    lambda: self._desk.reject(session_id, reason.strip() or None),
                    done=f"Session {short} was rejected.",
                    failed="Not rejected",
                )

        explanation = (
            "Why? The asker reads the reason; you may leave it empty. This ends the session, and "
            "your choices are not sent."
        )
        self.push_screen(TextDialog(f"Reject session {short}", explanation, typed=typed), decided)

    def _act(self, session_id: str, act: Callable[[], None], *, done: str, failed: str) -> None:
        """Let a thread answer or reject a session, once."""
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
            self.push_screen(TellDialog(failed, message))
            return
        self._busy.discard(session_id)
        for answering in self._answering():
            if answering.waiting.session_id == session_id:
                self._close(answering)
        await self._drop_draft(session_id)
        self.say(done)
        await self.refresh_queue()

    # ------------------------------------------------------------------------------ endings

    async def _settle_ended(self, listing: Listing) -> None:
        """Show which sessions ended elsewhere with a draft of this person's in them."""
        waiting = {one.session_id for one in listing.waiting}
        open_ids = {one.waiting.session_id for one in self._answering()}
        for session_id in sorted((open_ids | self._with_draft) - waiting):
            if session_id in self._busy or session_id in self._settled:
                continue
            try:
                ending = await asyncio.to_thread(self._desk.ending, session_id)
            except _REFUSALS:
                continue  # it can't be read now; sending to it will say why
            if ending is not None and session_id not in self._busy:
                await self._settle(session_id, ending)

    async def _settle(self, session_id: str, ending: Ending) -> None:
        self._settled.add(session_id)
        answering = next(
            (one for one in self._answering() if one.waiting.session_id == session_id), None
        )
        text = await self._typed_text(session_id, answering)
        kept = await self._keep_unsent(session_id, text)
        short = session_id[:SHORT_ID]
        if answering is None:
            if text:
                self.say(f"Session {short} {ending_text(ending)}. Your draft {kept}.")
            return
        self._close(answering)
        message = f"Session {short} {ending_text(ending)}. None of your answers was sent."
        if text:
            message += f"\nWhat you chose and typed {kept}:"
        self.push_screen(TellDialog("This session has ended", message, text))

    async def _typed_text(self, session_id: str, answering: AnswerScreen | None) -> str:
        """Write down what a person chose and typed; "" if it was nothing."""
        if answering is not None:
            draft, questions = answering.draft, answering.questions
            loose = answering.loose_text.strip()
            text = "" if draft.empty else review_text(questions, draft)
            return f"{text}\nBeing typed: {loose}\n".lstrip() if loose else text
        stored = self._drafts.get(session_id)
        try:
            if stored is None:
                async with self._disk:
                    stored = await asyncio.to_thread(self._store.load, session_id)
            if stored is None or stored.empty:
                return ""
            questions = await asyncio.to_thread(self._desk.questions, session_id)
        except DraftUnreadable as error:
            self.say(harmless(str(error)))
            return ""
        except _REFUSALS:
            return bare_text(stored) if stored is not None else ""
        return review_text(questions, stored) if fits(stored, questions) else bare_text(stored)

    async def _keep_unsent(self, session_id: str, text: str) -> str:
        """Keep what can't be sent any more; say where, as the end of a sentence."""
        if not text:
            await self._drop_draft(session_id)
            return "was empty"
        self._forget(session_id)
        try:
            async with self._disk:
                path = await asyncio.to_thread(self._store.keep_unsent, session_id, text)
        except DurableError as error:
            self.lost.append(f"{error}\n{text}")
            return f"could not be kept in a file ({harmless(str(error))})"
        return f"is kept in {path}"

    # ------------------------------------------------------------------------------ drafts

    def keep(self, draft: Draft) -> None:
        """Keep a draft, on disk within a second."""
        self._drafts[draft.session_id] = draft
        self._unsaved.add(draft.session_id)
        if draft.empty:
            self._with_draft.discard(draft.session_id)
        else:
            self._with_draft.add(draft.session_id)
        if not self._saving:
            self._saving = True
            self.set_timer(SAVE_AFTER_S, self._save_drafts)

    async def _save_drafts(self) -> None:
        self._saving = False
        try:
            async with self._disk:
                for session_id in sorted(self._unsaved):
                    draft = self._drafts.get(session_id)
                    self._unsaved.discard(session_id)
                    if draft is not None:
                        await asyncio.to_thread(self._store.save, draft)
        except DurableError as error:
            self._unsaved.add(session_id)
            self.say(
                f"Your draft is not on disk: {harmless(str(error))} It stays here while this "
                "window is open."
            )

    async def _drop_draft(self, session_id: str) -> None:
        self._forget(session_id)
        try:
            async with self._disk:
                await asyncio.to_thread(self._store.drop, session_id)
        except DurableError as error:
            _log.warning("terminal.draft_not_dropped", session_id=session_id, fault=str(error))

    def _forget(self, session_id: str) -> None:
        self._drafts.pop(session_id, None)
        self._unsaved.discard(session_id)
        self._with_draft.discard(session_id)

    def save_all_drafts(self) -> tuple[str, ...]:
        """Put on disk what is not there yet, and say whose drafts there are.

        To be called when the application has ended, also because of a fault.
        """
        for session_id in sorted(self._unsaved):
            draft = self._drafts.get(session_id)
            if draft is None:
                continue
            try:
                self._store.save(draft)
            except DurableError as error:
                self.lost.append(f"{error}\n{bare_text(draft)}")
        self._unsaved.clear()
        return tuple(sorted(self._with_draft))
