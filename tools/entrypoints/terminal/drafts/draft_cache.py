"""The drafts of all sessions while the application runs: in memory at once, on disk soon after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ....base.event_log import get_logger
from ....base.files import DurableError
from ....questions import Question, QuestionError
from ..text import harmless
from .draft import Draft, fits
from .draft_store import DraftStore, DraftUnreadable
from .session_text import bare_text, review_text

_log = get_logger("agentforge.terminal")

SAVE_AFTER_S: Final = 0.5
"""How long after a key what was typed may not be on disk yet, in seconds."""

Questions = tuple[Question, ...]


class DraftCache:
    """What a person chose and typed and has not sent.

    Guarantees: it is on disk within `SAVE_AFTER_S` of `keep` and at the latest after `save_all`,
    and stays until it is dropped or kept as plain text. The disk is used by one task at a time.
    """

    def __init__(
        self,
        store: DraftStore,
        *,
        say: Callable[[str], None],
        after: Callable[[float, Callable[[], Awaitable[None]]], object],
    ) -> None:
        """Keep drafts; nothing is read yet.

        Args:
            store: Where they are on disk.
            say: Shows a person what could not be kept, or read.
            after: Calls something after so many seconds.
        """
        self._store = store
        self._say = say
        self._after = after
        self._drafts: dict[str, Draft] = {}
        self._unsaved: set[str] = set()
        self._saving = False
        self._disk = asyncio.Lock()
        self.ids: set[str] = set()
        """The sessions that have drafts."""
        self.lost: list[str] = []
        """What could not be kept, to be shown after the end."""

    async def find(self) -> None:
        """Find out which sessions have drafts on disk."""
        self.ids = set(await asyncio.to_thread(self._store.session_ids))

    async def of(self, session_id: str, questions: Questions) -> Draft:
        """Return the draft for these questions, a blank one if there is none that fits."""
        try:
            draft = await self._find(session_id)
        except DraftUnreadable as error:
            self._say(harmless(str(error)))
            draft = None
        if draft is None or not fits(draft, questions):
            return Draft.blank(session_id, questions)
        return draft

    async def text_of(self, session_id: str, questions: Callable[[], Questions]) -> str | None:
        """Write down the draft of a session that is not shown; "" if it says nothing.

        None if there is one that can't be read: the person was shown where it is.

        Args:
            session_id: The session.
            questions: Reads its questions; called in a thread.
        """
        try:
            draft = await self._find(session_id)
        except DraftUnreadable as error:
            self._say(harmless(str(error)))
            self._forget(session_id)
            return None
        if draft is None or draft.empty:
            return ""
        try:
            asked = await asyncio.to_thread(questions)
        except (QuestionError, DurableError, OSError):
            return bare_text(draft)
        return review_text(asked, draft) if fits(draft, asked) else bare_text(draft)

    async def _find(self, session_id: str) -> Draft | None:
        known = self._drafts.get(session_id)
        if known is not None:
            return known
        async with self._disk:
            return await asyncio.to_thread(self._store.load, session_id)

    def keep(self, draft: Draft) -> None:
        """Keep a draft, on disk within a second."""
        self._drafts[draft.session_id] = draft
        self._unsaved.add(draft.session_id)
        if draft.empty:
            self.ids.discard(draft.session_id)
        else:
            self.ids.add(draft.session_id)
        if not self._saving:
            self._saving = True
            self._after(SAVE_AFTER_S, self._save)

    async def _save(self) -> None:
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
            self._say(
                f"Your draft is not on disk: {harmless(str(error))} It stays here while this "
                "window is open."
            )

    async def keep_unsent(self, session_id: str, text: str) -> str:
        """Keep what can't be sent any more; say where, as the end of a sentence."""
        if not text:
            await self.drop(session_id)
            return "was empty"
        self._forget(session_id)
        try:
            async with self._disk:
                path = await asyncio.to_thread(self._store.keep_unsent, session_id, text)
        except DurableError as error:
            self.lost.append(f"{error}\n{text}")
            return f"could not be kept in a file ({harmless(str(error))})"
        return f"is kept in {path}"

    async def drop(self, session_id: str) -> None:
        """Delete a draft that was sent, or is not wanted any more."""
        self._forget(session_id)
        try:
            async with self._disk:
                await asyncio.to_thread(self._store.drop, session_id)
        except DurableError as error:
            _log.warning("terminal.draft_not_dropped", session_id=session_id, fault=str(error))

    def _forget(self, session_id: str) -> None:
        self._drafts.pop(session_id, None)
        self._unsaved.discard(session_id)
        self.ids.discard(session_id)

    def save_all(self) -> tuple[str, ...]:
        """Put on disk what is not there yet, and return whose drafts there are.

        To be called when nothing else runs any more, also after a fault.
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
        return tuple(sorted(self.ids))
