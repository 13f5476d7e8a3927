"""Where a project keeps its sessions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.cli.conftest import CommandLine
from tools.cli.data_folder import default_base, find_data_folder
from tools.cli.main import run


def project(tmp_path: Path) -> tuple[Path, Path]:
    """Return a project with a data folder, and a folder deep in it."""
    deep = tmp_path / "project" / "src" / "package"
    deep.mkdir(parents=True)
    (tmp_path / "project" / ".agentforge").mkdir()
    return tmp_path / "project", deep


def test_the_nearest_data_folder_above_is_found(tmp_path: Path) -> None:
    root, deep = project(tmp_path)
    assert find_data_folder(deep) == root / ".agentforge"
    assert default_base(deep) == root / ".agentforge" / "sessions"
    (deep.parent / ".agentforge").mkdir()
    assert find_data_folder(deep) == deep.parent / ".agentforge"


def test_a_data_folder_here_is_the_default_place(tmp_path: Path) -> None:
    root, _ = project(tmp_path)
    assert find_data_folder(root) == root / ".agentforge"
    assert default_base(root) is None


def test_without_any_data_folder_it_is_made_here(tmp_path: Path) -> None:
    assert default_base(tmp_path) is None


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


def test_commands_in_a_folder_of_a_project_work_on_the_projects_sessions(
    agentforge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, deep = project(tmp_path)
    monkeypatch.chdir(root)
    monkeypatch.delenv("AGENTFORGE_BASE", raising=False)
    line = CommandLine(base=root / ".agentforge" / "sessions", capture=agentforge.capture)
    session_id = line.new()
    monkeypatch.chdir(deep)
    agentforge.capture.readouterr()
    assert run(["list"]) == 0
    assert session_id in agentforge.capture.readouterr().out
    assert not (deep / ".agentforge").exists()
