"""`install` and `uninstall` as commands: what they change, show and refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import CommandLine

FOLDERS = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"),
    *("XDG_CONFIG_HOME", "XDG_STATE_HOME"),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home and the project of a person who has neither of the programs."""
    made = tmp_path / "person"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    for name in FOLDERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(made / "no-programs"))
    monkeypatch.chdir(made)
    assert Path.home() == made
    return made


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("program", ["claude-code", "codex", "gemini", "opencode"])
def test_where_the_program_is_not_there_installing_and_uninstalling_leaves_nothing(
    agentforge: CommandLine, home: Path, program: str, scope: str
) -> None:
    words = (program, "--scope", scope, "--json")
    shown = agentforge("install", *words, "--dry-run").document
    assert (shown["changed"], bool(shown["files"]), list(home.iterdir())) == (False, True, [])
    changed = [agentforge("install", *words).document["changed"] for _ in range(2)]
    assert changed == [True, False]
    changed = [agentforge("install", "--remove", *words).document["changed"] for _ in range(2)]
    assert changed == [True, False]
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("program", ["claude-code", "codex", "gemini", "opencode"])
def test_doctor_names_what_was_installed_and_what_was_lost_of_it(
    agentforge: CommandLine, home: Path, program: str
) -> None:
    def check() -> dict[str, str]:
        checks = agentforge("doctor", "--json").document["checks"]
        (found,) = (one for one in checks if one["name"] == "agents")
        return dict(found)

    installed = agentforge("install", program, "--json").document["files"]
    assert f"{program} (user)" in check()["message"]
    lost = installed[0]["path"]
    Path(lost).unlink()
    found = check()
    assert (found["status"], f"{lost} is missing" in found["message"]) == ("warn", True)
    assert f"agentforge install {program} --scope user" in found["advice"]


@pytest.mark.parametrize("more", [[], ["--remove"]])
def test_a_program_that_is_not_known_is_refused(
    agentforge: CommandLine, home: Path, more: list[str]
) -> None:
    ended = agentforge("install", *more, "nosuch")
    assert (ended.code, ended.out) == (2, "")
    assert "claude-code" in ended.err
    assert list(home.iterdir()) == []


def test_a_file_that_is_read_only_is_named_and_stays(agentforge: CommandLine, home: Path) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text("# mine\n")
    config.chmod(0o444)
    ended = agentforge("install", "codex")
    assert ended.code != 0
    assert f"{config}: it is read-only. Nothing was changed." in ended.err
    assert [str(one.relative_to(home)) for one in home.rglob("*")] == [
        ".codex",
        ".codex/config.toml",
    ]
