"""The pages of `agentforge ui` over sessions, questions and jobs in a database."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import pytest
from attrs import define, field
from starlette.testclient import TestClient

from agentforge_sessions.base.clock import utc_now
from agentforge_sessions.entrypoints.loopback import PageKey
from agentforge_sessions.entrypoints.ui.app import application
from agentforge_sessions.entrypoints.ui.live import FLEET, Live
from agentforge_sessions.entrypoints.ui.places import UiPlaces
from agentforge_sessions.entrypoints.ui.services import UiServices
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.questions import PostgresQuestions
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionManager, SessionState
from agentforge_sessions.questions import Asker, QuestionSessions, SessionStatus
from tests.support.fleet import QUICK, Fleet, fleet_of, workflow
from tests.support.page_address import key_of
from tests.support.postgres import PostgresServer
from tests.support.promptness import PATIENCE_S
from tests.support.questions import DATABASE

KEY: Final = "the-key-of-this-start"
ORIGIN: Final = "http://127.0.0.1:8766"


@define
class Site:
    """The pages, and the store as another machine has it."""

    database: Database
    place: Path
    services: UiServices
    client: TestClient
    opened: list[PostgresQuestions] = field(factory=list)

    def manager(self, session_id: str | None = None, **more: Any) -> SessionManager:
        manager = SessionManager(PostgresStore(self.database, self.place / "elsewhere"), **more)
        if session_id is not None:
            manager.open(session_id)
        return manager

    def begin(self, goal: str = "Add retries", **more: Any) -> str:
        return self.manager().create(goal=goal, **more).session_id

    @property
    def questions(self) -> QuestionSessions:
        if not self.opened:
            self.opened.append(PostgresQuestions(self.database))
        return QuestionSessions(store=self.opened[0])

    def ask(self, session_id: str) -> str:
        asker = Asker.current(session=session_id)
        return self.questions.create_session((DATABASE,), asker=asker)

    def view(self, path: str) -> str:
        found = self.client.get(f"/view{path}", headers={"X-Agentforge-Key": KEY})
        assert found.status_code == 200, found.text
        return str(found.text)

    def post(self, path: str, **fields: Any) -> Any:
        headers = {"X-Agentforge-Key": KEY, "Origin": ORIGIN}
        return self.client.post(path, data=fields, headers=headers)


@pytest.fixture
def make_site(database: Database, tmp_path: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(*, read_only: bool = False) -> Site:
        places = UiPlaces(sessions=tmp_path / "here", store=database.url)
        services = UiServices(places, read_only=read_only)
        app = application(services, Live(services), key=PageKey(KEY))
        made.append(Site(database, tmp_path, services, TestClient(app, base_url=ORIGIN)))
        return made[-1]

    yield make
    for one in made:
        one.services.close()
        for questions in one.opened:
            questions.close()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_sessions_are_listed_and_narrowed(site: Site) -> None:
    one, other = site.begin("Add retries", tags=["net"]), site.begin("Write docs")
    site.manager(other).pause("later")
    text = site.view("/")
    assert f'id="row-{one}"' in text
    assert f'id="row-{other}"' in text
    narrowed = site.view("/?q=retries&tag=net")
    assert f'id="row-{one}"' in narrowed
    assert f'id="row-{other}"' not in narrowed
    assert f'id="row-{other}"' in site.view("/?standing=paused")


def test_a_session_is_shown_paused_extended_and_aborted(site: Site) -> None:
    one = site.begin("Add retries", initial_phase="red", token_budget=1_000)
    site.manager(one).add_artifact("a.py", "created")
    text = site.view(f"/sessions/{one}")
    for words in ("Add retries", "a.py", "to-pause"):
        assert words in text
    assert site.post(f"/do/sessions/{one}/pause", reason="till tomorrow").status_code == 200
    paused = site.manager().load(one)
    assert paused is not None
    assert (paused.state, paused.history[-1].details) == (SessionState.PAUSED, "till tomorrow")
    assert site.post(f"/do/sessions/{one}/extend", more="500").status_code == 200
    assert site.post(f"/do/sessions/{one}/abort").status_code == 200
    aborted = site.manager().load(one)
    assert aborted is not None
    assert (aborted.state, aborted.token_budget.total_budget) == (SessionState.ABORTED, 1_500)
    assert site.post(f"/do/sessions/{one}/pause").status_code == 409


def test_questions_are_those_of_the_database_and_answered_in_it(site: Site) -> None:
    one = site.begin("It asks")
    asked, other = site.ask(one), site.ask(one)
    site.services.look_at_questions()
    assert f'id="question-{asked}"' in site.view("/questions")
    assert f'id="question-{asked}"' in site.view(f"/sessions/{one}")
    assert "waits for you" in site.view("/?standing=waiting")
    assert f'id="row-{one}"' in site.view("/?standing=waiting")
    assert site.post(f"/do/questions/{asked}/answer", **{"choice-0": "1"}).status_code == 200
    answers = site.questions.get(asked).answers
    assert answers is not None
    assert answers.answers[0].selected_option == DATABASE.options[1].label
    assert site.post(f"/do/questions/{other}/reject", reason="not mine").status_code == 200
    assert site.questions.get(other).status is SessionStatus.REJECTED


def test_a_read_only_server_ends_no_question_of_the_database(
    make_site: Callable[..., Site],
) -> None:
    site = make_site(read_only=True)
    one = site.begin("It asks")
    asked = site.ask(one)
    site.services.look_at_questions()
    assert f'id="question-{asked}"' in site.view("/questions")
    site.manager(one).abort()
    site.services.look_at_questions()
    assert site.questions.store.read(asked).status is SessionStatus.PENDING
    assert site.post(f"/do/questions/{asked}/reject").status_code == 404


def test_what_other_machines_save_ask_and_delete_is_seen(site: Site) -> None:
    one, gone = site.begin("One"), site.begin("Gone")
    watch = site.services.watch
    assert {row.session_id for row in watch.rows()} == {one, gone}
    assert watch.look() == frozenset()
    site.manager(one).record_tokens(5)
    assert watch.look() == {one}
    new = site.begin("New")
    assert watch.look() == {new}
    site.manager().delete(gone)
    assert watch.look(also=[gone]) == {gone}


def test_what_a_machine_with_a_slow_clock_saves_is_seen_too(site: Site) -> None:
    one, other = site.begin("One"), site.begin("Other")
    watch = site.services.watch
    watch.rows()
    site.manager(other).record_tokens(1)
    assert watch.look() == {other}
    slow = utc_now() - timedelta(minutes=5)
    site.manager(one, clock=lambda: slow).record_tokens(5)
    assert watch.look() == {one}


@pytest.mark.anyio
async def test_a_save_and_a_question_of_another_machine_reach_the_open_page(site: Site) -> None:
    one = site.begin("It goes on")
    live = Live(site.services)
    listener = live.listen([f"session:{one}", FLEET])
    told = aiter(listener.stream())
    await anext(told)

    async def hears(topic: str) -> None:
        while topic.encode() not in await anext(told):
            pass

    with anyio.fail_after(PATIENCE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(live.run)
            await hears(FLEET)  # it looks
            await anyio.to_thread.run_sync(site.services.watch.rows)
            await anyio.to_thread.run_sync(lambda: site.manager(one).record_tokens(5))
            await hears(f"session:{one}")
            assert "5 of 100,000" in site.view("/")
            asked = await anyio.to_thread.run_sync(site.ask, one)
            while f"question-{asked}" not in site.view(f"/sessions/{one}"):
                await hears(f"session:{one}")
            group.cancel_scope.cancel()


# -------------------------------------------------------------------------------- the fleet


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Iterator[Fleet]:
    with fleet_of(database, tmp_path) as fleet:
        yield fleet


def test_a_job_and_a_worker_are_on_the_page_of_the_fleet(site: Site, fleet: Fleet) -> None:
    text = site.view("/fleet")
    assert "No worker is alive." in text
    assert "There is no job." in text
    one = fleet.submit(workflow(QUICK), queue="builds")
    text = site.view("/fleet")
    assert f'href="/sessions/{one}"' in text
    assert "builds" in text


# ------------------------------------------------------------------------------ the command


def test_the_command_serves_a_store_and_streams_its_changes(
    server: PostgresServer, database: Database, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "agentforge_sessions.entrypoints.cli"),
            *("--store", database.url, "ui", "--port", "0", "--json"),
        ],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if "AGENTFORGE" not in name},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate()
        url = urlsplit(json.loads(line)["url"])
        headers = {"X-Agentforge-Key": key_of(url.geturl()), "Host": url.netloc}
        connection = http.client.HTTPConnection(url.netloc, timeout=PATIENCE_S)
        connection.request(
            "POST",
            "/events",
            body="topics=sessions",
            headers={
                **headers,
                "Origin": f"http://{url.netloc}",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        stream = connection.getresponse()
        assert stream.status == 200
        manager = SessionManager(PostgresStore(database, tmp_path / "elsewhere"))
        one = manager.create(goal="Seen at once").session_id
        while b"sessions" not in (told := stream.readline()):
            assert told, "the stream ended"
        other = http.client.HTTPConnection(url.netloc, timeout=PATIENCE_S)
        other.request("GET", "/view/", headers=headers)
        assert f'id="row-{one}"' in other.getresponse().read().decode()
        connection.close()
        other.close()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (0, "")
