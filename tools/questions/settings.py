"""The settings of question sessions, as a value."""

from __future__ import annotations

import math
from typing import Final

from attrs import field, frozen

from .errors import InvalidConfig

DAY_S: Final = 86_400.0


@frozen(kw_only=True)
class QuestionsConfig:
    """Limits and times of question sessions. Each value changes what it names and nothing else.

    Attributes:
        max_sessions: How many sessions may wait at once, 1 or more.
        retention_s: How long after its last change a session is kept, in seconds; 0 keeps it for
            ever.
        session_timeout_s: How long after it was asked a session can be answered, in seconds; 0 is
            without end.
        max_questions: The most questions in a session, 1 or more.
        min_options: The fewest options of a question, 0 or more; with 0 a question may ask for
            free text alone.
        max_options: The most options of a question, `min_options` or more.
        max_text_chars: The longest prompt, label, description or answer, in characters.
    """

    max_sessions: int = field(default=100)
    retention_s: float = field(default=7 * DAY_S)
    session_timeout_s: float = field(default=0.0)
    max_questions: int = field(default=5)
    min_options: int = field(default=2)
    max_options: int = field(default=5)
    max_text_chars: int = field(default=20_000)

    def __attrs_post_init__(self) -> None:
        faults = []
        for name, least in (
            ("max_sessions", 1),
            ("max_questions", 1),
            ("min_options", 0),
            ("max_options", 0),
            ("max_text_chars", 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                faults.append(f"{name}: expected a whole number of {least} or more, got {value!r}")
        for name in ("retention_s", "session_timeout_s"):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not math.isfinite(value)
                or value < 0
            ):
                faults.append(f"{name}: expected a number of seconds, 0 or more, got {value!r}")
        if not faults and self.max_options < self.min_options:
            faults.append(
                f"max_options: {self.max_options} is less than min_options ({self.min_options})"
            )
        if faults:
            raise InvalidConfig(faults)
