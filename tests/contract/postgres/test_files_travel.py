"""The files of an agent's session go from one machine to another, and back, by the store."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionContext
from agentforge_sessions.harness.views.checkpoints import last_kept
from tests.e2e.test_take_up import Desk
from tests.support.promptness import wait_until
from tests.support.repositories import plain_git


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
        wait_until(lambda: last_kept(self.load(session_id)).snapshot in self.sent(session_id))
        return self.load(session_id)

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
    assert "+three" in one.agentforge("diff", session_id).stdout
    one.resumed(*elsewhere)  # nothing differs any more, and nothing is asked
