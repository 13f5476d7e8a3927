"""The port to the person: questions that are asked once and answered whenever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from tools.harness import HarnessError
from tools.workflows.agents.port import AgentQuestion


@runtime_checkable
class Questioner(Protocol):
    """Asks a person and brings the answers.

    Asked of every implementation: what was asked outlives the process that asked, and the same
    key never asks twice.
    """

    def ask(self, questions: Sequence[AgentQuestion], *, key: str) -> str:
        """Put questions to the person, unless they were put under this key already.

        Args:
            questions: At least one.
            key: Names them for good; at most 200 characters.

        Returns:
            The id under which the person and `collect` find them.
        """
        ...

    def collect(self, asked: str, *, timeout_s: float) -> tuple[str, ...] | None:
        """Wait for the answers.

        Args:
            asked: What `ask` returned.
            timeout_s: How long, in seconds; 0: only look.

        Returns:
            An answer to each question, in their order, as text; None if there are none yet.

        Raises:
            QuestionsRejected: The person will not answer, or the questions are gone.
        """
        ...


class QuestionsRejected(HarnessError):
    """A person will not answer, or the questions were given up.

    Attributes:
        asked: The questions' id.
        reason: Why, in the person's words, or None.
    """

    def __init__(self, asked: str, *, reason: str | None) -> None:
        super().__init__(f"questions {asked} were not answered{f': {reason}' if reason else ''}")
        self.asked = asked
        self.reason = reason
