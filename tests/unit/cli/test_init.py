"""`agentforge init` on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.cli.main import run
from tests.support.repositories import plain_git
from tests.unit.cli.conftest import Ended

Command = Callable[..., Ended]


@pytest.fixture
def agentforge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Command:
    monkeypatch.delenv("AGENTFORGE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> Ended:
        code = run(words)
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return command


def test_init_says_what_it_found_what_it_wrote_and_what_is_next(
    agentforge: Command, tmp_path: Path
) -> None:
    (tmp_path / "Cargo.toml").write_text("")
    (tmp_path / ".gitignore").write_text("target/\n")
    done = agentforge("init")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == (
        f"{tmp_path}: a Rust project, with cargo, tested by `cargo test` (Cargo.toml)"
    )
    assert lines[1].split() == ["added", "to", ".gitignore"]
    assert "  wrote          .agentforge/config.toml" in lines
    assert lines[-2] == "Next: agentforge run"
    assert (tmp_path / ".gitignore").read_text().startswith("target/\n/.agentforge/sessions/\n")


def test_a_second_run_says_that_nothing_was_changed(agentforge: Command, tmp_path: Path) -> None:
    agentforge("init")
    assert "Nothing was changed.\n" in agentforge("init").out
    config = tmp_path / ".agentforge" / "config.toml"
    config.write_text("[run]\n")
    assert "Nothing was changed. --force replaces what is there.\n" in agentforge("init").out
    assert config.read_text() == "[run]\n"
    assert "replaced       .agentforge/config.toml" in agentforge("init", "--force").out


def test_a_faulty_configuration_is_replaced_with_force(agentforge: Command, tmp_path: Path) -> None:
    agentforge("init")
    (tmp_path / ".agentforge" / "config.toml").write_text("[run")
    assert agentforge("list").code == 7
    assert agentforge("init", "--force").code == 0
    assert agentforge("list").code == 0


def test_here_puts_the_sessions_of_a_repository_into_the_project(
    agentforge: Command, tmp_path: Path
) -> None:
    plain_git(tmp_path, "init", "--quiet")
    sessions = tmp_path / ".agentforge" / "sessions"
    assert agentforge("init").code == 0
    apart = json.loads(agentforge("list", "--json").out)["base"]
    assert agentforge("init", "--here", "--dry-run").code == 0
    assert not sessions.exists()
    assert agentforge("init", "--here").code == 0
    assert Path(apart).is_absolute()
    assert json.loads(agentforge("list", "--json").out)["base"] == ".agentforge/sessions"


def test_dry_run_and_json(agentforge: Command, tmp_path: Path) -> None:
    (tmp_path / "deep er").mkdir()
    planned = agentforge("init", "deep er", "--dry-run", "--json").document
    assert planned["changed"] is False
    assert planned["dry_run"] is True
    assert planned["next"] == "cd 'deep er' && agentforge run"
    assert {one["change"] for one in planned["files"]} == {"written"}
    assert not list((tmp_path / "deep er").iterdir())
    assert "would write    .agentforge/config.toml" in agentforge("init", "--dry-run").out
    assert agentforge("init", "deep er", "--json").document["changed"] is True


def test_a_folder_of_a_project_hides_that_project(agentforge: Command, tmp_path: Path) -> None:
    agentforge("init")
    (tmp_path / "below").mkdir()
    done = agentforge("init", "below")
    assert f"takes the place of {tmp_path}/.agentforge" in done.out


def test_a_folder_that_is_not_there_is_refused(agentforge: Command) -> None:
    done = agentforge("init", "nowhere")
    assert done.code == 6
    assert "there is no such folder. Nothing was written." in done.err


def test_a_javascript_project_is_told_of_a_gate_that_runs_node(
    agentforge: Command, tmp_path: Path
) -> None:
    (tmp_path / "package.json").write_text("{}")
    shown = agentforge("init").out
    assert "Judged by `node --test --test-reporter=tap` in a jail; [gate] says so." in shown
    assert "There is no git repository here" in shown
    assert (
        'Then: agentforge run tdflow .agentforge/specs/greeting.yaml --agent "claude -p"' in shown
    )
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "x"\n')
    (tmp_path / "package.json").unlink()
    document = agentforge("init", "--force", "--json").document
    assert document["gate"]["report"] == "exit-code"
    assert ".agentforge/workflows/checks/workflow.yaml" in {
        one["path"] for one in document["files"]
    }
