"""The files of an agent's session: what is stored when, and what stays out."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from hashlib import sha1
from itertools import islice
from pathlib import Path

import pytest

from agentforge_sessions.agents.hooks.handler import handle
from agentforge_sessions.agents.hooks.session_place import SessionPlace
from agentforge_sessions.agents.hooks.work_tree import changed_files, noted_work_tree
from agentforge_sessions.fleet import stores
from agentforge_sessions.harness import SessionManager
from agentforge_sessions.harness.services.session_checkpoints import AgentAtWork
from agentforge_sessions.harness.views.checkpoints import checkpoints
from agentforge_sessions.repository.snapshots.snapshot_restore import RestoreFailed
from agentforge_sessions.wiring.bootstrap import open_snapshots
from tests.support.agent_conversations import Conversation, Project
from tests.support.person import persons_folders
from tests.support.promptness import wait_until


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project")
    subprocess.run(["git", "init", "-q", made.folder], check=True)
    return made


@pytest.fixture
def talk(project: Project) -> Conversation:
    return Conversation(project)


@pytest.fixture
def begun(project: Project, talk: Conversation) -> str:
    """A session, in which the conversation has begun; its id."""
    session_id = project.begin()
    talk.start()
    return session_id


def stored(project: Project, session_id: str, at: int = -1) -> dict[str, bytes]:
    """Return the files of a checkpoint of a session, by path."""
    snapshot = checkpoints(project.session(session_id))[at].snapshot
    assert snapshot is not None
    snapshots = open_snapshots(project.store).of(session_id)
    folder = project.folder.parent / f"export-{len(os.listdir(project.folder.parent))}"
    snapshots.export(snapshot, folder)
    return {
        os.path.relpath(os.path.join(above, name), folder): Path(above, name).read_bytes()
        for above, _, names in os.walk(folder)
        for name in names
    }


def opened(project: Project, session_id: str) -> SessionManager:
    """Open the session with its snapshots."""
    snapshots = open_snapshots(project.store)
    manager = SessionManager(project.store, snapshots=snapshots, clock=project.clock)
    manager.load(session_id)
    return manager


def turn(talk: Conversation, path: str, text: str) -> None:
    """Have the agent write a file in a turn."""
    talk.prompt(f"Write {path}")
    file = talk.project.folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    talk.hook("Stop", last_assistant_message="Written.")


def test_a_turn_has_its_files_before_and_after_in_the_same_saves(
    project: Project, talk: Conversation, begun: str
) -> None:
    (project.folder / "a.txt").write_text("before\n")
    turn(talk, "a.txt", "after\n")
    assert project.actions(begun)[-4:] == [
        *("checkpoint", "agent_prompted", "agent_turn_ended", "checkpoint"),
    ]
    assert stored(project, begun, 0) == {"a.txt": b"before\n"}
    assert stored(project, begun, 1) == {"a.txt": b"after\n"}
    assert noted_work_tree(project.store.session_directory(begun)) == project.folder


def test_unchanged_files_make_no_checkpoint(
    project: Project, talk: Conversation, begun: str
) -> None:
    turn(talk, "a.txt", "a\n")
    count = len(checkpoints(project.session(begun)))
    for _ in range(3):
        talk.prompt("Explain it")
        talk.hook("Stop", last_assistant_message="It is a.")
    assert len(checkpoints(project.session(begun))) == count


def test_what_git_ignores_and_what_looks_secret_stays_out(
    project: Project, talk: Conversation, begun: str
) -> None:
    folder = project.folder
    for path in ("dist/out.js", "node_modules/x/i.js", "sub/skip.log", "sub/keep.log", "src/a.py"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    (folder / ".env").write_text("TOKEN=1")
    (folder / "id_rsa").write_text("key")
    (folder / ".ssh").mkdir()
    (folder / ".ssh" / "config").write_text("Host")
    (folder / ".gitignore").write_text("dist/\n*.log\n")
    (folder / "sub" / ".gitignore").write_text("!keep.log\n")
    subprocess.run(["git", "init", "-q", folder / "other"], check=True)
    (folder / "other" / "file").write_text("of another repository")
    talk.prompt()
    assert set(stored(project, begun)) == {
        *(".gitignore", "src/a.py", "sub/.gitignore", "sub/keep.log"),
    }
    raw = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch"],
        cwd=project.store.session_directory(begun) / "snapshots.git",
        check=True,
        capture_output=True,
    ).stdout
    assert b"TOKEN" not in raw


@pytest.mark.parametrize("where", ["", "deep"])
def test_a_changed_rule_applies_below_to_folders_that_did_not_change(
    project: Project, talk: Conversation, begun: str, where: str
) -> None:
    folder = project.folder
    below = folder / "deep" / "er"
    below.mkdir(parents=True)
    (below / "x.log").write_text("log")
    rules = folder / where / ".gitignore"
    rules.write_text("*.tmp\n")
    made = below.stat().st_ctime_ns
    wait_until(lambda: time.time_ns() - made > 200_000_000)  # else it is listed again anyway
    talk.prompt()
    assert "deep/er/x.log" in stored(project, begun)
    rules.write_text("*.tmp\n*.log\n")
    talk.prompt()
    assert "deep/er/x.log" not in stored(project, begun)
    rules.unlink()
    talk.prompt()
    assert "deep/er/x.log" in stored(project, begun)


def test_what_can_not_be_stored_is_left_out_of_a_work_tree(
    project: Project, talk: Conversation, begun: str
) -> None:
    folder = project.folder
    os.mkfifo(folder / "pipe")
    with (folder / "sparse").open("wb") as file:
        file.truncate(2 << 30)
    (folder / "out").symlink_to("/etc")
    (folder / "odd\nname").write_text("odd")
    (folder / "a.txt").write_text("a")
    talk.prompt()
    assert set(stored(project, begun)) == {"odd\nname", "a.txt"}  # and the link, to a folder
    with (folder / "sparse").open("wb") as file:
        file.write(b"small now")
    talk.prompt()
    assert stored(project, begun)["sparse"] == b"small now"


def test_no_program_of_the_repository_runs(
    project: Project, talk: Conversation, begun: str
) -> None:
    folder, mark = project.folder, project.folder.parent / "ran"
    script = folder.parent / "script.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "diff.x.textconv"):
        subprocess.run(["git", "-C", folder, "config", key, script], check=True)
    for hook in ("post-checkout", "post-index-change", "pre-commit", "reference-transaction"):
        (folder / ".git" / "hooks").mkdir(exist_ok=True)
        (folder / ".git" / "hooks" / hook).symlink_to(script)
    (folder / ".gitattributes").write_text("* filter=x diff=x text eol=crlf\n")
    for number in range(600):  # more than are stored without git
        (folder / f"{number}.txt").write_bytes(b"%d\r\n" % number)
    before = sorted(os.walk(folder / ".git"))
    turn(talk, "a.txt", "a\r\n")
    assert stored(project, begun)["a.txt"] == b"a\r\n"
    assert stored(project, begun)["5.txt"] == b"5\r\n"
    assert not mark.exists()
    assert sorted(os.walk(folder / ".git")) == before


def test_why_nothing_is_stored_is_recorded_once(
    project: Project, talk: Conversation, begun: str
) -> None:
    os.mkfifo(project.folder / ".gitattributes")
    for _ in range(3):
        turn(talk, "a.txt", "a")
    [found] = checkpoints(project.session(begun))
    assert found.snapshot is None
    assert ".gitattributes: it is a named pipe" in (found.unkept or "")
    details = [one.details for one in project.session(begun).history if one.action == "checkpoint"]
    assert details == [found.unkept]


class Started:
    """Runs what the hook starts, when it is asked to."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], dict[str, str]]] = []

    def __call__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self.calls.append((list(words), dict(environment)))

    def run(self) -> None:
        for words, environment in self.calls:
            assert words[0] == sys.executable
            subprocess.run(words, env={**os.environ, **environment}, check=True, timeout=120)
        self.calls.clear()


def test_more_than_a_prompt_should_wait_for_is_stored_by_a_process_of_its_own(
    project: Project, talk: Conversation, begun: str
) -> None:
    for number in range(1_200):
        (project.folder / f"{number}.txt").write_text(str(number))
    started = Started()
    payload = talk.payload("UserPromptSubmit", prompt="Do it")
    handle(
        *("claude-code", payload, persons_folders()),
        stores=stores,
        clock=project.clock,
        start=started,
    )
    assert checkpoints(project.session(begun)) == []
    started.run()
    [found] = checkpoints(project.session(begun))
    assert found.snapshot is not None
    talk.prompt()  # nothing new: the tree is known, however large it is
    turn(talk, "7.txt", "changed")
    assert stored(project, begun)["7.txt"] == b"changed"


def test_many_loose_objects_are_packed_by_a_process_of_its_own(
    project: Project, talk: Conversation, begun: str
) -> None:
    begins = (f"{number}\n".encode() for number in range(1 << 20))
    counted = (one for one in begins if sha1(b"blob %d\0%b" % (len(one), one)).digest()[0] == 0x17)
    for number, content in enumerate(islice(counted, 16)):  # the number is estimated by these
        (project.folder / str(number)).write_bytes(content)
    started = Started()
    handle(
        *("claude-code", talk.payload("UserPromptSubmit", prompt="Do it"), persons_folders()),
        stores=stores,
        clock=project.clock,
        start=started,
    )
    repository = open_snapshots(project.store).of(begun).repository
    assert (len(started.calls), repository.loose_objects()) == (1, 16 * 256)
    started.run()
    assert repository.loose_objects() == 0
    talk.hook("Stop", last_assistant_message="Done.")
    assert len(stored(project, begun)) == 16


def test_the_changed_files_are_counted_from_the_first_snapshot_to_the_last(
    project: Project, talk: Conversation, begun: str
) -> None:
    place = SessionPlace(project.store.base_path, None, stores)
    assert changed_files(place.sessions, begun) == ""
    (project.folder / "a.txt").write_text("1\n2\n")
    turn(talk, "b/new.txt", "x\n")
    turn(talk, "a.txt", "1\nzwei\n")
    assert changed_files(place.sessions, begun).splitlines() == [
        *("a.txt | modified, +1 -1", "b/new.txt | added, +1 -0"),
    ]
    for number in range(50):
        (project.folder / f"n{number}").write_text("x")
    talk.prompt()
    lines = changed_files(place.sessions, begun).splitlines()
    assert len(lines) == 40
    assert lines[-1] == "and 13 more files"


def test_outside_of_a_repository_nothing_is_stored(tmp_path: Path) -> None:
    project = Project(tmp_path / "plain")
    session_id = project.begin()
    talk = Conversation(project)
    talk.start()
    turn(talk, "a.txt", "a")
    assert checkpoints(project.session(session_id)) == []


def test_a_session_and_its_files_go_back_and_forward_again(
    project: Project, talk: Conversation, begun: str
) -> None:
    folder = project.folder
    (folder / "a.sh").write_text("one\n")
    (folder / "a.sh").chmod(0o750)
    (folder / "old").write_text("old")
    (folder / "link").symlink_to("a.sh")
    (folder / ".gitignore").write_text("built\n")
    (folder / "built").write_text("as it is")
    talk.prompt()
    (folder / "old").unlink()
    (folder / "link").unlink()
    (folder / "link").mkdir()
    (folder / "link" / "in").write_text("x")
    (folder / "new" / "er").mkdir(parents=True)
    (folder / "new" / "er" / "n").write_text("n")
    (folder / "a.sh").write_text("two\n")
    (folder / "a.sh").chmod(0o644)
    talk.hook("Stop", last_assistant_message="Broken.")
    manager = opened(project, begun)
    manager.rewind(1)
    assert (folder / "a.sh").read_text() == "one\n"
    assert (folder / "a.sh").stat().st_mode & 0o777 == 0o750
    assert os.readlink(folder / "link") == "a.sh"
    assert (folder / "built").read_text() == "as it is"
    assert sorted(os.listdir(folder)) == [
        *(".agentforge", ".git", ".gitignore", "a.sh", "built", "link", "old"),
    ]
    manager.rewind(2)
    assert (folder / "a.sh").read_text() == "two\n"
    assert (folder / "link" / "in").read_text() == "x"
    assert (folder / "new" / "er" / "n").read_text() == "n"
    assert not (folder / "old").exists()


def test_what_was_changed_outside_of_a_turn_is_a_checkpoint_before_it_is_replaced(
    project: Project, talk: Conversation, begun: str
) -> None:
    (project.folder / "a.txt").write_text("one\n")
    turn(talk, "a.txt", "two\n")
    (project.folder / "a.txt").write_text("mine\n")
    manager = opened(project, begun)
    manager.rewind(1)
    assert (project.folder / "a.txt").read_text() == "one\n"
    manager.rewind(3)
    assert (project.folder / "a.txt").read_text() == "mine\n"


@pytest.mark.parametrize("kind", ["file", "link", "pipe", "folder"])
def test_what_no_snapshot_has_is_never_replaced(
    project: Project, talk: Conversation, begun: str, kind: str
) -> None:
    folder = project.folder
    (folder / "x").write_text("of the project")
    (folder / "y").write_text("one")
    talk.prompt()
    (folder / "x").unlink()
    (folder / "y").write_text("two")
    (folder / ".gitignore").write_text("x\n")
    talk.hook("Stop", last_assistant_message="Done.")
    match kind:
        case "file":
            (folder / "x").write_text("mine")
        case "link":
            (folder / "x").symlink_to(folder.parent)
        case "pipe":
            os.mkfifo(folder / "x")
        case _:
            (folder / "x").mkdir()
            (folder / "x" / "mine").write_text("mine")
    before = sorted(os.walk(folder))
    with pytest.raises(RestoreFailed, match=r"no snapshot has .* is at x; move it away"):
        opened(project, begun).rewind(1)
    assert (folder / "y").read_text() == "two"
    assert sorted(os.walk(folder)) == before


def test_a_folder_swapped_for_a_link_leads_nowhere(
    project: Project, talk: Conversation, begun: str
) -> None:
    folder, outside = project.folder, project.folder.parent / "outside"
    outside.mkdir()
    (folder / "d").mkdir()
    (folder / "d" / "f").write_text("one")
    talk.prompt()
    (folder / "d" / "f").unlink()
    (folder / "d").rmdir()
    (folder / "d").symlink_to(outside)
    talk.hook("Stop", last_assistant_message="Swapped.")
    opened(project, begun).rewind(1)
    assert (folder / "d" / "f").read_text() == "one"
    assert os.listdir(outside) == []


def test_no_files_are_replaced_while_an_agent_is_at_work(
    project: Project, talk: Conversation, begun: str
) -> None:
    (project.folder / "a.txt").write_text("one\n")
    turn(talk, "a.txt", "two\n")
    talk.prompt("Go on")
    with pytest.raises(AgentAtWork, match="claude-code has worked on a prompt"):
        opened(project, begun).rewind(1)
    assert (project.folder / "a.txt").read_text() == "two\n"
    opened(project, begun).rewind(1, in_turn=True)
    assert (project.folder / "a.txt").read_text() == "one\n"
    talk.start("resume")
    opened(project, begun).rewind(2)
    assert (project.folder / "a.txt").read_text() == "two\n"


STORE = (
    "import pathlib, sys; from agentforge_sessions.agents.hooks.work_tree import WorkTree; "
    "print(WorkTree(*map(pathlib.Path, sys.argv[1:])).store())"
)


def test_agents_that_end_their_turns_together_store_the_files_once(
    project: Project, begun: str
) -> None:
    (project.folder / "a.txt").write_text("a")
    directory = project.store.session_directory(begun)
    words = [sys.executable, "-c", STORE, str(project.folder), str(directory)]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    found = {one.communicate(timeout=120)[0] for one in started}
    assert len(found) == 1
    assert [one.id for one in open_snapshots(project.store).of(begun).list()] == [
        found.pop().strip()
    ]
