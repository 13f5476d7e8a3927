"""What can go wrong with the page itself."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.errors import AgentForgeError, ErrorKind, listed


class UiError(AgentForgeError):
    """Base of the page's own errors."""


class UiExtraMissing(UiError):
    """A package that only the page needs is not installed.

    Attributes:
        package: The package.
    """

    kind = ErrorKind.USAGE

    def __init__(self, package: str) -> None:
        super().__init__(
            f"`agentforge ui` needs {package}, which is not installed here; nothing was started. "
            "Install it with: pip install 'agentforge-sessions[ui]'. Until then `agentforge list` "
            "and `agentforge show` show the sessions, `agentforge report` writes one as a page."
        )
        self.package = package


class PageNotFound(UiError):
    """There is no such page.

    Attributes:
        address: What was asked for.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, address: str) -> None:
        super().__init__(f"there is no page {address[:200]!r} here. All sessions are at /.")
        self.address = address


class InvalidForm(UiError):
    """What was filled in can't be taken; nothing was changed.

    Attributes:
        faults: What is wrong, by the name of the field.
    """

    kind = ErrorKind.USAGE

    def __init__(self, faults: Mapping[str, str]) -> None:
        self.faults = dict(faults)
        super().__init__(f"{listed(list(self.faults.values()))}. Nothing was changed.")


class UnfitAnswers(InvalidForm):
    """Some questions have no answer that can be taken; nothing was sent.

    Attributes:
        question_id: The question session.
        count: How many questions it has.
        by_question: Why, by the question's index.
    """

    def __init__(self, question_id: str, count: int, by_question: Mapping[int, str]) -> None:
        super().__init__({str(index): text for index, text in by_question.items()})
        self.question_id = question_id
        self.count = count
        self.by_question = dict(by_question)
