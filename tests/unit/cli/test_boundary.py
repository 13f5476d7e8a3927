from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.harness import SessionStore
from tests.unit.cli.conftest import CommandLine


def test_version_is_told_in_both_forms(agentforge: CommandLine) -> None:
    assert agentforge("--version").out == "agentforge 0.1.0\n"
    assert agentforge("--version", "--json").document == {"version": "0.1.0"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["shw"],
            "there is no command 'shw'; the nearest is `agentforge show`. Try 'agentforge --help'.",
        ),
        (["list", "--nope"], "No such option"),
        (["--base", "", "list"], "Invalid value for --base: the path is empty"),
        (["show"], "Missing argument 'ID'. Try 'agentforge show --help'."),
        (["list", "--state", "happy"], "--state"),
        (["list", "--older-than", "soon"], "'soon' is not a duration"),
        (["prune", "--kind", "agent", "--older-than", "-1d"], "'-1d' is not a duration"),
        (["session", "brief", "x", "--max-tokens", "0"], "--max-tokens"),
    ],
)
def test_a_wrong_command_line_is_one_line_that_names_the_help(
    agentforge: CommandLine, arguments: list[str], said: str
) -> None:
    ended = agentforge(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert said in ended.err
    assert "--help'." in ended.err
    in_json = agentforge(*arguments, "--json")
    assert (in_json.code, in_json.err) == (2, "")
    assert said in in_json.document["error"]["message"]


def test_a_typed_usage_error_keeps_its_type(agentforge: CommandLine) -> None:
    error = agentforge("list", "--older-than", "x", "--json").document["error"]
    assert error["type"] == "InvalidDuration"


def test_json_may_stand_before_the_command(agentforge: CommandLine) -> None:
    assert agentforge("--json", "list").document["sessions"] == []
    assert agentforge("--json", "show", "x").document["error"]["type"] == "SessionNotFound"


def test_json_after_the_end_of_options_is_no_option(agentforge: CommandLine) -> None:
    ended = agentforge("show", "--", "--json")
    assert ended.out == ""
    assert ended.err.startswith("error: there is no session --json ")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_fault_of_ours_is_one_line_that_says_how_to_see_more(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oh\nno\x1b[31m")

    monkeypatch.setattr(SessionStore, "summaries", broken)
    ended = agentforge("list", *(["--json"] if as_json else []))
    assert ended.code == 70
    if as_json:
        assert ended.document["error"]["type"] == "ZeroDivisionError"
        assert ended.err == ""
    else:
        assert ended.err == (
            "error: unexpected ZeroDivisionError: oh no\\x1b[31m. This is a fault in agentforge; "
            "run again with AGENTFORGE_DEBUG=1 to see where.\n"
        )


def test_debugging_shows_where_an_error_comes_from(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTFORGE_DEBUG", "1")
    ended = agentforge("show", "nosuch", "--json")
    assert ended.code == 3
    assert "Traceback (most recent call last)" in ended.err
    assert ended.document["error"]["type"] == "SessionNotFound"


def test_a_full_disk_at_standard_output_is_told(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    agentforge.new()
    agentforge.capture.readouterr()
    with open("/dev/full", "w", encoding="utf-8", buffering=1 << 20) as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = run(["--base", str(agentforge.base), "list", "--json"])
        monkeypatch.undo()
    assert code == 8
    assert "No space left on device" in agentforge.capture.readouterr().err


def test_a_directory_that_is_missing_is_not_told_as_a_full_disk(
    agentforge: CommandLine, tmp_path: Path
) -> None:
    ended = agentforge(
        "session", "report", agentforge.new(), "--out", tmp_path / "nowhere" / "page.html"
    )
    assert ended.code == 8
    assert ended.err == (
        f"error: there is no {tmp_path / 'nowhere'}. Make it, or name another place, then try "
        "again.\n"
    )


def test_errors_of_the_disk_are_told_with_the_path(agentforge: CommandLine) -> None:
    agentforge.base.write_text("no directory")
    ended = agentforge("list", "--json")
    assert ended.code == 8
    error = ended.document["error"]
    assert (error["type"], error["path"]) == ("ReadError", str(agentforge.base))
