"""Which question sessions contain the words of a search; a search changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Final

from attrs import frozen

from ..base.question import QuestionError
from ..base.search_words import Passage, Place, SearchedText, SearchWords, find_passages
from .domain import QuestionSession
from .listing import UnreadableQuestion
from .repository import QuestionRepository

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
            yield SearchedText(Place.QUESTION, text, number, asked_at)
    for one in () if session.answers is None else session.answers.answers:
        for said in (one.custom_text, one.selected_option, *(one.selected_options or ())):
            if said is not None:
                at = one.timestamp or session.last_modified
                yield SearchedText(Place.ANSWER, said, one.question_index, at)
    if session.rejection_reason is not None:
        yield SearchedText(Place.ANSWER, session.rejection_reason, None, session.last_modified)


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


__all__ = ["QuestionMatch", "search_questions", "searched_texts"]
