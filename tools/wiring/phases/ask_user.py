"""The host function `ask_user`: code in the sandbox asks the person behind its session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...harness import Question, QuestionWaits, SessionManager

DEFAULT_ASK_WAIT_S: Final = 30.0
"""How long code in the sandbox waits for a person in one call, in seconds: half of the deadline
that an execution has by default."""


def ask_user_tool(
    manager: SessionManager, *, wait_s: float = DEFAULT_ASK_WAIT_S
) -> Callable[..., dict[str, object]]:
    """Return the host function `ask_user`, for `create_sandbox(tools=[...])`.

    Code in the sandbox calls it as `from host import tools; tools.ask_user(...)`. The deadline of
    the execution keeps running, so one call waits for at most `wait_s` seconds; a later answer is
    found by the next execution that asks the same. The manager's session is the one that asks.
    """

    def ask_user(
        prompt: str, options: list[str], title: str = "", multi_select: bool = False
    ) -> dict[str, object]:
        """Ask the person that this work is for, and wait for the answer.

        Args:
            prompt: The whole question.
            options: The answers to choose from, two to four; own words may always be given.
            title: A word or two for lists; the beginning of the prompt if empty.
            multi_select: Whether several may be chosen.
        """
        question = Question(
            prompt=prompt,
            title=title or prompt[:24],
            options=options,
            multi_select=multi_select,
        )
        try:
            reply = manager.ask([question], timeout_s=wait_s)
        except QuestionWaits as waits:
            return {"outcome": "waiting", "question_id": waits.question_id}
        answer = reply.answers[0] if reply.answers else None
        return {
            "outcome": reply.outcome,
            "question_id": reply.question_id,
            "selected": [] if answer is None else list(answer.selected),
            "own_words": None if answer is None else answer.text,
            "text": reply.text,
            "reason": reply.reason,
        }

    return ask_user
