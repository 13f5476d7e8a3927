"""Where a project keeps its sessions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentforge_sessions.data_folder import data_folder_above, find_data_folder
from agentforge_sessions.questions import load_config


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
    config = root / ".agentforge" / "config.toml"
    config.write_text('[questions]\ndirectory = "asked"\nmax_questions = 3\n')
    found = load_config(environment={})
    assert (found.directory, found.questions.max_questions) == (root / "asked", 3)
    named = load_config(environment={"AGENTFORGE_QUESTIONS": "here"})
    assert named.directory == Path("here")
    monkeypatch.chdir(root)
    assert load_config(environment={}).directory == Path("asked")


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_the_search_ends_with_the_root_of_the_repository(tmp_path: Path, kind: str) -> None:
    root, deep = project(tmp_path)
    mark = deep.parent / ".git"
    mark.mkdir() if kind == "directory" else mark.write_text("gitdir: elsewhere\n")
    assert find_data_folder(deep) is None
    (deep.parent / ".agentforge").mkdir()
    assert find_data_folder(deep) == deep.parent / ".agentforge"
    (root / ".git").mkdir()
    assert find_data_folder(root) == root / ".agentforge"


def test_the_search_ends_with_the_users_home(tmp_path: Path) -> None:
    root, deep = project(tmp_path)
    assert find_data_folder(deep, home=deep.parent) is None
    assert find_data_folder(deep, home=root) == root / ".agentforge"
