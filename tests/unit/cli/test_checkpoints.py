from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.agents.hooks.work_tree import WorkTree
from agentforge_sessions.harness import PhaseResult, SessionManager
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from tests.support.repositories import new_checkout, plain_git, write_files
from tests.unit.cli.conftest import START, CommandLine


def workspace(agentforge: CommandLine, session_id: str) -> Path:
    return agentforge.store.workspace_path(session_id)


@pytest.fixture
def session_id(agentforge: CommandLine) -> str:
    """A session with two checkpoints; in the second, a.txt has a line that a terminal obeys."""
    manager = SessionManager(agentforge.store, snapshots=SessionSnapshots(agentforge.store))
    session_id = manager.create("work", "red").session_id
    workspace(agentforge, session_id).mkdir()
    for text in ("one\n", "two\n\x1b]0;title\x07\n"):
        write_files(workspace(agentforge, session_id), {"a.txt": text})
        manager.checkpoint_session()
    return session_id


def test_checkpoints_are_listed(agentforge: CommandLine, session_id: str) -> None:
    ended = agentforge("session", "checkpoints", session_id)
    assert (ended.code, len(ended.out.splitlines())) == (0, 3)
    assert ended.out.splitlines()[2].startswith("The snapshots take up ")
    assert ended.out.splitlines()[2].endswith(" on the disk.")
    document = agentforge("session", "checkpoints", session_id, "--json").document
    assert document["disk_bytes"] > 0
    first, second = document["checkpoints"]
    assert (first["name"], second["name"]) == ("red-1", "red-1")
    assert (first["number"], second["number"]) == (1, 2)
    assert ended.out.splitlines()[0].split()[1] == first["snapshot"][:12]


def test_a_session_without_checkpoints_says_so(agentforge: CommandLine) -> None:
    assert "has no checkpoint yet" in agentforge("session", "checkpoints", agentforge.new()).out


def test_a_difference_is_shown_and_no_terminal_acts_on_it(
    agentforge: CommandLine, session_id: str
) -> None:
    ended = agentforge("diff", session_id, "1", "2")
    assert ended.code == 0
    assert "-one\n" in ended.out
    assert "+two\n" in ended.out
    assert "\x1b]" not in ended.out
    stat = agentforge("diff", session_id, "--stat").out
    assert stat == "a.txt | 2 ++ (added)\n1 file changed, 2 lines added, 0 lines removed\n"
    document = agentforge("diff", session_id, "1", "2", "--json").document
    assert [one["path"] for one in document["files"]] == ["a.txt"]
    assert (document["insertions"], document["deletions"]) == (2, 1)
    assert "+two\n" in document["patch"]
    assert "patch" not in agentforge("diff", session_id, "1", "2", "--stat", "--json").document
    assert agentforge("diff", session_id, "2", "2").out == "Nothing changed.\n"


def test_a_session_is_taken_back_and_can_be_taken_forward(
    agentforge: CommandLine, session_id: str
) -> None:
    refused = agentforge("session", "rewind", session_id, "--to", "1")
    assert refused.code == 2
    ended = agentforge("session", "rewind", session_id, "--to", "1", "--yes")
    assert ended.code == 0
    assert (workspace(agentforge, session_id) / "a.txt").read_text() == "one\n"
    assert f"resume {session_id}" in ended.out
    agentforge("session", "rewind", session_id, "--to", "2", "--yes", "--json")
    assert (workspace(agentforge, session_id) / "a.txt").read_text().startswith("two")
    assert (
        "gone back behind"
        not in agentforge("session", "checkpoints", session_id).out.splitlines()[0]
    )


def test_an_unknown_checkpoint_changes_nothing(agentforge: CommandLine, session_id: str) -> None:
    ended = agentforge("session", "rewind", session_id, "--to", "9", "--yes")
    assert ended.code == 6
    assert "no checkpoint '9'" in ended.err
    assert agentforge("session", "fork", session_id, "--at", "x", "--json").code == 6


def test_what_has_ended_is_gone_on_with_by_a_fork(agentforge: CommandLine, session_id: str) -> None:
    assert agentforge("session", "abort", session_id, "--yes").code == 0
    refused = agentforge("session", "rewind", session_id, "--to", "1", "--yes")
    assert refused.code == 6
    assert "and a fork goes on from one of its checkpoints" in refused.err
    assert agentforge("session", "fork", session_id, "--at", "1").code == 0


def test_a_fork_begins_at_a_checkpoint(agentforge: CommandLine, session_id: str) -> None:
    document = agentforge(
        "session", "fork", session_id, "--at", "1", "--budget", "5", "--json"
    ).document
    assert document["parent_id"] == session_id
    forked = document["session_id"]
    assert (workspace(agentforge, forked) / "a.txt").read_text() == "one\n"
    session = agentforge.session(forked)
    assert session.token_budget.total_budget == 5


WORKFLOW = """\
schema_version: 1
name: touch
workflow_type: work
token_budget: 10
phases:
  - {name: only, script: work.py, tokens: 1}
"""


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    (tmp_path / "work.py").write_text("print(1)\n")
    (tmp_path / "workflow.yaml").write_text(WORKFLOW)
    return tmp_path / "workflow.yaml"


def test_a_workflow_runs_on_a_repository(
    agentforge: CommandLine, tmp_path: Path, workflow: Path
) -> None:
    work = new_checkout(tmp_path / "work", {"a.txt": "base\n"})
    plain_git(work, "tag", "v1")
    write_files(work, {"a.txt": "uncommitted\n"})
    ended = agentforge("run", workflow, "--repo", work, "--base", "v1", "--json")
    assert (ended.code, ended.err) == (0, "")
    begun = ended.document["session_id"]
    assert (workspace(agentforge, begun) / "a.txt").read_text() == "base\n"
    assert [
        one["action"]
        for one in agentforge("session", "checkpoints", begun, "--json").document["checkpoints"]
    ] == ["workspace_prepared", "phase_succeeded"]
    assert begun in plain_git(work, "for-each-ref").stdout.decode()
    agentforge.later(days=40)
    assert agentforge("prune", "--kind", "agent", "--older-than", "0s", "--yes").code == 0
    assert begun not in plain_git(work, "for-each-ref").stdout.decode()


def test_a_phase_of_scripts_is_repeated_with_the_files_that_it_began_with(
    agentforge: CommandLine, tmp_path: Path, workflow: Path
) -> None:
    phases = "  - {name: next, script: work.py, tokens: 1}\n"
    workflow.write_text(WORKFLOW + phases)
    seen = []

    def write(session_id: str) -> None:
        file = workspace(agentforge, session_id) / "log"
        file.parent.mkdir(exist_ok=True)
        seen.append(file.read_text() if file.exists() else "")
        file.write_text(f"{seen[-1]}x")

    agentforge.executor.before = write
    failed = PhaseResult(success=False, exit_code=1)
    agentforge.executor.results = [agentforge.executor.default, failed]
    begun = agentforge("run", workflow, "--json").document["session_id"]
    done = agentforge("session", "retry", begun, "--from", "next", "--reason", "better", "--json")
    assert done.document["state"] == "completed"
    assert seen == ["", "x", "x"]
    names = [
        one["name"]
        for one in agentforge("session", "checkpoints", begun, "--json").document["checkpoints"]
    ]
    assert names == ["only-1", "next-1", "next-2"]
    assert "+xx" in agentforge("diff", begun, "only-1", "next-1").out
    assert agentforge("diff", begun, "next-1", "next-2").out == "Nothing changed.\n"


@pytest.mark.parametrize(
    ("options", "code"),
    [(["--repo", "."], 6), (["--base", "v1"], 2), (["--with-uncommitted"], 2)],
)
def test_a_repository_that_is_none_begins_no_session(
    agentforge: CommandLine,
    tmp_path: Path,
    options: list[str],
    code: int,
    workflow: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert agentforge("run", workflow, *options).code == code
    assert agentforge.store.list_sessions() == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_checkout(tmp_path / "own", {"a.txt": "base\n", "b.txt": "base\n"})


def in_a_folder(agentforge: CommandLine, folder: Path) -> str:
    """Return a session whose agent changed a.txt in the person's own folder in two turns."""
    session_id = agentforge.new()
    snapshots = SessionSnapshots(agentforge.store)
    manager = SessionManager(agentforge.store, snapshots=snapshots, clock=lambda: START)
    manager.load(session_id)
    tree = WorkTree(folder, agentforge.store.session_directory(session_id))
    tree.store()
    manager.checkpoint_session()
    for text in ("one\n", "two\n"):
        write_files(folder, {"a.txt": text})
        manager.checkpoint_session()
    return session_id


def test_the_files_of_a_persons_own_folder_go_back_to_the_last_other_ones(
    agentforge: CommandLine, folder: Path
) -> None:
    session_id = in_a_folder(agentforge, folder)
    assert "+two\n" in agentforge("diff", session_id).out
    write_files(folder, {"b.txt": "mine\n"})
    ended = agentforge("session", "rewind", session_id, "--to", "1", "--yes")
    assert (ended.code, (folder / "a.txt").read_text()) == (0, "base\n")
    assert ended.err == "Changed since the last turn, and stored as a checkpoint first: b.txt\n"
    undo = f"agentforge --base {agentforge.store.base_path} session rewind {session_id} --to 4"
    assert f"To undo it: {undo}" in ended.out
    assert "resume" not in ended.out
    agentforge("session", "rewind", session_id, "--to", "4", "--yes")
    assert (folder / "b.txt").read_text() == "mine\n"


def test_nothing_goes_back_without_a_yes(agentforge: CommandLine, folder: Path) -> None:
    session_id = in_a_folder(agentforge, folder)
    ended = agentforge("session", "rewind", session_id, "--to", "1")
    assert ended.code == 2
    assert f"Bring 1 file of {folder} back to checkpoint 1" in ended.err
    assert (folder / "a.txt").read_text() == "two\n"


def test_without_a_checkpoint_the_last_turn_is_undone(
    agentforge: CommandLine, folder: Path
) -> None:
    session_id = in_a_folder(agentforge, folder)
    document = agentforge("session", "rewind", session_id, "--yes", "--json").document
    assert (folder / "a.txt").read_text() == "one\n"
    assert (document["checkpoint"]["number"], document["left"]) == (2, 3)
    assert document["files"] == ["a.txt"]
    agentforge("session", "rewind", session_id, "--yes")
    ended = agentforge("session", "rewind", session_id, "--yes")
    assert "no checkpoint has other files" in ended.err


def test_an_agents_session_is_forked_into_a_work_tree_on_a_branch_of_its_own(
    agentforge: CommandLine, folder: Path
) -> None:
    session_id = in_a_folder(agentforge, folder)
    plain_git(folder, "config", "core.hooksPath", folder / "hooks")
    write_files(folder, {"hooks/post-checkout": f"#!/bin/sh\ntouch {folder}/ran\n"})
    (folder / "hooks" / "post-checkout").chmod(0o755)
    assert "name a new branch" in agentforge("session", "fork", session_id, "--at", "2").err
    document = agentforge(
        *("session", "fork", session_id, "--at", "2", "--branch", "try/2", "--json")
    ).document
    other = folder.with_name("own-try-2")
    assert document["folder"] == str(other)
    assert (other / "a.txt").read_text() == "one\n"
    assert (folder / "a.txt").read_text() == "two\n"
    status = plain_git(other, "status", "--short", "--branch").stdout.decode()
    assert status == "## try/2\n M a.txt\n"
    assert not (folder / "ran").exists()
    forked = agentforge.session(document["session_id"])
    assert forked.tags == ("branch:try/2",)
    assert not workspace(agentforge, forked.session_id).exists()
    assert agentforge("session", "rewind", forked.session_id, "--to", "1", "--yes").code == 0
    assert (other / "a.txt").read_text() == "base\n"
    again = agentforge("session", "fork", session_id, "--at", "2", "--branch", "try/2")
    assert again.code != 0
    assert "try/2" in again.err


def test_files_of_one_branch_never_replace_those_of_another(
    agentforge: CommandLine, folder: Path
) -> None:
    session_id = in_a_folder(agentforge, folder)
    name = plain_git(folder, "symbolic-ref", "--short", "HEAD").stdout.decode().strip()
    agentforge("session", "set", session_id, "--tag", f"branch:{name}")
    plain_git(folder, "checkout", "-q", "-b", "other")
    ended = agentforge("session", "rewind", session_id, "--to", "1", "--yes")
    assert ended.code == 6
    assert f"of branch:{name}, and {folder} has branch:other checked out" in ended.err
    assert (folder / "a.txt").read_text() == "two\n"
    plain_git(folder, "checkout", "-q", name)
    assert agentforge("session", "rewind", session_id, "--to", "1", "--yes").code == 0


def test_the_snapshots_of_a_folder_are_removed_with_their_session(
    agentforge: CommandLine, folder: Path
) -> None:
    session_id = in_a_folder(agentforge, folder)
    directory = agentforge.store.session_directory(session_id)
    assert (directory / "snapshots.git").is_dir()
    agentforge("session", "complete", session_id)
    agentforge.later(days=40)
    assert agentforge("prune", "--kind", "agent", "--yes").code == 0
    assert not directory.exists()
    assert (folder / "a.txt").read_text() == "two\n"
