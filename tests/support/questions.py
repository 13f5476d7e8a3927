"""Questions to ask in tests, and the service with everything decided by the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

from agentforge_sessions.questions import (
    Option,
    Question,
    QuestionsConfig,
    QuestionSessions,
    UserAnswer,
)
from agentforge_sessions.questions.waiting.directory_watcher import NoWatcher
from tests.support.clock import FakeClock, FakeTokens

DATABASE: Final = Question(
    prompt="Which database?",
    title="Database",
    options=(
        Option(label="PostgreSQL", description="relational, a server"),
        Option(label="SQLite"),
    ),
)
FEATURES: Final = Question(
    prompt="Which features?",
    title="Features",
    options=(
        Option(label="Auth", description="log in"),
        Option(label="Search"),
        Option(label="Export"),
    ),
    multi_select=True,
)
QUESTIONS: Final = (DATABASE, FEATURES)
ANSWERS: Final = (
    UserAnswer(question_index=0, selected_option="PostgreSQL"),
    UserAnswer(question_index=1, selected_options=("Search", "Auth"), custom_text="it's late"),
)
MISSING: Final = "00000000-0000-4000-8000-000000000000"


class FakeIds:
    """Gives version 4 UUIDs, always the same in the same order."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def __call__(self) -> str:
        return f"{next(self._numbers):08x}-0000-4000-8000-000000000000"


class FakeTime:
    """A clock that moves when somebody sleeps; what happens meanwhile is the test's."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []
        self.meanwhile: Callable[[float], object] = lambda _: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        self.meanwhile(self.now)


class CountingWatcher(NoWatcher):
    """Tells nothing, and counts who would be told."""

    def __init__(self) -> None:
        self.watched: list[Path] = []
        self.active = 0

    @contextmanager
    def watching(self, path: Path, on_change: Callable[[], None]) -> Iterator[None]:
        self.watched.append(path)
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1


def build(base: Path, **given: Any) -> QuestionSessions:
    """Make the service with a clock, ids and tokens that a test can foresee."""
    config = given.pop("config", None)
    limits = {
        name: given.pop(name)
        for name in tuple(given)
        if name in {one.name for one in QuestionsConfig.__attrs_attrs__}
    }
    return QuestionSessions(
        base,
        config=config or QuestionsConfig(**limits),
        clock=given.pop("clock", FakeClock()),
        new_id=given.pop("new_id", FakeIds()),
        token=given.pop("token", FakeTokens()),
        **given,
    )
