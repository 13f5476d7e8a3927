"""A site over sessions and questions of its own, asked as a browser asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attrs import define
from starlette.testclient import TestClient

from agentforge_sessions.base.clock import Clock
from agentforge_sessions.entrypoints.loopback import PageKey
from agentforge_sessions.entrypoints.ui.app import application
from agentforge_sessions.entrypoints.ui.live import Live
from agentforge_sessions.entrypoints.ui.places import UiPlaces
from agentforge_sessions.entrypoints.ui.services import UiServices
from agentforge_sessions.harness import SessionContext, SessionManager, SessionStore
from agentforge_sessions.questions import Asker, Question, QuestionsConfig, QuestionSessions
from tests.support.clock import FakeClock
from tests.support.questions import QUESTIONS

KEY = "the-key-of-this-start"
PAGE_KEY = PageKey(KEY)
ORIGIN = "http://127.0.0.1:8766"


@define
class Site:
    """The pages, and what stands behind them."""

    base: Path
    questions: QuestionSessions
    services: UiServices
    live: Live
    client: TestClient
    clock: FakeClock

    def begin(self, goal: str | None = "Add retries", **more: Any) -> str:
        self.clock.advance()
        manager = SessionManager(SessionStore(self.base), clock=self.clock)
        return manager.create(goal=goal, **more).session_id

    def lead(self, session_id: str) -> SessionManager:
        manager = SessionManager(SessionStore(self.base), clock=self.clock)
        manager.open(session_id)
        return manager

    def session(self, session_id: str) -> SessionContext:
        found = SessionStore(self.base).load(session_id)
        assert found is not None
        return found

    def ask(self, *questions: Question, session_id: str | None = None) -> str:
        place = None if session_id is None else (self.base / session_id).absolute()
        asker = None if place is None else Asker.current(session=place)
        asked = self.questions.create_session(questions or QUESTIONS, asker=asker)
        self.services.look_at_questions()
        return asked

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(path, headers={"X-Agentforge-Key": KEY, **headers})

    def post(self, path: str, **fields: Any) -> Any:
        headers = {"X-Agentforge-Key": KEY, "Origin": ORIGIN}
        return self.client.post(path, data=fields, headers=headers)

    def view(self, path: str) -> str:
        found = self.get(f"/view{path}")
        assert found.status_code == 200, found.text
        return str(found.text)


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    opened = []

    def make(*, pages_clock: Clock | None = None, **given: Any) -> Site:
        clock = FakeClock()
        base, asked = tmp_path / "sessions", tmp_path / "questions"
        places = UiPlaces(sessions=base, questions=asked)
        services = UiServices(places, clock=pages_clock or clock, **given)
        opened.append(services)
        live = Live(services)
        client = TestClient(application(services, live, key=PAGE_KEY), base_url=ORIGIN)
        config = QuestionsConfig(min_options=0)
        questions = QuestionSessions(asked, clock=clock, config=config)
        return Site(base, questions, services, live, client, clock)

    yield make
    for one in opened:
        with closing(one):
            pass


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
