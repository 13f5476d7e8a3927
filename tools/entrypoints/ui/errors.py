"""Errors of the web interface itself."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.errors import AgentForgeError, ErrorKind, listed


class PageNotFound(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """No page has this address."""

    message = "there is no page {address!r} here. All sessions are at /."
    address: str


class InvalidForm(AgentForgeError, kind=ErrorKind.USAGE):
    """A form or an address has invalid fields; nothing was changed."""

    message = "{texts}. Nothing was changed."
    faults: Mapping[str, str]
    """The faults by field name."""

    @property
    def texts(self) -> str:
        """The faults in words."""
        return listed(list(self.faults.values()))


class UnfitAnswers(InvalidForm):
    """Some questions of a session have no valid answer; nothing was sent.

    Attributes:
        question_id: The question session's id.
        count: The number of its questions.
        by_question: The faults by the question's index.
    """

    def __init__(self, question_id: str, count: int, by_question: Mapping[int, str]) -> None:
        self.question_id = question_id
        self.count = count
        self.by_question = dict(by_question)
        super().__init__({str(index): text for index, text in by_question.items()})
