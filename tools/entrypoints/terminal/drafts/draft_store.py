"""Drafts on disk, so that a lost connection loses nothing, and the cache of those in use.

Changes in the cache reach the disk soon after.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ....base.errors import AgentForgeError
from ....base.event_log import get_logger
from ....base.files import (
    DirectoryLock,
    DurableError,
    FileSystem,
    OsFileSystem,
    ReadError,
    WriteError,
    make_durable_directory,
    read_regular_file,
    replace_file,
)
from ....base.identifiers import is_uuid
from ....questions import Question, QuestionError
from ..text import harmless
from .draft import Draft, fits, from_fields, to_fields
from .session_text import bare_text, review_text

MAX_BYTES: Final = 16 * 1024 * 1024
"""Size limit of a draft that is read, in bytes."""

_LOCK_TIMEOUT_S: Final = 5.0
_SUFFIX: Final = ".json"

_log = get_logger("agentforge.terminal")

SAVE_AFTER_S: Final = 0.5
"""Maximum delay until a change is written to disk, in seconds."""

Questions = tuple[Question, ...]


class DraftUnreadable(AgentForgeError):
    """A draft can't be used; it was renamed out of the way if possible."""

    message = "the draft of session {session_id} can't be used: {reason}. It is in {path} now."
    session_id: str
    path: Path
    """The draft's current path."""
    reason: str


class DraftStore:
    """Drafts in a directory, one file per session.

    Files are replaced atomically and durably, with mode 0600 in a directory of mode 0700. If two
    terminals edit the same session's draft, it stays intact and the last write wins.
    """

    def __init__(self, directory: Path, *, fs: FileSystem | None = None) -> None:
        """Remember the directory; no I/O yet.

        Args:
            directory: The drafts' directory; created when the first draft is saved.
            fs: The file system; the real one by default.
        """
        self.directory = directory
        self._fs = fs or OsFileSystem()

    def path_of(self, session_id: str) -> Path:
        """Return the path of a session's draft.

        Raises:
            ValueError: The id is not that of a question session.
        """
        if not is_uuid(session_id):
            raise ValueError(f"{session_id!r} is not the id of a question session")
        return self.directory / f"{session_id}{_SUFFIX}"

    def unsent_path_of(self, session_id: str) -> Path:
        """Return the path of a session's unsent text."""
        return self.path_of(session_id).with_suffix(".unsent.txt")

    def load(self, session_id: str) -> Draft | None:
        """Return a session's draft; None if there is none.

        Raises:
            DraftUnreadable: The draft can't be used; it was renamed out of the way if possible.
        """
        path = self.path_of(session_id)
        try:
            content = read_regular_file(self._fs, str(path), path=path, max_bytes=MAX_BYTES)
            if content is None:
                return None
            draft = from_fields(json.loads(content), session_id=session_id)
        except (ReadError, ValueError, RecursionError) as error:
            aside = self._set_aside(path)
            raise DraftUnreadable(session_id, path=aside, reason=str(error)) from error
        return draft

    def _set_aside(self, path: Path) -> Path:
        """Rename a draft out of the way of the next one; return its path, old if that fails."""
        aside = path.with_suffix(".unreadable")
        try:
            with self._locked() as directory_fd:
                self._fs.rename(
                    path.name, aside.name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd
                )
        except (OSError, WriteError):
            return path
        return aside

    def save(self, draft: Draft) -> Path:
        """Write a draft and return its path; an empty draft is deleted instead.

        Raises:
            WriteError: The previous draft remains.
        """
        path = self.path_of(draft.session_id)
        if draft.empty:
            self.drop(draft.session_id)
        else:
            text = json.dumps(to_fields(draft), ensure_ascii=True, indent=1)
            self._replace(path, text.encode("ascii"))
        return path

    def keep_unsent(self, session_id: str, text: str) -> Path:
        """Save text that can no longer be sent, delete the draft, and return the text's path.

        Raises:
            WriteError: The text was not written or the draft not deleted; the draft remains.
        """
        path = self.unsent_path_of(session_id)
        self._replace(path, text.encode("utf-8", errors="backslashreplace"))
        self.drop(session_id)
        return path

    def drop(self, session_id: str) -> None:
        """Delete a draft, if there is one.

        Raises:
            WriteError: The draft can't be deleted.
        """
        path = self.path_of(session_id)
        try:
            with suppress(FileNotFoundError):
                self._fs.unlink(str(path))
        except OSError as error:
            raise WriteError(path=path, operation="unlink", cause=error) from error

    def session_ids(self) -> tuple[str, ...]:
        """Return the ids of sessions that have drafts; empty if the directory can't be read."""
        try:
            names = os.listdir(self.directory)
        except OSError:
            return ()
        ids = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
        return tuple(sorted(filter(is_uuid, ids)))

    def _replace(self, path: Path, content: bytes) -> None:
        with self._locked() as directory_fd:
            replace_file(self._fs, directory_fd, path.name, [content], path=path)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        make_durable_directory(self._fs, self.directory)
        try:
            with DirectoryLock(self._fs, self.directory, timeout_s=_LOCK_TIMEOUT_S) as lock:
                yield lock.fd
        except FileNotFoundError as error:
            raise WriteError(path=self.directory, operation="lock", cause=error) from error


class DraftCache:
    """A person's unsent choices and text, in memory and on disk.

    Guarantees: a draft is written to disk within `SAVE_AFTER_S` of `keep`, and at the latest by
    `save_all`; it stays there until it is dropped or saved as plain text. A failed write is shown,
    and `save_all` tries it again. Only one task at a time accesses the disk.
    """

    def __init__(
        self,
        store: DraftStore,
        *,
        say: Callable[[str], None],
        after: Callable[[float, Callable[[], Awaitable[None]]], object],
    ) -> None:
        """Set up an empty cache; no I/O yet.

        Args:
            store: The drafts on disk.
            say: Shows a message to the person if a draft can't be written or read.
            after: Schedules a call after a number of seconds.
        """
        self._store = store
        self._say = say
        self._after = after
        self._drafts: dict[str, Draft] = {}
        self._unsaved: set[str] = set()
        self._saving = False
        self._disk = asyncio.Lock()
        self.ids: set[str] = set()
        """The ids of sessions that have drafts."""
        self.lost: list[str] = []
        """Texts that could not be saved, with the reasons, to show after the application ends."""

    async def find(self) -> None:
        """Load the ids of sessions that have drafts on disk."""
        self.ids = set(await asyncio.to_thread(self._store.session_ids))

    async def of(self, session_id: str, questions: Questions) -> Draft:
        """Return the draft for these questions, or a blank one if none fits."""
        try:
            draft = await self._find(session_id)
        except DraftUnreadable as error:
            self._say(harmless(str(error)))
            draft = None
        if draft is None or not fits(draft, questions):
            return Draft.blank(session_id, questions)
        return draft

    async def text_of(self, session_id: str, questions: Callable[[], Questions]) -> str | None:
        """Return a draft as plain text; "" if it is empty.

        None if the draft can't be read; the person is then shown where the file is.

        Args:
            session_id: The session.
            questions: Reads the session's questions; called in a thread.
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
        """Store a draft in memory now, and on disk within `SAVE_AFTER_S`."""
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
        failed: DurableError | None = None
        async with self._disk:
            for session_id in sorted(self._unsaved):
                draft = self._drafts.get(session_id)
                self._unsaved.discard(session_id)
                if draft is None:
                    continue
                try:
                    await asyncio.to_thread(self._store.save, draft)
                except DurableError as error:
                    self._unsaved.add(session_id)
                    failed = error
        if failed is not None:
            self._say(
                f"Your draft is not on disk: {harmless(str(failed))} It stays here while this "
                "window is open."
            )

    async def keep_unsent(self, session_id: str, text: str) -> str:
        """Save text that can no longer be sent; return where, as the end of a sentence.

        If that fails, the text is added to `lost`.
        """
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
        """Delete a draft that was sent or discarded; a failure is only logged."""
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
        """Write all unsaved drafts and return the ids of sessions that have drafts.

        Drafts that can't be written are added to `lost`. Call this when nothing else runs any more,
        also after an internal error.
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
