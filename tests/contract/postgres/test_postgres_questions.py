"""Question sessions in PostgreSQL: what wakes waiters and agent sessions, and who wins."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import pytest
from attrs import evolve
from structlog.testing import capture_logs

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import StoreUnavailable
from agentforge_sessions.fleet.postgres.notifications import Notifications
from agentforge_sessions.fleet.postgres.questions import CHANNEL, PostgresQuestions
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionContext, SessionState
from agentforge_sessions.questions import (
    Asker,
    QuestionsConfig,
    QuestionSessions,
    SessionEnded,
    SessionStatus,
)
from agentforge_sessions.questions.disk_errors import SessionBusy
from agentforge_sessions.questions.errors import QuestionStoreError
from tests.support.clock import START, FakeClock
from tests.support.postgres import PostgresServer
from tests.support.promptness import wait_until
from tests.support.questions import ANSWERS, MISSING, QUESTIONS
from tests.support.sessions import session_id as an_id

NEVER_S: Final = 100_000.0
AGENT: Final = an_id(1)


@pytest.fixture
def store(database: Database) -> Iterator[PostgresQuestions]:
    """A store whose waiters look for themselves once a day: what they are told wakes them."""
    questions = PostgresQuestions(database, look_s=NEVER_S)
    yield questions
    questions.close()


@pytest.fixture
def sessions(store: PostgresQuestions) -> QuestionSessions:
    return QuestionSessions(store=store)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


_END_LISTENERS: Final = (
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{}' and "
    f"query = 'listen {CHANNEL}'"
)
"""Ends what hears of changes, and no connection that looks at that moment."""


def listeners(database: Database) -> int:
    found = database.one(
        "select count(*) from pg_stat_activity where datname = current_database() and query = %s",
        (f"listen {CHANNEL}",),
    )
    assert found is not None
    return int(found[0])


# ------------------------------------------------------------------------------- being told


def test_a_thread_that_waits_is_told(sessions: QuestionSessions, database: Database) -> None:
    which = sessions.create_session(QUESTIONS)
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.append(sessions.wait_for_answers(which)))
    waiter.start()
    wait_until(lambda: listeners(database) == 1)
    QuestionSessions(store=PostgresQuestions(database)).save_session_answers(which, ANSWERS)
    waiter.join()
    assert found[0].answers == ANSWERS


@pytest.mark.anyio
async def test_a_task_that_waits_is_told(sessions: QuestionSessions, database: Database) -> None:
    which = sessions.create_session(QUESTIONS)

    def answer() -> None:
        wait_until(lambda: listeners(database) == 1)
        QuestionSessions(store=PostgresQuestions(database)).save_session_answers(which, ANSWERS)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, answer)
            answers = await sessions.wait_for_answers_async(which)
    assert answers.answers == ANSWERS


def test_many_who_wait_share_one_connection_and_hold_none(
    sessions: QuestionSessions, database: Database
) -> None:
    asked = [sessions.create_session(QUESTIONS) for _ in range(20)]
    waiters = [threading.Thread(target=sessions.wait_for, args=(which,)) for which in asked]
    for waiter in waiters:
        waiter.start()
    wait_until(lambda: listeners(database) == 1)
    wait_until(lambda: _busy(database) == 0)
    for which in asked:
        sessions.save_session_answers(which, ANSWERS)
    for waiter in waiters:
        waiter.join()


def _busy(database: Database) -> int:
    found = database.one(
        "select count(*) from pg_stat_activity where datname = current_database() and "
        "pid <> pg_backend_pid() and state <> 'idle'"
    )
    assert found is not None
    return int(found[0])


def test_a_connection_that_was_lost_comes_back_and_all_look_once(
    fresh: Database, server: PostgresServer
) -> None:
    """An answer that nobody was told of is found by the look after the return."""
    store = PostgresQuestions(fresh, look_s=NEVER_S)
    sessions = QuestionSessions(store=store)
    which = sessions.create_session(QUESTIONS)
    waiter = threading.Thread(target=sessions.wait_for, args=(which,))
    waiter.start()
    wait_until(lambda: listeners(fresh) == 1)
    with fresh.transaction() as connection:
        connection.execute("alter table agentforge.questions disable trigger all")
    sessions.save_session_answers(which, ANSWERS)
    assert waiter.is_alive(), "nobody was told"
    server.run(_END_LISTENERS.format(urlsplit(fresh.url).path[1:]))
    waiter.join(60)
    assert not waiter.is_alive()
    store.close()


def test_who_follows_all_sessions_is_told_of_each(
    sessions: QuestionSessions, database: Database
) -> None:
    others = QuestionSessions(store=PostgresQuestions(database))
    found = sessions.changes()
    assert next(found) == frozenset()
    which = others.create_session(QUESTIONS)
    while which not in next(found):
        pass
    others.reject_session(which)
    while which not in next(found):
        pass
    with database.connection() as connection:
        connection.execute("delete from agentforge.questions")
    while which not in next(found):
        pass
    found.close()  # type: ignore[attr-defined]


def test_the_connection_ends_when_nobody_listens_any_more(database: Database) -> None:
    told = Notifications(database, CHANNEL, linger_s=0.0)
    rung = threading.Event()
    with told.listening(lambda _: rung.set()):
        wait_until(rung.is_set)  # it listens
        wait_until(lambda: listeners(database) == 1)
    wait_until(lambda: listeners(database) == 0)
    rung.clear()
    with told.listening(lambda _: rung.set()):
        wait_until(rung.is_set)
    told.close()
    wait_until(lambda: listeners(database) == 0)


def test_that_nothing_is_told_is_said_once_for_each_loss(database: Database) -> None:
    class Away(Database):
        tries = 0

        def connect(self) -> Any:
            self.tries += 1
            if self.tries <= 3:
                raise StoreUnavailable(store=self.name, reason="it restarts")
            return super().connect()

    away = Away(database.url)
    told = Notifications(away, CHANNEL)
    rung = threading.Event()
    with capture_logs() as logs, told.listening(lambda _: rung.set()):
        wait_until(rung.is_set)
    told.close()
    assert away.tries == 4
    assert [one["event"] for one in logs] == ["store.not_listening"]


# ----------------------------------------------------------------------------- ends, and races

RACER: Final = """
import sys
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.questions import PostgresQuestions
from agentforge_sessions.questions import (QuestionSessions, SessionEnded, UserAnswer)

url, which, label = sys.argv[1:]
with Database(url) as database:
    sessions = QuestionSessions(store=PostgresQuestions(database))
    sessions.get(which)
    print("ready", flush=True)
    sys.stdin.readline()
    answers = [
        UserAnswer(question_index=0, selected_option=label),
        UserAnswer(question_index=1, selected_options=["Auth"]),
    ]
    try:
        sessions.save_session_answers(which, answers)
    except SessionEnded:
        print("lost")
    else:
        print("won")
"""


def test_of_two_processes_that_answer_one_wins(
    sessions: QuestionSessions, database: Database
) -> None:
    which = sessions.create_session(QUESTIONS)
    labels = ("PostgreSQL", "SQLite")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, database.url, which, label],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for label in labels
    ]
    try:
        for racer in racers:
            assert racer.stdout is not None
            while "ready" not in (line := racer.stdout.readline()):
                assert line, "it ended before the race"
        said = [racer.communicate("go\n", timeout=60)[0].split()[-1] for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    assert sorted(said) == ["lost", "won"]
    answers = sessions.get(which).answers
    assert answers is not None
    assert answers.answers[0].selected_option == labels[said.index("won")]


def test_a_session_that_another_one_changes_for_too_long_is_busy(database: Database) -> None:
    impatient = PostgresQuestions(database, lock_timeout_s=0.01)
    sessions = QuestionSessions(store=impatient)
    which = sessions.create_session(QUESTIONS)
    with PostgresQuestions(database).locked(which), pytest.raises(SessionBusy):
        sessions.reject_session(which)
    assert sessions.get(which).status is SessionStatus.PENDING


def test_a_change_whose_block_failed_leaves_nothing(database: Database) -> None:
    sessions = QuestionSessions(store=PostgresQuestions(database))
    which = sessions.create_session(QUESTIONS)
    record = sessions.get(which).record

    def change() -> None:
        with sessions.store.locked(which) as locked:
            locked.write_record(evolve(record, status=SessionStatus.REJECTED))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change()
    assert sessions.get(which).record == record


def test_a_server_that_does_not_answer_is_a_store_that_refused(database: Database) -> None:
    away = Database("postgresql://nobody@127.0.0.1:1/none", connect_s=0.1)
    sessions = QuestionSessions(store=PostgresQuestions(away))
    for act in (
        lambda: sessions.create_session(QUESTIONS),
        lambda: sessions.get(MISSING),
        sessions.list_sessions,
        sessions.prepare,
    ):
        with pytest.raises(QuestionStoreError, match="does not answer") as caught:
            act()
        assert caught.value.retryable
    away.close()


# --------------------------------------------------------------------- the session that goes on


def jobs(database: Database) -> list[tuple[Any, ...]]:
    with database.connection() as connection:
        return connection.execute(
            "select task_name, queue_name, lock, queueing_lock, args, status::text "
            "from agentforge.procrastinate_jobs order by id"
        ).fetchall()


WOKEN: Final = (
    "agentforge.run_session",
    "reviews",
    AGENT,
    AGENT,
    {"session_id": AGENT},
    "todo",
)


@pytest.fixture
def agent(database: Database, tmp_path: Path) -> SessionContext:
    """An agent session that the fleet works on."""
    return submitted(database, tmp_path)


def submitted(database: Database, place: Path) -> SessionContext:
    session = SessionContext.create("tdflow", "red", session_id=AGENT, now=START)
    PostgresStore(database, place / "sessions").save(session)
    with database.connection() as connection:
        connection.execute(
            "insert into agentforge.submissions (session_id, queue) values (%s, 'reviews')",
            (AGENT,),
        )
    return session


def asked_by(sessions: QuestionSessions, agent: str) -> str:
    return sessions.create_session(QUESTIONS, asker=Asker.current(session=agent))


def test_an_answer_wakes_the_session_that_asked(
    sessions: QuestionSessions, database: Database, agent: SessionContext
) -> None:
    which = asked_by(sessions, agent.session_id)
    assert jobs(database) == []
    sessions.save_session_answers(which, ANSWERS)
    assert jobs(database) == [WOKEN]
    with pytest.raises(SessionEnded):
        sessions.save_session_answers(which, ANSWERS)
    sessions.mark_answers_read(which)
    assert jobs(database) == [WOKEN]


@pytest.mark.parametrize("end", ["reject_session", "abandon_session", "time_out_session"])
def test_every_other_end_wakes_it_as_well(
    sessions: QuestionSessions, database: Database, agent: SessionContext, end: str
) -> None:
    getattr(sessions, end)(asked_by(sessions, agent.session_id), "because")
    assert jobs(database) == [WOKEN]


def test_two_answers_wake_it_once_while_nobody_has_looked(
    sessions: QuestionSessions, database: Database, agent: SessionContext
) -> None:
    for which in [asked_by(sessions, agent.session_id) for _ in range(2)]:
        sessions.save_session_answers(which, ANSWERS)
    assert jobs(database) == [WOKEN]


def test_an_answer_that_is_not_committed_wakes_nobody(fresh: Database, tmp_path: Path) -> None:
    sessions = QuestionSessions(store=PostgresQuestions(fresh))
    submitted(fresh, tmp_path)
    which = asked_by(sessions, AGENT)
    with fresh.transaction() as connection:  # one that fails after all that was written
        connection.execute(
            "create function agentforge.refuse() returns trigger language plpgsql as "
            "$$ begin raise 'no'; end $$"
        )
        connection.execute(
            "create constraint trigger refuse after update on agentforge.questions "
            "deferrable initially deferred for each row execute function agentforge.refuse()"
        )
    with pytest.raises(QuestionStoreError):
        sessions.save_session_answers(which, ANSWERS)
    assert sessions.get(which).status is SessionStatus.PENDING
    assert jobs(fresh) == []


def test_a_session_that_was_not_submitted_is_not_woken(
    sessions: QuestionSessions, database: Database, tmp_path: Path
) -> None:
    session = SessionContext.create("tdflow", "red", session_id=AGENT, now=START)
    PostgresStore(database, tmp_path / "sessions").save(session)
    sessions.save_session_answers(asked_by(sessions, AGENT), ANSWERS)
    elsewhere = str(tmp_path / "other" / AGENT)  # of files, with the same name
    sessions.save_session_answers(asked_by(sessions, elsewhere), ANSWERS)
    assert jobs(database) == []


def test_a_session_that_has_ended_is_not_woken(
    sessions: QuestionSessions, database: Database, agent: SessionContext, tmp_path: Path
) -> None:
    which = asked_by(sessions, agent.session_id)
    agent.apply("abort", now=START)
    PostgresStore(database, tmp_path / "sessions").save(agent)
    assert agent.state is SessionState.ABORTED
    sessions.save_session_answers(which, ANSWERS)
    assert jobs(database) == []


def test_a_question_that_is_cleaned_up_while_it_waits_wakes_it(
    store: PostgresQuestions, database: Database, agent: SessionContext
) -> None:
    clock = FakeClock()
    asked_by(QuestionSessions(store=store, clock=clock), agent.session_id)
    clock.advance(3600)
    sessions = QuestionSessions(store=store, clock=clock, config=QuestionsConfig(retention_s=60))
    assert len(sessions.cleanup_expired_sessions().deleted) == 1
    assert jobs(database) == [WOKEN]
