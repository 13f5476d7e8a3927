"""The command line on a database: `agentforge fleet store …`, and `--store` for others."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from attrs import define

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import InvalidStoreAddress
from agentforge_sessions.fleet.postgres.schema import migrate, migrations
from agentforge_sessions.fleet.postgres.sessions.session_repository import PostgresSessions
from agentforge_sessions.fleet.stores import open_sessions
from agentforge_sessions.harness import SessionContext
from agentforge_sessions.harness.session_layout import SESSION_FILE
from agentforge_sessions.wiring.fleet import open_shared_sessions
from tests.support.clock import START
from tests.support.postgres import PostgresServer
from tests.support.promptness import wait_until
from tests.support.sessions import session_id as an_id
from tests.support.trusting import trusted
from tests.unit.cli.conftest import CommandLine, Ended
from tests.unit.cli.conftest import agentforge as agentforge  # noqa: PLC0414 (a fixture)
from tests.unit.cli.conftest import workflow as workflow  # noqa: PLC0414 (a fixture)

ONE, TWO = an_id(1), an_id(2)
SECRET = "pa55w0rd"
LAST = migrations()[-1].number


@define
class OnStore:
    """`agentforge --store URL …`, in this process."""

    run: CommandLine
    url: str

    def __call__(self, *arguments: object) -> Ended:
        return self.run("--store", self.url, *arguments)


@pytest.fixture
def on_store(agentforge: CommandLine, database: Database) -> OnStore:
    return OnStore(agentforge, database.url)


@pytest.fixture
def on_empty(agentforge: CommandLine, empty: Database) -> OnStore:
    return OnStore(agentforge, empty.url)


def with_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"postgres:{SECRET}@"))


# --------------------------------------------------------------------------------------- migrate


def test_a_database_is_migrated_once_and_then_ready(on_empty: OnStore) -> None:
    planned = on_empty("fleet", "store", "migrate", "--dry-run", "--json")
    assert (planned.code, planned.document["dry_run"]) == (0, True)
    assert on_empty("fleet", "store", "status").code == 1
    done = on_empty("fleet", "store", "migrate", "--json")
    assert done.document["migrations"] == planned.document["migrations"]
    assert [one["number"] for one in done.document["migrations"]] == list(range(1, LAST + 1))
    again = on_empty("fleet", "store", "migrate")
    assert again.code == 0
    assert "has all the tables" in again.out
    assert on_empty("list").code == 0


def test_a_migration_says_what_ran(on_empty: OnStore) -> None:
    planned, done = (
        on_empty("fleet", "store", "migrate", "--dry-run"),
        on_empty("fleet", "store", "migrate"),
    )
    assert planned.out.splitlines()[0] == "would run  0001 tables"
    assert done.out.splitlines()[0] == "ran  0001 tables"
    assert done.out.splitlines()[-1].endswith("is ready.")


def test_a_database_without_tables_is_said_with_what_to_do(on_empty: OnStore) -> None:
    for command in (("list",), ("show", "x"), ("run", "--example", "hello"), ("doctor",)):
        refused = on_empty(*command)
        assert "store migrate" in refused.out + refused.err, command
        assert refused.code == (1 if command == ("doctor",) else 6)


def test_what_a_newer_program_migrated_is_refused(agentforge: CommandLine, fresh: Database) -> None:
    with fresh.connection() as connection:
        connection.execute("insert into agentforge.migrations (number, name) values (999, 'new')")
    newer = OnStore(agentforge, fresh.url)
    for command in (("list",), ("fleet", "store", "migrate")):
        refused = newer(*command)
        assert refused.code == 6
        assert "Install the release that migrated it" in refused.err
    status = newer("fleet", "store", "status", "--json")
    assert status.code == 1
    assert (status.document["migration"], status.document["needed"]) == (999, LAST)
    assert "install the release that did" in newer("fleet", "store", "status").out


@pytest.fixture
def stranger(server: PostgresServer, empty: Database) -> Iterator[str]:
    """The address of an empty database for a role that may create nothing in it."""
    server.run("create role stranger login")
    parts = urlsplit(empty.url)
    yield urlunsplit(parts._replace(netloc=parts.netloc.replace("postgres", "stranger")))
    empty.close()
    server.run("drop role stranger")


def test_a_role_that_may_not_create_is_told_so(agentforge: CommandLine, stranger: str) -> None:
    refused = OnStore(agentforge, stranger)("fleet", "store", "migrate")
    assert refused.code == 8
    assert "does not allow this role to do that: permission denied for database" in refused.err
    assert "Grant it the right" in refused.err


@pytest.fixture
def worker(server: PostgresServer, fresh: Database) -> Iterator[str]:
    """The address of a store for a role that has the rights of programs, and no more."""
    server.run("create role worker login")
    migrate(fresh, role="worker")
    parts = urlsplit(fresh.url)
    yield urlunsplit(parts._replace(netloc=parts.netloc.replace("postgres", "worker")))
    with fresh.connection() as connection:
        connection.execute("drop owned by worker")
    server.run("drop role worker")


def test_a_role_that_reads_and_writes_leads_sessions(
    agentforge: CommandLine, worker: str, workflow: Path
) -> None:
    """What needs a role that may create is the migration alone."""
    on_store = OnStore(agentforge, worker)
    assert on_store("fleet", "store", "status").code == 0
    assert on_store("run", workflow).code == 0
    (one,) = on_store("list", "--json").document["sessions"]
    for command in (
        ("show",),
        ("session", "report", "-o", "-"),
        (
            "session",
            "checkpoints",
        ),
    ):
        assert on_store(*command, one["session_id"]).code == 0
    on_store.run.later(days=100)
    assert on_store("prune", "--kind", "agent", "--yes").code == 0
    assert on_store("list", "--json").document["sessions"] == []
    planned = on_store("fleet", "store", "migrate")
    assert (planned.code, "has all the tables" in planned.out) == (0, True)


def test_files_have_no_tables(agentforge: CommandLine, tmp_path: Path) -> None:
    for given in ((), ("--store", str(tmp_path))):
        refused = agentforge(*given, "fleet", "store", "migrate")
        assert refused.code == 2
        assert "names no database" in refused.err


# ---------------------------------------------------------------------------------------- status


def begin(database: Database, session_id: str = ONE) -> SessionContext:
    session = SessionContext.create("tdflow", "red", session_id=session_id, now=START)
    PostgresSessions(database).save(session, attachments={"plan.yaml": b"plan"})
    return session


def test_the_status_of_a_database(on_store: OnStore, database: Database) -> None:
    begin(database)
    found = on_store("fleet", "store", "status", "--json").document
    assert found["store"] == database.name
    assert (found["migration"], found["needed"], found["usable"]) == (LAST, LAST, True)
    assert found["sessions"] == {"active": 1}
    assert found["size_bytes"] > 10_000
    assert found["server"].startswith("18")
    assert found["pooled"] is False
    shown = on_store("fleet", "store", "status").out
    assert f"migration {LAST} of {LAST}" in shown
    assert "1 active" in shown


def test_the_status_of_files(agentforge: CommandLine) -> None:
    agentforge.new()
    found = agentforge("fleet", "store", "status", "--json").document
    assert (found["kind"], found["sessions"]) == ("files", {"active": 1})
    assert "1 active" in agentforge("fleet", "store", "status").out


# ------------------------------------------------------------------------------------------ copy


def test_sessions_are_copied_there_and_back(
    agentforge: CommandLine, database: Database, tmp_path: Path
) -> None:
    first, second = agentforge.new(), agentforge.new()
    back = tmp_path / "back"
    done = agentforge("fleet", "store", "copy", agentforge.base, database.url, "--json")
    assert done.code == 0
    assert done.document["copied"] == sorted([first, second])
    assert done.document["to"] == database.name
    shown = agentforge("fleet", "store", "copy", database.url, f"file://{back}")
    assert shown.code == 0
    assert "2 sessions copied" in shown.out
    assert "Workspaces" in shown.out
    for one in (first, second):
        former = (agentforge.base / one / SESSION_FILE).read_bytes()
        assert (back / one / SESSION_FILE).read_bytes() == former
    again = agentforge(
        "fleet", "store", "copy", database.url, back, "--session", first[-6:], "--json"
    )
    assert again.document["already_there"] == [first]


def test_what_is_left_is_named_and_the_exit_code_says_so(
    agentforge: CommandLine, database: Database
) -> None:
    first, second = agentforge.new(), agentforge.new()
    begin(database, first)
    planned = agentforge(
        "fleet", "store", "copy", agentforge.base, database.url, "--dry-run", "--json"
    )
    done = agentforge("fleet", "store", "copy", agentforge.base, database.url, "--json")
    assert planned.code == done.code == 1
    for found in (planned.document, done.document):
        assert found["copied"] == [second]
        assert [(one["session_id"], one["type"]) for one in found["left"]] == [
            (first, "SessionDiffers")
        ]
    shown = agentforge("fleet", "store", "copy", agentforge.base, database.url)
    assert f"left           {first}: " in shown.out
    assert "1 already there, 1 left" in shown.out


def test_a_session_that_is_no_file_is_left(agentforge: CommandLine, database: Database) -> None:
    broken, whole = agentforge.new(), agentforge.new()
    (agentforge.base / broken / SESSION_FILE).unlink()
    (agentforge.base / broken / SESSION_FILE).mkdir()
    done = agentforge("fleet", "store", "copy", agentforge.base, database.url, "--json")
    assert done.document["copied"] == [whole]
    assert [one["session_id"] for one in done.document["left"]] == [broken]


def test_a_copy_to_where_nothing_can_be_kept_begins_nothing(
    agentforge: CommandLine, empty: Database, tmp_path: Path
) -> None:
    agentforge.new()
    refused = agentforge("fleet", "store", "copy", agentforge.base, empty.url)
    assert refused.code == 6
    assert "store migrate" in refused.err
    missing = agentforge("fleet", "store", "copy", tmp_path / "nowhere", empty.url)
    assert missing.code == 8
    assert "there is no" in missing.err


# ----------------------------------------------------------------------------- the other commands


def test_commands_lead_the_sessions_of_the_store(
    on_store: OnStore, database: Database, workflow: Path
) -> None:
    ran = on_store("run", workflow)
    assert ran.code == 0, ran.err
    (session_id,) = PostgresSessions(database).list_sessions()
    session = PostgresSessions(database).load(session_id)
    assert session is not None
    assert session.state.is_terminal
    assert not (on_store.run.base / session_id / SESSION_FILE).exists()
    for word in ("log", "brief", "artifacts", "checkpoints", "budget"):
        found = on_store("session", word, session_id)
        assert found.code == 0, (word, found.err)
    assert on_store("show", session_id).code == 0
    assert on_store("session", "report", session_id, "-o", "-").code == 0
    assert on_store("list", "--json").document["base"] == database.name


def test_sessions_that_ended_long_ago_are_cleaned_up(on_store: OnStore, database: Database) -> None:
    store = PostgresSessions(database)
    for number in (1, 2):
        begin(database, an_id(number))
    ended = store.load(ONE)
    assert ended is not None
    ended.apply("complete", now=START)
    store.save(ended)
    on_store.run.later(days=100)
    planned = on_store("prune", "--kind", "agent", "--dry-run", "--json").document
    assert (planned["kinds"]["agent"]["deleted"], planned["dry_run"]) == ([ONE], True)
    assert on_store("prune", "--kind", "agent", "--json").code == 2  # nobody was asked
    shown = on_store("prune", "--kind", "agent", "--yes")
    assert (shown.code, "Deleted 1 session (" in shown.out) == (0, True)
    assert store.list_sessions() == [TWO]
    assert "There is nothing to remove." in on_store("prune", "--kind", "agent", "--yes").out


def test_the_doctor_looks_at_the_store(
    on_store: OnStore, on_empty: OnStore, agentforge: CommandLine
) -> None:
    def check(run: OnStore | CommandLine) -> tuple[str, str]:
        checks = run("doctor", "--json").document["checks"]
        (found,) = [one for one in checks if one["name"] == "store"]
        return found["status"], f"{found['message']} {found['advice']}"

    assert check(agentforge)[0] == "ok"
    assert check(on_store)[0] == "ok"
    assert check(on_empty)[0] == "fail"
    assert "agentforge fleet store migrate" in check(on_empty)[1]
    status, said = check(OnStore(agentforge, f"postgresql://me:{SECRET}@127.0.0.1:1/x"))
    assert status == "fail"
    assert "does not answer" in said


def test_ids_are_completed_from_the_store(
    database: Database, agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begin(database)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("_AGENTFORGE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_CWORD", "4")
    for words, variable in (
        (f"agentforge --store {database.url} show session_", None),
        ("agentforge --no-color --no-color show session_", database.url),
    ):
        monkeypatch.setenv("COMP_WORDS", words)
        if variable is not None:
            monkeypatch.setenv("AGENTFORGE_STORE", variable)
        with pytest.raises(SystemExit):
            agentforge("show")
        assert agentforge.capture.readouterr().out.split() == [ONE]


def test_a_suggested_command_names_the_store_and_no_password(
    agentforge: CommandLine, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(database)
    url = with_password(database.url)
    host = database.url.split("host=")[1].replace("/", "%2F")
    paused = OnStore(agentforge, url)("session", "pause", ONE)
    assert paused.code == 0, paused.err
    assert f"--store 'postgresql://postgres@{urlsplit(url).path}?host={host}' resume" in paused.out
    OnStore(agentforge, url)("resume", ONE)
    monkeypatch.setenv("AGENTFORGE_STORE", url)
    assert "--store" not in agentforge("session", "pause", ONE).out


def test_no_command_shows_a_password(
    agentforge: CommandLine, database: Database, empty: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(database)
    on_store = OnStore(agentforge, with_password(database.url))
    on_empty = OnStore(agentforge, with_password(empty.url))
    nowhere = OnStore(agentforge, f"postgresql://me:{SECRET}@127.0.0.1:1/x")
    unreadable = OnStore(agentforge, f"postgresql://me:{SECRET}@x@127.0.0.1:1/x")
    mistyped = OnStore(agentforge, f"postgresql:/me:{SECRET}@127.0.0.1:1/x")
    monkeypatch.setenv("AGENTFORGE_DEBUG", "1")
    for run in (on_store, on_empty, nowhere, unreadable, mistyped):
        for command in (
            ("list",),
            ("show", ONE),
            ("session", "brief", ONE),
            ("--verbose", "session", "budget", ONE, "--extend", 5),
            ("--json", "show", "nosuch"),
            ("fleet", "store", "status"),
            ("fleet", "store", "migrate", "--dry-run"),
            ("fleet", "store", "copy", run.url, run.url),
            ("doctor",),
        ):
            ended = run(*command)
            assert SECRET not in ended.out, command
            assert SECRET not in ended.err, command


def test_no_function_of_the_library_shows_a_password() -> None:
    for url in (f"postgresql:/me:{SECRET}@h/x", f"mysql://me:{SECRET}@h/x", f"me:{SECRET}@h"):
        for call in (open_shared_sessions, lambda store: open_sessions(store=store)):
            with pytest.raises(InvalidStoreAddress) as refused:
                call(url)
            assert SECRET not in f"{refused.value} {refused.value.fields}"


def test_a_faulty_address_is_the_command_lines_fault(agentforge: CommandLine) -> None:
    for url in ("postgresql://me:1@2@h/x", "mysql://h/x", "postgresql:/h", "postgresql://h?nope=1"):
        refused = agentforge("--store", url, "list")
        assert refused.code == 2, url
        assert "names no store" in refused.err


def test_the_store_of_the_configuration(
    agentforge: CommandLine, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(database)
    trusted(tmp_path, f"[store]\nurl = {json.dumps(database.url)}\n")
    monkeypatch.chdir(tmp_path)
    assert [one["session_id"] for one in agentforge("list", "--json").document["sessions"]] == [ONE]
    assert "--store" not in agentforge("session", "pause", ONE).out


def test_no_connection_is_left_when_a_command_ends(
    agentforge: CommandLine, fresh: Database
) -> None:
    begin(fresh)
    on_store = OnStore(agentforge, fresh.url)
    for command in (("list",), ("show", ONE), ("show", "nosuch"), ("fleet", "store", "status")):
        on_store(*command)

    def others() -> list[tuple[object, ...]]:
        with fresh.connection() as connection:
            return connection.execute(
                "select query from pg_stat_activity where datname = current_database() and "
                "pid <> pg_backend_pid() and backend_type = 'client backend'"
            ).fetchall()

    wait_until(lambda: others() == [])  # the server notices an end a moment later


def test_a_missing_extra_is_said() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from agentforge_sessions.entrypoints.cli.main import run\n"
        f"sys.exit(run(['--store', 'postgresql://me:{SECRET}@h/x', 'list']))"
    )
    refused = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=100
    )
    assert refused.returncode == 1
    assert "pip install 'agentforge-sessions[postgres]'" in refused.stderr
    assert SECRET not in refused.stderr
