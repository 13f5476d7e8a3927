"""Reading and searching many sessions; those that did not change are not read again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Final

from attrs import frozen

from ..base.event_log import get_logger
from ..base.question import QuestionError
from ..base.search_words import Passage, SearchedText, SearchWords, TextSource, find_passages
from .disk_errors import SessionCorrupted
from .domain import QuestionSession
from .errors import QuestionStoreError
from .files.session_files import READ_PAUSES_S
from .repository import QuestionRepository

_SETTLES_S: Final = 0.1
"""The age a session's last change needs for its content to be cached, in seconds."""
_TORN_FOR_S: Final = 2.0
"""The same for a session that could not be read: a program may write its files bit by bit."""

_log = get_logger("agentforge.questions")


@frozen
class UnreadableQuestion:
    """A question session that exists and can't be listed.

    Attributes:
        session_id: Its directory's name.
        error: Why.
    """

    session_id: str
    error: QuestionError


class SessionListing:
    """The sessions of a store as last read. May be shared between threads."""

    def __init__(self, store: QuestionRepository, *, sleep: Callable[[float], None]) -> None:
        """Start with nothing read."""
        self._store = store
        self._sleep = sleep
        self._read: dict[str, tuple[Hashable, QuestionSession | QuestionError]] = {}
        self._logged: set[str] = set()
        self._mutex = threading.Lock()  # for both; never held while the disk is read

    def read_all(
        self, signatures: Mapping[str, Hashable]
    ) -> dict[str, QuestionSession | QuestionError]:
        """Read sessions; drop all others from the cache.

        Torn ones are read again after a pause, all of them together. One that can't be read is
        logged, once.

        Args:
            signatures: The sessions to read, each with what is known of its last change.
        """
        found: dict[str, QuestionSession | QuestionError] = {}
        left = dict(signatures)
        for pause in (*READ_PAUSES_S, None):
            read = self._read_those(left)
            for name in left:
                found.pop(name, None)
            found.update(read)
            with self._mutex:
                torn = [
                    name
                    for name, one in read.items()
                    if isinstance(one, SessionCorrupted) and name not in self._read
                ]
            if not torn or pause is None:
                break
            self._sleep(pause)
            signed = {name: self._store.signature(name) for name in torn}
            left = {name: one for name, one in signed.items() if one is not None}
            for name in signed.keys() - left.keys():
                found.pop(name, None)
        unreadable = {name: one for name, one in found.items() if isinstance(one, QuestionError)}
        with self._mutex:
            new = unreadable.keys() - self._logged
            self._logged |= new
        for name in sorted(new):
            _log.warning("question.unreadable", session_id=name, error=str(unreadable[name]))
        self._forget_all_but(signatures.keys())
        return {name: found[name] for name in signatures if name in found}

    def _read_those(
        self, signatures: Mapping[str, Hashable]
    ) -> dict[str, QuestionSession | QuestionError]:
        """Read the sessions that changed; cache those whose next change will be visible."""
        with self._mutex:
            known = {name: self._read[name] for name in signatures if name in self._read}
        found = {name: one[1] for name, one in known.items() if one[0] == signatures[name]}
        read = self._store.read_many([name for name in signatures if name not in found])
        for name, one in read.items():
            settles_s = _TORN_FOR_S if isinstance(one, QuestionError) else _SETTLES_S
            keep = self._store.is_settled(signatures[name], for_s=settles_s)
            with self._mutex:
                if keep and not isinstance(one, QuestionStoreError):
                    self._read[name] = (signatures[name], one)
                else:
                    self._read.pop(name, None)
        return {**found, **read}

    def _forget_all_but(self, names: Collection[str]) -> None:
        with self._mutex:
            for name in [one for one in self._read if one not in names]:
                del self._read[name]
            self._logged.intersection_update(names)


_READ_AT_ONCE: Final = 200


@frozen(kw_only=True)
class QuestionMatch:
    """A question session that contains all words of a search.

    Attributes:
        session: The session, as it is stored.
        passages: Lines that together have all the words.
    """

    session: QuestionSession
    passages: tuple[Passage, ...]

    @property
    def session_id(self) -> str:
        """The question session's id."""
        return self.session.session_id

    @property
    def changed_at(self) -> datetime:
        """When it changed last, aware."""
        return self.session.last_modified


def searched_texts(session: QuestionSession) -> Iterator[SearchedText]:
    """Yield the searched texts of a question session, in the order of its questions."""
    asked_at = session.created_at
    for number, question in enumerate(session.questions):
        texts = [question.prompt, question.title]
        for option in question.options:
            texts += [option.label, option.description or ""]
        for text in texts:
            yield SearchedText(TextSource.QUESTION, text, number, asked_at)
    for one in () if session.answers is None else session.answers.answers:
        for said in (one.custom_text, one.selected_option, *(one.selected_options or ())):
            if said is not None:
                at = one.timestamp or session.last_modified
                yield SearchedText(TextSource.ANSWER, said, one.question_index, at)
    if session.rejection_reason is not None:
        yield SearchedText(TextSource.ANSWER, session.rejection_reason, None, session.last_modified)


def search_questions(
    store: QuestionRepository, words: SearchWords
) -> tuple[list[QuestionMatch], list[UnreadableQuestion]]:
    """Return the question sessions that contain all words, the last changed first.

    Returns:
        The matches, and the sessions that could not be searched because they can't be read.

    Raises:
        QuestionStoreError: The store refused.
    """
    found: list[QuestionMatch] = []
    unreadable: list[UnreadableQuestion] = []
    names = iter(store.names())
    while some := list(islice(names, _READ_AT_ONCE)):
        for name, read in store.read_many(some).items():
            if isinstance(read, QuestionError):
                unreadable.append(UnreadableQuestion(name, read))
                continue
            passages = find_passages(searched_texts(read), words)
            if passages:
                found.append(QuestionMatch(session=read, passages=passages))
    found.sort(key=lambda one: (one.changed_at, one.session_id), reverse=True)
    return found, unreadable


__all__ = [
    "QuestionMatch",
    "SessionListing",
    "UnreadableQuestion",
    "search_questions",
    "searched_texts",
]
