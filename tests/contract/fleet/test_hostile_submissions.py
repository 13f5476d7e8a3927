"""What a submission can have a worker do: nothing but what the worker's own person allowed."""

from __future__ import annotations

import json
import os
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from agentforge_sessions.base.settings.worker_configuration import WorkerConfiguration
from agentforge_sessions.entrypoints.worker.session_runs import look_at
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.fleet.workers.messages import Ending, Look
from agentforge_sessions.harness import SessionManager, SessionState
from agentforge_sessions.repository import UserRepository
from agentforge_sessions.repository.base import Base
from agentforge_sessions.wiring.fleet import SessionRunners, SubmittingRunner
from agentforge_sessions.workflows import AgentWork, FileGroup, Gate, Phase, Workflow
from agentforge_sessions.workflows.agents.choice import parse_agent
from agentforge_sessions.workflows.agents.port import AgentChoice
from tests.support.agents import tdflow_work
from tests.support.jail_starters import PYTHON
from tests.support.repositories import new_checkout, plain_git

PROBE = """
import json, os, socket, sys
secret, pwned, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
found = {"variable": os.environ.get("HOSTS_SECRET")}
def tried(act):
    try:
        return act()
    except OSError as error:
        return type(error).__name__
found["secret"] = tried(lambda: open(secret).read())
found["pwned"] = tried(lambda: open(pwned, "w").close() or "written")
found["network"] = tried(lambda: socket.create_connection(("127.0.0.1", port), 5).close() or "open")
text = json.dumps(found)
if sys.argv[4] == "edit":
    os.makedirs("notes", exist_ok=True)
    open("notes/a.md", "w").write(text)
    print("done")
else:
    print("````text:notes/a.md\\n" + text + "\\n````")
"""
FAKE_CLAUDE = """#!{python}
import json, os
try:
    open("{pwned}", "w").close()
except OSError:
    pass
variable = json.dumps({{"variable": os.environ.get("HOSTS_SECRET")}})
text = "````text:notes/a.md\\n" + variable + "\\n````"
print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": text}}))
"""
OWN = WorkerConfiguration(agent_commands=True)


def notes(mode: str) -> Workflow:
    return Workflow(
        name="notes",
        workflow_type="writing",
        role="You write notes.",
        agent_mode=mode,
        groups=[FileGroup(name="notes", paths=["notes/"])],
        phases=[
            Phase(
                name="draft",
                mode="write",
                prompt="Write notes/a.md.",
                writes=["notes"],
                gate=Gate(kind="files", require=["notes/a.md"]),
            )
        ],
        token_budget=100_000,
    )


class Ground:
    """A store, a worker's folders, and what nobody who submits may reach."""

    def __init__(self, database: Database, place: Path, port: int) -> None:
        self.database = database
        self.base = place / "sessions"
        self.secret = place / "secret"
        self.secret.write_text("the worker's own")
        self.pwned = place / "PWNED"
        self.port = port

    @property
    def store(self) -> PostgresStore:
        return PostgresStore(self.database, self.base)

    def submit(self, agent: AgentChoice, mode: str = "answer", **attachments: bytes) -> str:
        work = AgentWork(workflow=notes(mode), name="notes", subject="notes", agent=agent)
        runner = SubmittingRunner(SessionManager(self.store))
        return runner.begin(work, attachments=attachments)

    def probe(self, mode: str = "answer", **more: Any) -> AgentChoice:
        words = [PYTHON, "-c", PROBE, str(self.secret), str(self.pwned), str(self.port), mode]
        return AgentChoice(kind="command", value=shlex.join(words), **more)

    def look(self, session_id: str, allowed: WorkerConfiguration | None, **more: Any) -> Look:
        runners = SessionRunners(self.database.url, self.base, allowed=allowed, **more)
        try:
            return look_at(session_id, lambda: runners.manager_of(session_id, 1), runners.runner)
        finally:
            runners.close()

    def found(self, session_id: str) -> dict[str, Any]:
        path = self.store.workspace_path(session_id) / "notes" / "a.md"
        found = json.loads(path.read_text())
        assert isinstance(found, dict)
        return found

    def untouched(self, session_id: str) -> bool:
        session = self.store.load(session_id)
        assert session is not None
        return (session.state, session.revision) == (SessionState.ACTIVE, 1)


@pytest.fixture
def ground(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    monkeypatch.setenv("HOSTS_SECRET", "hunter2")
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Ground(database, tmp_path, listening.getsockname()[1])


@pytest.mark.parametrize("mode", ["answer", "edit"])
def test_a_command_line_of_a_submission_runs_nowhere_where_it_is_not_allowed(
    ground: Ground, mode: str
) -> None:
    session_id = ground.submit(ground.probe(mode), mode)
    for allowed in (None, WorkerConfiguration(agents=["claude", "codex"])):
        look = ground.look(session_id, allowed)
        assert (look.ending, look.needs) == (Ending.NOT_ALLOWED, "command")
        assert "agent_commands = true" in str(look.reason)
    assert ground.untouched(session_id)
    assert not ground.pwned.exists()


@pytest.mark.parametrize("mode", ["answer", "edit"])
def test_where_it_is_allowed_it_runs_sealed_whatever_it_asks_for(ground: Ground, mode: str) -> None:
    asked = ground.probe(mode, network=True, environment=["HOSTS_SECRET"])
    session_id = ground.submit(asked, mode)
    look = ground.look(session_id, OWN)
    assert look.ending is Ending.COMPLETED, look.reason
    found = ground.found(session_id)
    assert found.pop("network") != "open"
    assert found == {
        "variable": None,
        "secret": "FileNotFoundError",
        "pwned": found["pwned"],
    }
    assert not ground.pwned.exists()


@pytest.mark.parametrize("mode", ["answer", "edit"])
def test_what_the_workers_person_gives_it_has(ground: Ground, mode: str) -> None:
    own = WorkerConfiguration(
        agent_commands=True, agent_network=True, agent_environment=["HOSTS_SECRET"]
    )
    session_id = ground.submit(ground.probe(mode), mode)
    look = ground.look(session_id, own)
    assert look.ending is Ending.COMPLETED, look.reason
    found = ground.found(session_id)
    assert (found["variable"], found["network"]) == ("hunter2", "open")
    assert not ground.pwned.exists()


def test_a_person_may_run_agents_without_a_jail(ground: Ground) -> None:
    session_id = ground.submit(ground.probe())
    own = WorkerConfiguration(agent_commands=True, agent_jail=False)
    assert ground.look(session_id, own).ending is Ending.COMPLETED
    assert ground.found(session_id)["secret"] == "the worker's own"


def test_a_program_by_its_name_runs_in_the_jail(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of the worker's own, as `claude` would be, that looks around before it answers."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "claude"
    program.write_text(FAKE_CLAUDE.format(python=PYTHON, pwned=ground.pwned))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    session_id = ground.submit(parse_agent("claude"))
    look = ground.look(session_id, WorkerConfiguration(agents=["claude"]))
    assert look.ending is Ending.COMPLETED, look.reason
    assert ground.found(session_id) == {"variable": None}
    assert not ground.pwned.exists()


def test_no_key_of_the_worker_goes_to_an_address_of_the_submitter(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
    named = f"openai:m@http://127.0.0.1:{ground.port}/v1"
    session_id = ground.submit(parse_agent(named))
    look = ground.look(session_id, WorkerConfiguration(agents=["openai"], agent_commands=True))
    assert (look.ending, look.needs) == (Ending.NOT_ALLOWED, "openai")
    assert ground.untouched(session_id)


def test_no_wheel_of_the_worker_is_read_that_its_person_did_not_name(
    ground: Ground, tmp_path: Path
) -> None:
    wheel = str(tmp_path / "elsewhere" / "secret-1-py3-none-any.whl")
    work = tdflow_work()
    packaged = evolve(work, workflow=work.workflow.with_packages([wheel]), agent=ground.probe())
    session_id = SubmittingRunner(SessionManager(ground.store)).begin(packaged)
    look = ground.look(session_id, OWN)
    assert (look.ending, look.needs) == (Ending.NOT_ALLOWED, "repository"), look.reason
    assert ground.untouched(session_id)


def base_of(checkout: Path, **changed: str) -> bytes:
    base = Base.of(UserRepository.at(checkout))
    return json.dumps({**json.loads(base.encode()), **changed}).encode()


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A repository on the worker's machine that is no affair of those who submit."""
    return new_checkout(tmp_path / "theirs", {"secret.txt": "theirs\n"})


def refs(checkout: Path) -> bytes:
    return plain_git(checkout, "for-each-ref").stdout


def test_a_repository_of_the_worker_is_read_only_where_its_person_said_so(
    ground: Ground, theirs: Path, tmp_path: Path
) -> None:
    before = refs(theirs)
    agent = ground.probe()
    session_id = ground.submit(agent, **{"repository.json": base_of(theirs)})
    mine = new_checkout(tmp_path / "mine", {"a": "b\n"})
    for repositories in ([], [mine]):
        rules = WorkerConfiguration(agent_commands=True, repositories=repositories)
        look = ground.look(session_id, rules)
        assert (look.ending, look.needs) == (Ending.NOT_ALLOWED, "repository"), look.reason
    assert refs(theirs) == before
    assert not list(ground.base.rglob("secret.txt"))
    session = ground.store.load(session_id)
    assert session is not None
    assert session.state is SessionState.ACTIVE
    rules = WorkerConfiguration(agent_commands=True, repositories=[theirs])
    look = ground.look(session_id, rules)
    assert look.ending is Ending.COMPLETED, look.reason
    assert (ground.store.workspace_path(session_id) / "secret.txt").read_text() == "theirs\n"


@pytest.mark.parametrize("key", ["objects", "git_dir", "common_dir"])
def test_a_submission_cannot_name_a_part_of_another_repository(
    ground: Ground, theirs: Path, tmp_path: Path, key: str
) -> None:
    mine = new_checkout(tmp_path / "mine", {"a": "b\n"})
    other = json.loads(base_of(theirs))
    document = base_of(mine, **{key: other[key], "commit": other["commit"]})
    session_id = ground.submit(ground.probe(), **{"repository.json": document})
    rules = WorkerConfiguration(agent_commands=True, repositories=[mine])
    look = ground.look(session_id, rules)
    assert look.ending not in {Ending.COMPLETED, Ending.PAUSED}
    assert not list(ground.base.rglob("secret.txt"))
