"""What can go wrong with the page itself."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.errors import AgentForgeError, ErrorKind, listed


class PageNotFound(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """There is no such page."""

    message = "there is no page {address!r} here. All sessions are at /."
    address: str


class InvalidForm(AgentForgeError, kind=ErrorKind.USAGE):
    """What was filled in can't be taken; nothing was changed."""

    message = "{texts}. Nothing was changed."
    faults: Mapping[str, str]
    """What is wrong, by the name of the field."""

    @property
    def texts(self) -> str:
        """What is wrong."""
        return listed(list(self.faults.values()))


class UnfitAnswers(InvalidForm):
    """Some questions have no answer that can be taken; nothing was sent.

    Attributes:
        question_id: The question session.
        count: How many questions it has.
        by_question: Why, by the question's index.
    """

    def __init__(self, question_id: str, count: int, by_question: Mapping[int, str]) -> None:
        self.question_id = question_id
        self.count = count
        self.by_question = dict(by_question)
        super().__init__({str(index): text for index, text in by_question.items()})
