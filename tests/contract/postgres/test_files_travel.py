"""The files of an agent's session go from one machine to another, and back, by the store."""

from __future__ import annotations

import socket
import subprocess
from io import BytesIO
from pathlib import Path

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.packs import PostgresPacks
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionContext
from agentforge_sessions.harness.views.checkpoints import last_kept
from agentforge_sessions.wiring.pruning import collect_packs
from tests.e2e.test_take_up import TOOLS, Desk
from tests.support.promptness import wait_until
from tests.support.repositories import plain_git
from tests.support.sessions import session_id as an_id
from tests.support.terminals import run_in_terminal


class Machine(Desk):
    """A person's desk with a clone of a repository, whose sessions are in a database."""

    def __init__(self, folder: Path, database: Database, origin: Path) -> None:
        super().__init__(folder)
        subprocess.run(["git", "clone", "-q", origin, folder / "clone"], check=True)
        (folder / "clone" / ".git").rename(self.project / ".git")
        plain_git(self.project, "checkout", "-q", "--", ".")
        self.environment["AGENTFORGE_STORE"] = database.url
        self.environment["PATH"] += ":/usr/bin:/bin"
        self.put("claude-code", "opencode")
        self.store = PostgresStore(database, self.base)

    def work(self, talk: str, **files: str | None) -> SessionContext:
        """Have an agent change files in a turn; return the session once others can have them."""
        self.hook("claude-code", "SessionStart", conversation=talk, source="startup")
        self.hook("claude-code", "UserPromptSubmit", conversation=talk, prompt="Write it")
        for name, text in files.items():
            path = self.project / name
            path.unlink() if text is None else path.write_text(text)
        self.hook("claude-code", "Stop", conversation=talk, last_assistant_message="Done.")
        (session_id,) = self.store.list_sessions()
        wait_until(lambda: self.is_sent(session_id))
        return self.load(session_id)

    def is_sent(self, session_id: str) -> bool:
        """Return whether others can have the last files, or it is said why not."""
        last = last_kept(self.load(session_id))
        return bool(last.snapshot and (last.unkept or last.snapshot in self.sent(session_id)))

    def load(self, session_id: str) -> SessionContext:
        found = self.store.load(session_id)
        assert found is not None
        return found

    def sent(self, session_id: str) -> set[str]:
        packs = self.store.pack_index().packs(session_id, "workspace")
        return {one for pack in packs for one in pack.snapshots}

    def files(self) -> dict[str, str]:
        return {one.name: one.read_text() for one in self.project.iterdir() if one.is_file()}


@pytest.fixture
def machines(tmp_path: Path, database: Database) -> tuple[Machine, Machine]:
    return two_machines(tmp_path, database)


def two_machines(tmp_path: Path, database: Database) -> tuple[Machine, Machine]:
    origin = tmp_path / "origin"
    subprocess.run(["git", "init", "-q", "-b", "main", origin], check=True)
    (origin / "a").write_text("one\n")
    (origin / "b").write_text("one\n")
    plain_git(origin, "add", "-A")
    plain_git(origin, "commit", "-q", "-m", "first")
    one, other = (Machine(tmp_path / name, database, origin) for name in ("one", "other"))
    return one, other


def test_the_files_of_a_session_come_to_another_machine_and_go_back(
    machines: tuple[Machine, Machine],
) -> None:
    one, other = machines
    session_id = one.work("talk-1", a="two\n", b=None, new="new\n").session_id
    (other.project / "mine").write_text("not committed\n")
    before, elsewhere = other.files(), (session_id, "--in", "opencode")

    said = other.agentforge("resume", *elsewhere)
    assert (said.returncode, "say bring or leave" in said.stderr) == (2, True)
    shown = " ".join(said.stdout.split())
    assert all(part in shown for part in ("a | 2 +-", "b | 1 - (deleted)", "new | 1 + (added)"))
    assert other.files() == before
    assert not other.out.exists()

    other.resumed(*elsewhere, "--files", "bring")
    assert other.files() == {"a": "two\n", "new": "new\n"}
    undone = other.agentforge("session", "rewind", session_id, "--yes")
    assert (undone.returncode, other.files()) == (0, before)
    other.agentforge("session", "rewind", session_id, "--yes")
    assert other.files() == {"a": "two\n", "new": "new\n"}

    other.work("talk-2", a="three\n")
    assert one.files()["a"] == "two\n"
    one.resumed(*elsewhere, "--files", "bring")
    assert one.files() == {"a": "three\n", "new": "new\n"}
    (one.project / "a").write_text("by a person\n")
    assert "+by a person" in one.agentforge("diff", session_id).stdout
    one.resumed(*elsewhere)  # it was worked on here last, and nothing is asked
    assert one.files()["a"] == "by a person\n"


def test_files_are_left_as_the_person_says_and_deleted_with_the_session(
    machines: tuple[Machine, Machine], database: Database
) -> None:
    one, other = machines
    session_id = one.work("talk-1", a="two\n").session_id
    shown = run_in_terminal(
        [TOOLS / "agentforge", "resume", session_id, "--in", "opencode"],
        folder=other.project,
        environment=other.environment,
        until=other.out.exists,
        patience_s=60.0,
        typed=b"l\n",
    )
    assert "a | 2 +-" in shown
    assert other.files()["a"] == "one\n"
    other.out.unlink()
    other.resumed(session_id, "--in", "opencode")
    other.work("talk-2", b="two\n")
    one.resumed(session_id, "--in", "opencode", "--files", "bring")
    assert one.files() == {"a": "one\n", "b": "two\n"}

    objects = PostgresPacks(database).objects
    stored = {each.key for each in objects.list()}
    assert len(stored) > 1
    one.store.delete(session_id)
    assert stored.isdisjoint(each.key for each in objects.list())


def test_what_the_database_refuses_is_said_on_both_machines(
    tmp_path: Path, fresh: Database
) -> None:
    one, other = two_machines(tmp_path, fresh)
    with fresh.connection() as connection:
        connection.execute("drop table agentforge.pack_objects")
    session = one.work("talk-1", a="two\n")
    assert "not on other machines" in (last_kept(session).unkept or "")
    assert "not on other machines" in one.agentforge("show", session.session_id).stdout
    done = other.agentforge("resume", session.session_id, "--in", "opencode")
    said = " ".join(done.stderr.split())
    assert done.returncode == 0, said
    assert f"are only on {socket.gethostname()} (not on other machines: " in said
    assert other.files()["a"] == "one\n"


def test_a_pack_that_a_killed_process_left_in_the_database_is_collected(
    tmp_path: Path, fresh: Database
) -> None:
    store = PostgresStore(fresh, tmp_path)
    packs = store.pack_index()
    packs.objects.put(f"{packs.space}/{an_id(1)}/{'a' * 64}.pack", BytesIO(b"left"))
    packs.objects.put("theirs", BytesIO(b"of another"))
    assert collect_packs(store, None).objects == 0
    found = collect_packs(store, None, older_than_s=-60.0)
    assert (found.objects, found.size) == (1, 4)
    assert [one.key for one in packs.objects.list()] == ["theirs"]
