"""Sessions that came with a clone or a copy, against every door: nothing acts, nothing is shown."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentforge_sessions.agents.hooks.binding import BindingFile
from agentforge_sessions.entrypoints.cli.context import Cli
from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.entrypoints.cli.output.output import Output
from agentforge_sessions.entrypoints.cli.running.run_session import submit_existing
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.errors import ChangedSinceShown, SessionNotAdopted
from agentforge_sessions.harness.store.sessions_place import OwnSessions, sessions_directory
from agentforge_sessions.wiring.bootstrap import open_snapshots
from agentforge_sessions.workflows.agents.port import AgentChoice
from agentforge_sessions.workflows.builtin import SPEC
from agentforge_sessions.workflows.job import AgentWork
from tests.support.agent_conversations import (
    CodexConversation,
    Conversation,
    GeminiConversation,
    OpencodeConversation,
    Project,
)
from tests.support.foreign_sessions import OVERRIDE, cloned, copied, git, somebody_elses_project
from tests.support.late import LateModule
from tests.support.mcp_processes import ended_anyhow

if TYPE_CHECKING:
    import mcp

    from agentforge_sessions.entrypoints.mcp_server import serving
else:
    mcp = LateModule("mcp")
    serving = LateModule("agentforge_sessions.entrypoints.mcp_server.serving")

PROGRAMS = (Conversation, CodexConversation, OpencodeConversation, GeminiConversation)
WAYS = (cloned, copied)
Way = Callable[[Path, Path], Path]

by_program = pytest.mark.parametrize("talk_of", PROGRAMS, ids=lambda one: one.program)
by_way = pytest.mark.parametrize("way", WAYS, ids=lambda one: one.__name__)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def brought(tmp_path: Path, way: Way, *, spent: bool = False) -> tuple[Project, str]:
    theirs, session_id = somebody_elses_project(tmp_path, spent=spent)
    return Project(way(theirs, tmp_path / "mine")), session_id


def agentforge(project: Project, *words: str) -> int:
    return int(run(["--base", str(project.data_folder / "sessions"), *words]))


def said(answer: object) -> str:
    return json.dumps(answer)


# ----------------------------------------------------------------------------------------- the hook


@by_way
@by_program
def test_no_agent_is_shown_or_stopped_by_a_foreign_session(
    tmp_path: Path, way: Way, talk_of: type[Conversation]
) -> None:
    project, session_id = brought(tmp_path, way, spent=True)
    before = project.store.session_path(session_id).read_bytes()
    talk = talk_of(project)
    assert talk.start() == ""
    talk.spend(5_000)
    answers = [talk.prompt(), *talk.use_tool(), talk.hook("Stop")]
    assert "OVERRIDE" not in said(answers)
    assert "stop" not in said(answers)
    assert project.store.session_path(session_id).read_bytes() == before


@by_way
@by_program
def test_an_adopted_session_is_used_as_ones_own(
    tmp_path: Path, way: Way, talk_of: type[Conversation]
) -> None:
    project, session_id = brought(tmp_path, way)
    assert agentforge(project, "session", "adopt", session_id, "--yes") == 0
    assert session_id in talk_of(project).start()


def test_a_name_in_the_environment_adopts_nothing(tmp_path: Path) -> None:
    project, session_id = brought(tmp_path, copied)
    talk = Conversation(project)
    talk.environment = {"AGENTFORGE_SESSION": session_id}
    answer = talk.hook("SessionStart", source="startup")
    assert list(answer) == ["systemMessage"]
    assert f"agentforge session adopt {session_id}" in answer["systemMessage"]


def test_a_binding_in_the_project_says_nothing(tmp_path: Path) -> None:
    project, session_id = brought(tmp_path, copied)
    talk = Conversation(project)
    binding = {
        "session_id": session_id,
        "base": str(project.data_folder / "sessions"),
        "stop": OVERRIDE,
        "notice": OVERRIDE,
        "briefing": OVERRIDE,
    }
    for folder in ("agents", "conversations"):
        file = BindingFile(project.data_folder / folder, talk.program, talk.name)
        file.directory.mkdir(parents=True)
        file.path.write_text(json.dumps(binding))
    assert OVERRIDE not in said([talk.start(), talk.prompt(), talk.use_tool()])


def test_a_link_to_the_sessions_of_another_project_of_mine_is_not_followed(tmp_path: Path) -> None:
    mine = Project(tmp_path / "other")
    mine.begin(goal="a secret of another project")
    clone = tmp_path / "clone"
    (clone / ".agentforge").mkdir(parents=True)
    (clone / ".agentforge" / "sessions").symlink_to(mine.data_folder / "sessions")
    assert Conversation(Project(clone)).start() == ""


def test_a_folder_that_took_the_place_of_my_session_is_not_mine(tmp_path: Path) -> None:
    project = Project(tmp_path / "mine")
    session_id = project.begin()
    directory = project.store.session_directory(session_id)
    shutil.copytree(directory, tmp_path / "copy")
    directory.rename(tmp_path / "former")
    (tmp_path / "copy").rename(directory)
    assert Conversation(project).start() == ""


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_commit_that_changes_my_session_makes_it_foreign_until_adopted_anew(
    tmp_path: Path, version: str
) -> None:
    project = Project(tmp_path / "mine")
    session_id = project.begin(goal="mine")
    other = project.begin(goal="ended")
    project.open(other).complete()
    git(project.folder, "init", "-q")
    git(project.folder, "update-index", "--index-version", version)
    assert project.store.is_own(session_id)  # what Git does not track is not its to change
    git(project.folder, "add", "-A", "-f")
    assert not project.store.is_own(session_id)
    project.store.make_own(session_id)
    assert "mine" in Conversation(project).start()
    path = project.store.session_path(session_id)
    path.write_text(path.read_text().replace("mine", OVERRIDE))
    git(project.folder, "add", "-A", "-f")
    assert Conversation(project, "conversation-2").start() == ""


# ---------------------------------------------------------------------------------------- the tools


@pytest.mark.anyio
async def test_no_tool_resource_or_prompt_shows_a_foreign_session(tmp_path: Path) -> None:
    project, session_id = brought(tmp_path, copied)
    places = serving.McpPlaces(sessions=project.store.base_path, questions=tmp_path / "q")
    one = {"session_id": session_id}
    async with mcp.Client(serving.server_of(serving.McpServices.at(places))) as client:
        answers = [await client.call_tool("session_list", {})]
        for name in ("session_show", "session_brief", "session_pause", "session_resume"):
            found = await client.call_tool(name, one)
            assert found.is_error, name
            answers.append(found)
        for part in ("session.yaml", "briefing", "report"):
            with pytest.raises(mcp.MCPError, match="agentforge session adopt"):
                await client.read_resource(f"agentforge://sessions/{session_id}/{part}")
        with pytest.raises(mcp.MCPError, match="agentforge session adopt"):
            await client.get_prompt("take_up_session", one)
        assert not any("OVERRIDE" in answer.model_dump_json() for answer in answers)
        project.store.make_own(session_id)
        assert not (await client.call_tool("session_show", one)).is_error


# --------------------------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    "words",
    [
        ["resume"],
        ["session", "retry"],
        ["session", "brief"],
        ["apply"],
        ["session", "fork", "--at", "1"],
        ["session", "rewind", "--to", "1", "--yes"],
    ],
    ids="-".join,
)
def test_what_would_run_or_show_a_foreign_session_names_the_command_that_adopts_it(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    project, session_id = brought(tmp_path, copied)
    assert agentforge(project, *words, session_id) == 10
    captured = capsys.readouterr()
    assert f"agentforge session adopt {session_id}" in captured.err
    assert "OVERRIDE" not in captured.out + captured.err


def test_a_foreign_session_is_not_submitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, session_id = brought(tmp_path, copied)
    before = project.store.session_path(session_id).read_bytes()
    assert (
        agentforge(project, "fleet", "submit", "--session", session_id) == 2
    )  # files have no workers
    cli = Cli(base=project.store.base_path, output=Output(json=False, color=False))
    with (
        cli.opened,
        pytest.raises(SessionNotAdopted, match=f"agentforge session adopt {session_id}"),
    ):
        submit_existing(cli, session_id)
    captured = capsys.readouterr()
    assert "OVERRIDE" not in captured.out + captured.err
    assert project.store.session_path(session_id).read_bytes() == before


def test_looking_works_and_says_that_the_session_is_not_adopted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, session_id = brought(tmp_path, copied)
    for words in (["list"], ["show", session_id]):
        assert agentforge(project, *words) == 0
        assert "adopt" in capsys.readouterr().out


def test_nothing_is_adopted_without_a_yes(tmp_path: Path) -> None:
    project, session_id = brought(tmp_path, copied)
    assert agentforge(project, "session", "adopt", session_id) == 2
    assert not project.store.is_own(session_id)


def test_adopting_shows_what_the_session_is_and_would_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, session_id = brought(tmp_path, copied)
    workflow = project.store.session_directory(session_id) / "workflow.yaml"
    workflow.write_text("phases: [{name: red, script: \x1b[31mx.py}]\n")
    assert agentforge(project, "session", "adopt", session_id, "--yes") == 0
    shown = capsys.readouterr().out
    assert "x.py" in shown
    assert "SYSTEM OVERRIDE" in shown
    assert "\x1b[31mx.py" not in shown


def test_adopting_shows_the_command_that_would_be_run_and_hides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, session_id = brought(tmp_path, copied)
    agent = AgentChoice(
        kind="command", value=OVERRIDE, network=True, environment=("THE_TOKEN", "OTHER")
    )
    work = AgentWork(workflow=SPEC, name="plan", subject="plan", agent=agent)
    for name, data in work.attachments().items():
        (project.store.session_directory(session_id) / name).write_bytes(data)
    workflow = project.store.session_directory(session_id) / "workflow.yaml"
    workflow.write_text(f"# {'x' * 200}\n" * 500 + "phases: [{name: red, script: last.py}]\n")
    capsys.readouterr()
    assert agentforge(project, "session", "adopt", session_id, "--yes", "--json") == 0
    told = json.loads(capsys.readouterr().out)["adopted"][0]
    assert told["asks"] == (
        f"command {OVERRIDE}; it is given the network, the variable THE_TOKEN, the variable OTHER"
    )
    OwnSessions(project.store.base_path).remove([session_id])
    assert agentforge(project, "session", "adopt", session_id, "--yes") == 0
    shown = capsys.readouterr().out
    assert told["asks"] in shown.replace("\n", " ")
    assert "last.py" in shown


def test_a_copy_into_another_store_adopts_nothing_that_nobody_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, session_id = brought(tmp_path, copied)
    mine = project.begin(goal="mine")
    there = SessionStore(tmp_path / "there")
    words = ("fleet", "store", "copy", str(project.store.base_path), str(there.base_path))
    assert agentforge(project, *words) == 1
    assert f"agentforge session adopt {session_id}" in capsys.readouterr().out
    assert list(there.list_sessions()) == [mine]
    assert agentforge(project, *words, "--adopt") == 0
    assert there.is_own(session_id)


def test_after_a_move_all_sessions_of_a_project_are_adopted_at_once(tmp_path: Path) -> None:
    project = Project(tmp_path / "mine")
    first, second = project.begin(), project.begin()
    moved = Project(project.folder.rename(tmp_path / "moved"))
    assert not moved.store.is_own(first)
    assert agentforge(moved, "session", "adopt", "--all", "--yes") == 0
    assert moved.store.is_own(first)
    assert moved.store.is_own(second)


def test_a_session_that_changed_since_it_was_shown_is_not_adopted(tmp_path: Path) -> None:
    project, session_id = brought(tmp_path, copied)
    store = project.store
    for name in ("session.yaml", "workflow.yaml", "agent/answer.json"):
        shown = store.fingerprint(session_id)
        file = store.session_directory(session_id) / name
        file.parent.mkdir(exist_ok=True)
        with file.open("a") as changed:
            changed.write("# other\n")
        with pytest.raises(ChangedSinceShown, match=f"agentforge session adopt {session_id}"):
            store.make_own(session_id, shown=shown)
        assert not store.is_own(session_id)
    shown = store.fingerprint(session_id)
    shutil.copytree(directory := store.session_directory(session_id), tmp_path / "copy")
    directory.rename(tmp_path / "former")
    (tmp_path / "copy").rename(directory)
    with pytest.raises(ChangedSinceShown):
        store.make_own(session_id, shown=shown)
    store.make_own(session_id, shown=store.fingerprint(session_id))
    assert store.is_own(session_id)


def test_what_is_adopted_is_what_was_shown(tmp_path: Path) -> None:
    """A session that is exchanged while the person reads is another than they said yes to."""
    project, session_id = brought(tmp_path, copied)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "agentforge_sessions.entrypoints.cli"),
            *("--base", str(project.store.base_path), "session", "adopt", session_id),
        ],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=project.folder,
        start_new_session=True,
    )
    os.close(theirs)
    told = b""
    with ended_anyhow(process), os.fdopen(ours, "r+b", buffering=0) as terminal:
        with suppress(OSError):  # how the end of a terminal is read
            while piece := terminal.read(65_536):
                if b"yours?" in told + piece and b"yours?" not in told:
                    workflow = project.store.session_directory(session_id) / "workflow.yaml"
                    workflow.write_text("phases: [{name: red, script: evil.py}]\n")
                    terminal.write(b"y\n")
                told += piece
        assert process.wait(60) == 5, told
    assert b"has changed since it was shown" in b" ".join(told.split())
    assert not project.store.is_own(session_id)


def test_sessions_that_a_clone_brought_are_found_and_adopted_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project, session_id = brought(tmp_path, cloned)
    monkeypatch.chdir(project.folder)
    mine = SessionStore(sessions_directory(project.folder))
    assert run(["list"]) == 0
    assert "1 session came with this repository" in capsys.readouterr().err
    SessionManager(mine).create()
    assert list(project.store.list_sessions()) == [session_id]
    assert run(["show", session_id]) == 3
    assert run(["session", "adopt", session_id, "--yes"]) == 0
    captured = capsys.readouterr()
    assert "SYSTEM OVERRIDE" in captured.out  # it was shown
    assert f"agentforge --base {mine.where} list" in captured.err
    assert run(["show", session_id]) == 0


# ------------------------------------------------------------------------------------ the snapshots


def snapshots_that_name_a_program(tmp_path: Path, *, in_common: bool) -> tuple[Project, str, Path]:
    """Bring a session whose repository of snapshots has git run a program on each file."""
    theirs = Project(tmp_path / "theirs")
    manager = SessionManager(theirs.store, snapshots=open_snapshots(theirs.store))
    session_id = manager.create(initial_phase="red").session_id
    workspace = theirs.store.workspace_path(session_id)
    workspace.mkdir(exist_ok=True)
    (workspace / "a.txt").write_text("one")
    manager.checkpoint_session()
    project, mark = Project(copied(theirs.folder, tmp_path / "mine")), tmp_path / "PWNED"
    repository = project.store.session_directory(session_id) / "snapshots.git"
    if in_common:
        shutil.copytree(repository, tmp_path / "common")
        (repository / "commondir").write_text(str(tmp_path / "common"))
        repository = tmp_path / "common"
    (repository / "info" / "attributes").write_text("* filter=evil diff=evil\n")
    with (repository / "config").open("a") as file:
        file.write(
            f'[filter "evil"]\nclean = touch {mark}; cat\nsmudge = touch {mark}; cat\n'
            f'[diff "evil"]\ntextconv = touch {mark}; cat\n'
        )
    return project, session_id, mark


@pytest.mark.parametrize("in_common", [False, True])
def test_no_program_runs_that_a_sessions_snapshots_name(tmp_path: Path, in_common: bool) -> None:
    project, session_id, mark = snapshots_that_name_a_program(tmp_path, in_common=in_common)
    agentforge(project, "session", "export", session_id, str(tmp_path / "out"))
    agentforge(project, "diff", session_id)
    agentforge(project, "session", "adopt", session_id, "--yes")
    agentforge(project, "session", "fork", session_id, "--at", "1")
    agentforge(project, "session", "rewind", session_id, "--to", "1", "--yes")
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["objects/info/alternates", "objects/info/http-alternates", "objects/ab", "refs"]
)
def test_no_git_reads_what_a_foreign_sessions_snapshots_name_outside(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = Project(tmp_path / "theirs")
    manager = SessionManager(theirs.store, snapshots=open_snapshots(theirs.store))
    session_id = manager.create(initial_phase="red").session_id
    (workspace := theirs.store.workspace_path(session_id)).mkdir(exist_ok=True)
    (workspace / "a.txt").write_text("one")
    manager.checkpoint_session()
    project = Project(copied(theirs.folder, tmp_path / "mine"))
    named = project.store.session_directory(session_id) / "snapshots.git" / name
    (outside := tmp_path / "outside").mkdir()
    if name.startswith("objects/info"):
        named.write_text(f"{outside}\n")
    else:
        if named.exists():
            named.rename(outside / "former")
        named.symlink_to(outside)
    for words in (("session", "export", session_id, str(tmp_path / "out")), ("diff", session_id)):
        capsys.readouterr()
        assert agentforge(project, *words) == 6
        assert "is not as a repository of snapshots is made" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------------------------------- the marks


def test_a_session_that_is_made_here_is_own_until_it_is_deleted(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "sessions")
    session_id = SessionManager(store).create().session_id
    own = OwnSessions(store.base_path)
    assert store.is_own(session_id)
    assert os.path.lexists(own.folder / session_id)
    store.delete(session_id)
    assert not os.path.lexists(own.folder / session_id)


def test_a_session_works_where_no_mark_can_be_written(tmp_path: Path) -> None:
    in_the_way = tmp_path / "state"
    in_the_way.write_text("no directory")
    base = tmp_path / "sessions"
    environment = {"XDG_STATE_HOME": str(in_the_way)}
    own = OwnSessions(base, environment=environment)
    store = SessionStore(base, own=own)
    manager = SessionManager(store)
    session_id = manager.create().session_id
    manager.record_tokens(5)
    assert store.is_own(session_id)
    assert not SessionStore(base, own=OwnSessions(base, environment=environment)).is_own(session_id)
    with pytest.raises(Exception, match="state"):
        store.make_own(session_id)


def test_the_mark_of_an_older_directory_is_renewed(tmp_path: Path) -> None:
    own = OwnSessions(tmp_path, environment={"XDG_STATE_HOME": str(tmp_path / "state")})
    session_id = "session_20260101_000000_000000"
    (tmp_path / session_id).mkdir()
    own.add(session_id, 1)
    assert not own.has(session_id)
    own.adopt(session_id, os.stat(tmp_path / session_id).st_ino)
    assert own.has(session_id)
