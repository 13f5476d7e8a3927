"""Where a project keeps its sessions."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.base.data_folder import (
    configuration_folder,
    data_folder_above,
    find_data_folder,
    is_repository,
    project_folder,
    read_plain,
    state_folder,
)
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.store.sessions_place import (
    OwnSessions,
    brought_with,
    sessions_directory,
)
from agentforge_sessions.questions import load_config
from tests.support.descriptors import held_below
from tests.support.trusting import PERSON, trusted


def begin_repository(root: Path) -> None:
    (root / ".git").mkdir(parents=True, exist_ok=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def project(tmp_path: Path) -> tuple[Path, Path]:
    """Return a project with a data folder, and a folder deep in it."""
    deep = tmp_path / "project" / "src" / "package"
    deep.mkdir(parents=True)
    (tmp_path / "project" / ".agentforge").mkdir()
    return tmp_path / "project", deep


def test_the_nearest_data_folder_above_is_found(tmp_path: Path) -> None:
    root, deep = project(tmp_path)
    assert find_data_folder(deep) == root / ".agentforge"
    assert data_folder_above(deep) == root / ".agentforge"
    (deep.parent / ".agentforge").mkdir()
    assert find_data_folder(deep) == deep.parent / ".agentforge"


def test_a_data_folder_here_is_the_default_place(tmp_path: Path) -> None:
    root, _ = project(tmp_path)
    assert find_data_folder(root) == root / ".agentforge"
    assert data_folder_above(root) is None


def test_without_any_data_folder_it_is_made_here(tmp_path: Path) -> None:
    assert data_folder_above(tmp_path) is None


def test_a_file_of_that_name_is_no_data_folder(tmp_path: Path) -> None:
    root, deep = project(tmp_path)
    (deep / ".agentforge").write_text("")
    assert find_data_folder(deep) == root / ".agentforge"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_strangers_data_folder_above_is_passed_over(tmp_path: Path) -> None:
    root, deep = project(tmp_path)
    os.chown(root / ".agentforge", 4242, 4242)
    assert find_data_folder(deep, user=0) != root / ".agentforge"
    assert find_data_folder(deep, user=4242) == root / ".agentforge"
    os.chown(deep, 4242, 4242)
    assert find_data_folder(deep, user=0) == root / ".agentforge"


def test_questions_and_their_configuration_are_the_projects_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, deep = project(tmp_path)
    monkeypatch.chdir(deep)
    assert load_config(environment={}).directory == root / ".agentforge" / "questions"
    trusted(root, '[questions]\ndirectory = "asked"\nmax_questions = 3\n')
    found = load_config(environment=PERSON)
    assert (found.directory, found.questions.max_questions) == (root / "asked", 3)
    named = load_config(environment={**PERSON, "AGENTFORGE_QUESTIONS": "here"})
    assert named.directory == Path("here")
    monkeypatch.chdir(root)
    assert load_config(environment=PERSON).directory == Path("asked")


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_the_search_ends_with_the_root_of_the_repository(tmp_path: Path, kind: str) -> None:
    root, deep = project(tmp_path)
    mark = deep.parent / ".git"
    if kind == "directory":
        begin_repository(deep.parent)
    else:
        mark.write_text("gitdir: elsewhere\n")
    assert find_data_folder(deep) is None
    (deep.parent / ".agentforge").mkdir()
    assert find_data_folder(deep) == deep.parent / ".agentforge"
    begin_repository(root)
    assert find_data_folder(root) == root / ".agentforge"


def test_the_search_ends_with_the_users_home(tmp_path: Path) -> None:
    root, deep = project(tmp_path)
    assert find_data_folder(deep, home=deep.parent) is None
    assert find_data_folder(deep, home=root) == root / ".agentforge"


def test_an_empty_folder_of_gits_name_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert not is_repository(tmp_path)
    assert not is_repository(tmp_path / "nowhere")
    begin_repository(tmp_path)
    assert is_repository(tmp_path)


def test_finding_the_folder_of_a_repository_leaves_nothing_open(tmp_path: Path) -> None:
    begin_repository(tmp_path)
    for _ in range(3):
        assert project_folder(tmp_path, {"HOME": str(tmp_path)}) is not None
    assert held_below(tmp_path) == []


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_refused_and_closed(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "other")
    with pytest.raises(OSError, match="other"):
        read_plain(str(tmp_path / "other"), most=1)
    assert held_below(tmp_path) == []


STATE: Final = {"XDG_STATE_HOME": "/state", "HOME": "/home/ada"}


def test_sessions_of_a_repository_are_outside_of_it(tmp_path: Path) -> None:
    root = tmp_path / "my project"
    begin_repository(root)
    (root / "src").mkdir()
    found = sessions_directory(root, STATE)
    assert found is not None
    assert found.parent.parent == Path("/state/agentforge/projects")
    assert found.parent.name.startswith("my_project-")
    assert sessions_directory(root / "src", STATE) == found
    (root / ".agentforge").mkdir()  # with a configuration alone
    assert sessions_directory(root, STATE) == found


def test_sessions_that_are_in_a_project_stay_there(tmp_path: Path) -> None:
    root, deep = project(tmp_path)
    begin_repository(root)
    (root / ".agentforge" / "sessions").mkdir()
    assert sessions_directory(root, STATE) is None
    assert sessions_directory(deep, STATE) == root / ".agentforge" / "sessions"


def test_a_link_in_the_place_of_the_sessions_directory_is_not_followed(tmp_path: Path) -> None:
    root, _ = project(tmp_path)
    begin_repository(root)
    (tmp_path / "elsewhere").mkdir()
    (root / ".agentforge" / "sessions").symlink_to(tmp_path / "elsewhere")
    found = sessions_directory(root, STATE)
    assert found is not None
    assert found.is_relative_to("/state/agentforge")


def test_without_a_repository_sessions_are_in_the_project(tmp_path: Path) -> None:
    root, deep = project(tmp_path)
    assert sessions_directory(root, STATE) is None
    assert sessions_directory(deep, STATE) == root / ".agentforge" / "sessions"
    assert sessions_directory(tmp_path / "nowhere", STATE) is None


def test_linked_work_trees_share_the_sessions_of_their_repository(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    git(tmp_path, "init", "-q", "main")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "worktree", "add", "-q", str(linked))
    (other := tmp_path / "other").mkdir()
    begin_repository(other)
    assert sessions_directory(linked, STATE) == sessions_directory(main, STATE)
    assert sessions_directory(other, STATE) != sessions_directory(main, STATE)


def test_a_git_file_can_not_claim_the_sessions_of_another_repository(tmp_path: Path) -> None:
    main, linked, claims = tmp_path / "main", tmp_path / "linked", tmp_path / "claims"
    git(tmp_path, "init", "-q", "main")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "worktree", "add", "-q", str(linked))
    claims.mkdir()
    for said in ((linked / ".git").read_text(), f"gitdir: {main}/.git\n", "gitdir: /\n", "\0"):
        (claims / ".git").write_text(said)
        assert sessions_directory(claims, STATE) not in (sessions_directory(main, STATE), None)


def test_a_folder_that_looks_like_a_git_directory_can_not_claim_another_repository(
    tmp_path: Path,
) -> None:
    git(tmp_path, "init", "-q", "main")
    unpacked = tmp_path / "unpacked"
    (unpacked / "fake").mkdir(parents=True)
    (unpacked / ".git").write_text("gitdir: fake\n")
    (unpacked / "fake" / "gitdir").write_text("../.git\n")
    (unpacked / "fake" / "commondir").write_text(f"{tmp_path}/main/.git\n")
    assert sessions_directory(unpacked, STATE) != sessions_directory(tmp_path / "main", STATE)
    (unpacked / "fake" / "gitdir").unlink()
    os.mkfifo(unpacked / "fake" / "gitdir")
    assert sessions_directory(unpacked, STATE) is not None


def test_a_data_folder_that_is_a_link_is_none(tmp_path: Path) -> None:
    root, _ = project(tmp_path)
    clone = tmp_path / "clone"
    clone.mkdir()
    (clone / ".agentforge").symlink_to(root / ".agentforge")
    assert find_data_folder(clone) is None
    begin_repository(clone)
    found = sessions_directory(clone, STATE)
    assert found is not None
    assert found.is_relative_to("/state/agentforge")


def cloned_sessions(tmp_path: Path, version: int = 2) -> tuple[Path, dict[str, str]]:
    """Return a work tree with a tracked `.agentforge/sessions`, and the person's environment."""
    root = tmp_path / "project"
    (root / ".agentforge" / "sessions" / "s").mkdir(parents=True)
    (root / ".agentforge" / "sessions" / "s" / "session.yaml").write_text("theirs")
    git(tmp_path, "init", "-q", "project")
    git(root, "update-index", "--index-version", str(version))
    git(root, "add", "-A", "-f")
    return root, {**STATE, "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.mark.parametrize("version", [2, 4])
def test_a_directory_that_a_clone_brought_has_no_new_sessions(tmp_path: Path, version: int) -> None:
    root, environment = cloned_sessions(tmp_path, version)
    found = sessions_directory(root, environment)
    assert found is not None
    assert found.is_relative_to(tmp_path / "state")
    (root / "src").mkdir()
    assert sessions_directory(root / "src", environment) == found
    assert brought_with(root / "src", environment) == root / ".agentforge" / "sessions"


def test_with_one_of_my_own_sessions_in_it_it_has_new_ones(tmp_path: Path) -> None:
    root, environment = cloned_sessions(tmp_path)
    base = root / ".agentforge" / "sessions"
    own = OwnSessions(base, environment=environment)
    mine = SessionManager(SessionStore(base, own=own)).create().session_id
    assert sessions_directory(root, environment) is None
    assert sessions_directory(root / "src", environment) == base
    assert brought_with(root, environment) is None
    git(root, "add", "-A", "-f")  # as a commit of another person that is pulled
    assert sessions_directory(root, environment) is not None
    own.adopt(mine, os.stat(base / mine).st_ino)
    assert sessions_directory(root, environment) is None


def test_what_git_tracks_elsewhere_moves_nobodys_sessions(tmp_path: Path) -> None:
    root, environment = cloned_sessions(tmp_path)
    git(root, "mv", ".agentforge", "example")
    (inside := root / "example" / ".agentforge").mkdir()
    (root / "example" / "sessions").rename(inside / "sessions")
    git(root, "add", "-A", "-f")
    (root / ".agentforge" / "sessions").mkdir(parents=True)
    assert sessions_directory(root, environment) is None


@pytest.mark.parametrize("is_repository", [False, True])
@pytest.mark.parametrize("link", [".agentforge", ".agentforge/sessions"])
def test_no_link_leads_new_sessions_elsewhere(
    tmp_path: Path, link: str, *, is_repository: bool
) -> None:
    root, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    (root / link).parent.mkdir(parents=True)
    (elsewhere / "sessions").mkdir(parents=True)
    (root / link).symlink_to(elsewhere)
    if is_repository:
        begin_repository(root)
    found = sessions_directory(root, STATE)
    assert found is not None
    assert found.is_relative_to("/state/agentforge/projects")


@pytest.mark.parametrize(
    ("folder", "variable", "default"),
    [
        (state_folder, "XDG_STATE_HOME", ".local/state"),
        (configuration_folder, "XDG_CONFIG_HOME", ".config"),
    ],
)
def test_a_persons_own_folder_follows_the_base_directory_specification(
    folder: Callable[[Mapping[str, str]], Path], variable: str, default: str
) -> None:
    assert folder({variable: "/there", "HOME": "/home/ada"}) == Path("/there/agentforge")
    assert folder({"HOME": "/home/ada"}) == Path("/home/ada", default, "agentforge")
    assert folder({variable: "", "HOME": "/home/ada"}) == Path("/home/ada", default, "agentforge")
    relative = {variable: "somewhere", "HOME": "/home/ada"}
    assert folder(relative) == Path("/home/ada", default, "agentforge")
    assert folder({}).is_absolute()
