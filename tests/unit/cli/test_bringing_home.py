"""`agentforge apply` and `agentforge session export`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.harness import SessionManager
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from tests.support.applying import files_of, lay, new_site, seen
from tests.support.mortal_filesystem import Killed, MortalFileSystem
from tests.support.repositories import commit_all, new_checkout, plain_git
from tests.unit.cli.conftest import CommandLine


@pytest.fixture
def unchanged(agentforge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A session on a checkout, which changed nothing."""
    monkeypatch.setenv("HOME", str(tmp_path))
    top = new_checkout(tmp_path / "checkout", {"a.txt": "1\n", "b.txt": "b\n"})
    keeper = SessionSnapshots(agentforge.store)
    attachments = keeper.attachments(top, "HEAD", with_uncommitted=False)
    manager = SessionManager(agentforge.store, snapshots=keeper)
    return manager.create("work", "one", attachments=attachments).session_id


@pytest.fixture
def session_id(agentforge: CommandLine, unchanged: str) -> str:
    """A session that changed one file of a checkout and made one."""
    lay(agentforge.store.workspace_path(unchanged), {"a.txt": "one\n", "new.txt": "n\n"})
    return unchanged


def test_a_result_is_shown_applied_and_said_to_be_there(
    agentforge: CommandLine, session_id: str, tmp_path: Path
) -> None:
    top = tmp_path / "checkout"
    shown = agentforge("apply", session_id, "--dry-run")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == f"M a.txt\nA new.txt\nNothing was done; 2 paths would change in {top}.\n"

    applied = agentforge("apply", session_id)
    assert applied.out.endswith(f"Applied 2 paths to {top}, staged and not committed.\n")
    assert files_of(top) == {"a.txt": b"one\n", "b.txt": b"b\n", "new.txt": b"n\n"}
    assert agentforge("apply", session_id).out == f"Applied already: {top} has all of it.\n"
    document = agentforge("apply", session_id, "--json").document
    assert document["nothing_to_do"] is True
    assert document["already"] == ["a.txt", "new.txt"]


def test_a_glob_that_no_change_matches_is_refused_with_what_there_is(
    agentforge: CommandLine, session_id: str, tmp_path: Path
) -> None:
    before = seen(tmp_path / "checkout")
    refused = agentforge("apply", session_id, "--files", "src/*")
    assert refused.code == 2
    assert "no changed path matches, so nothing was done. Changed: a.txt, new.txt" in refused.err
    assert seen(tmp_path / "checkout") == before
    assert agentforge("apply", session_id, "--files", "new*").code == 0
    assert agentforge("apply", session_id, "--files", "new*").code == 0


def test_a_session_that_changed_nothing_has_nothing_to_apply(
    agentforge: CommandLine, unchanged: str, tmp_path: Path
) -> None:
    assert agentforge("apply", unchanged).out == (
        f"There is nothing to apply: {tmp_path}/checkout has all that the session changed.\n"
    )


def test_what_is_in_the_way_is_named_and_stays(
    agentforge: CommandLine, session_id: str, tmp_path: Path
) -> None:
    top = tmp_path / "checkout"
    lay(top, {"a.txt": "mine\n", "new.txt": "mine\n"})
    before = seen(top)
    refused = agentforge("apply", session_id)
    assert refused.code == 6
    assert "a.txt: it has changes" in refused.err
    assert "new.txt: an untracked file" in refused.err
    error = agentforge("--json", "apply", session_id).document["error"]
    assert len(error["blocked"]) == 2
    assert seen(top) == before


def test_a_conflict_is_refused_with_both_ways_out_and_each_leads_out(
    agentforge: CommandLine, session_id: str, tmp_path: Path
) -> None:
    top = tmp_path / "checkout"
    lay(top, {"a.txt": "mine\n"})
    commit_all(top, "the same line")
    for setting in ("user.name", "user.email"):
        plain_git(top, "config", setting, "me@example.org")
    refused = agentforge("apply", session_id)
    assert refused.code == 6
    said = " ".join(refused.err.split())
    assert "the same lines of a.txt" in said
    assert "--merge writes both sides" in said
    assert "--branch NAME commits the result" in said

    shown = agentforge("apply", session_id, "--merge", "--dry-run")
    assert shown.out.splitlines() == [
        *("A new.txt", "C a.txt"),
        f"Nothing was done; 1 path and 1 in conflict would change in {top}.",
    ]
    branched = agentforge("apply", session_id, "--branch", "agents/one")
    assert "Committed 2 paths on branch agents/one" in branched.out
    assert plain_git(top, "status", "--porcelain").stdout == b""

    merged = agentforge("apply", session_id, "--merge")
    assert merged.code == 1
    assert merged.out.endswith(
        f"Applied 1 path and 1 in conflict to {top}, staged and not committed. Resolve the "
        "conflicts and `git add` them.\n"
    )
    text = f"<<<<<<< yours\nmine\n=======\none\n>>>>>>> {session_id}\n"
    assert (top / "a.txt").read_text() == text
    assert plain_git(top, "status", "--porcelain").stdout == b"UU a.txt\nA  new.txt\n"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["ID", "--continue"],
        ["--continue", "--abort"],
        ["ID", "--hooks"],
        ["ID", "--branch", "x", "--commit"],
        ["ID", "--merge", "--commit"],
        ["ID", "--merge", "--branch", "x"],
        ["--continue", "--merge"],
        ["ID", "-m", "x"],
        ["--abort", "--files", "*.py"],
        ["--continue", "--commit"],
    ],
)
def test_options_that_do_not_go_together_are_refused(
    agentforge: CommandLine, words: list[str]
) -> None:
    assert agentforge("apply", *words).code == 2


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """A checkout in which an apply was killed when all but the index was in its place."""
    files, change = {"a.txt": "1\n"}, {"a.txt": "one\n", "new.txt": "n\n"}
    whole = new_site(tmp_path / "whole", files, change)
    fs = MortalFileSystem()
    evolve(whole, services=evolve(whole.services, fs=fs)).apply()
    site = new_site(tmp_path / "site", files, change)
    with pytest.raises(Killed):
        evolve(site, services=evolve(site.services, fs=MortalFileSystem(fs.last_step))).apply()
    return site.top


def test_a_dry_run_finishes_no_apply_that_was_interrupted(
    agentforge: CommandLine, interrupted: Path
) -> None:
    before = seen(interrupted)
    refused = agentforge("apply", "--continue", "--dry-run", "--repo", str(interrupted))
    assert refused.code == 2
    assert "--dry-run" in refused.err
    assert seen(interrupted) == before
    assert agentforge("apply", "--continue", "--repo", str(interrupted)).code == 0


def test_what_was_changed_meanwhile_is_named_with_what_was_kept_of_it(
    agentforge: CommandLine, interrupted: Path
) -> None:
    """Git advises to remove its lock and go on; a person who did finds the way back."""
    git_dir = interrupted / ".git"
    (git_dir / "index.lock").unlink()
    lay(interrupted, {"mine": "m\n", "a.txt": "mine\n"})
    plain_git(interrupted, "add", "mine")
    refused = agentforge("apply", "--abort", "--repo", str(interrupted))
    assert refused.code == 6
    said = " ".join(refused.err.split())
    assert "a.txt: it is neither as it was nor as it should become" in said
    assert "(before/000000 and after/000000)" in said
    assert "the index: it is neither as it was nor as it should become" in said
    assert "(index.before and index.after)" in said
    kept = git_dir / "agentforge-apply"
    shutil.copy(kept / "before/000000", interrupted / "a.txt")
    shutil.copy(kept / "index.before", git_dir / "index")
    assert agentforge("apply", "--abort", "--repo", str(interrupted)).code == 0
    assert files_of(interrupted) == {"a.txt": b"1\n", "mine": b"m\n"}
    assert not (git_dir / "index.lock").exists()


def test_a_lock_that_is_held_for_an_interrupted_apply_is_told(
    agentforge: CommandLine, session_id: str, interrupted: Path
) -> None:
    refused = agentforge("apply", session_id, "--repo", str(interrupted))
    assert refused.code == 6
    assert "index.lock is held" in " ".join(refused.err.split())


def test_what_stayed_out_is_named(agentforge: CommandLine, session_id: str, tmp_path: Path) -> None:
    (tmp_path / "checkout/.git/info").mkdir(exist_ok=True)
    (tmp_path / "checkout/.git/info/exclude").write_text("new.txt\n")
    shown = agentforge("apply", session_id)
    assert "1 new file stayed out, since your ignore rules name it: new.txt" in shown.out


def test_what_was_staged_by_a_first_apply_is_said_to_be_committed(
    agentforge: CommandLine, session_id: str, tmp_path: Path
) -> None:
    top = tmp_path / "checkout"
    for setting in ("user.name", "user.email"):
        plain_git(top, "config", setting, "me@example.org")
    agentforge("apply", session_id)
    shown = agentforge("apply", session_id, "--commit")
    assert shown.out.startswith("Committed what was staged before in ")


def test_files_are_exported_to_a_new_folder(
    agentforge: CommandLine, session_id: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    assert agentforge("session", "export", session_id, str(folder)).code == 0
    assert (folder / "new.txt").read_text() == "n\n"
    assert agentforge("session", "export", session_id, str(folder)).code == 8


def test_what_the_checkout_does_not_allow_has_one_exit_code(
    agentforge: CommandLine, session_id: str, tmp_path: Path
) -> None:
    top = tmp_path / "checkout"
    lay(top, {"a.txt": "mine\n"})
    plain_git(top, "commit", "-a", "-m", "the same line")
    before = seen(top)
    conflict = agentforge("apply", session_id)
    assert (conflict.code, "changed the same lines" in conflict.err) == (6, True)
    nothing_open = agentforge("apply", "--abort", "--repo", str(top))
    assert (nothing_open.code, "no apply was interrupted" in nothing_open.err) == (6, True)
    (tmp_path / "no-repository" / ".git").mkdir(parents=True)
    no_repository = agentforge("apply", session_id, "--repo", str(tmp_path / "no-repository"))
    assert (no_repository.code, "is no checkout" in no_repository.err) == (6, True)
    assert seen(top) == before
