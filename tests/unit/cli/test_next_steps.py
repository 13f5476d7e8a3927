"""`agentforge` without a word: what to do next, from what is here."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.cli.tree import TREE
from tests.unit.cli.conftest import CommandLine


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("AGENTFORGE_QUESTIONS", str(tmp_path / "questions"))
    return place


def steps(agentforge: CommandLine) -> list[str]:
    start = f"agentforge --base {agentforge.base} "
    found = [one["command"] for one in agentforge("--json").document["next"]]
    assert all(one.startswith(start) for one in found)
    words = [one.removeprefix(start) for one in found]
    assert all(one.split()[0] in TREE[""] for one in words)
    return words


def test_without_a_session_it_names_how_to_begin(agentforge: CommandLine) -> None:
    found = steps(agentforge)
    assert len(found) == 3
    assert {"init", "run --example hello"} <= set(found)


def test_in_a_project_it_names_no_command_that_begins_one(
    agentforge: CommandLine, folder: Path
) -> None:
    assert agentforge("init").code == 0
    assert "run" in steps(agentforge)
    assert "init" not in steps(agentforge)


def test_the_last_session_decides(agentforge: CommandLine) -> None:
    first = agentforge.new()
    agentforge.later(minutes=1)
    last = agentforge.begin(title="the second")
    session_id = agentforge.new_id(last)
    assert steps(agentforge)[0] == f"show {session_id} --follow"
    last.pause("enough")
    assert steps(agentforge)[0] == f"resume {session_id}"
    shown = agentforge()
    assert shown.code == 0
    assert f"The last session, {session_id}, is paused: the second." in shown.out
    assert first not in shown.out
    last.resume()
    last.complete()
    assert steps(agentforge)[:2] == [f"show {session_id}", f"session report {session_id}"]


def test_a_question_that_waits_is_to_be_answered(agentforge: CommandLine) -> None:
    agentforge.new()
    asked = agentforge("questions", "ask", "Which?", "-o", "a", "-o", "b", "--no-wait").out.strip()
    assert steps(agentforge)[0] == f"answer {asked}"


def test_what_can_not_be_read_is_named_and_is_no_obstacle(
    agentforge: CommandLine, folder: Path
) -> None:
    agentforge.corrupt(agentforge.new())
    shown = agentforge()
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith("Something here can't be read: ")
    assert steps(agentforge)[0] == "doctor"
    (folder / ".agentforge").mkdir()
    (folder / ".agentforge" / "config.toml").write_text("[run\n")
    assert (agentforge().code, steps(agentforge)[0]) == (0, "doctor")
