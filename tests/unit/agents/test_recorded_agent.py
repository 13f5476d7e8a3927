"""Recordings are made and played."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.durable import WriteError
from agentforge_sessions.workflows.agents import (
    AgentUnavailable,
    RecordedAgent,
    Recorder,
    TokenUsage,
)
from tests.support.agents import ScriptedAgent
from tests.unit.agents.test_command_agent import request


def test_what_is_recorded_is_played(tmp_path: Path) -> None:
    recorder = Recorder(ScriptedAgent(script={"red": ["one", "two\r\n"]}), tmp_path / "new")
    first = evolve(request(), turn=1)
    second = evolve(request(), turn=1, call=2)
    assert recorder.answer(first).text == "one"
    recorder.answer(second)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["red-1-2.md", "red-1.md"]
    played = RecordedAgent(tmp_path / "new")
    assert played.answer(first).text == "one"
    assert played.answer(second).text == "two\r\n"
    assert played.answer(first).usage == TokenUsage(input_tokens=100, output_tokens=50)


def test_missing_recording_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(AgentUnavailable, match=r"no recording red-2\.md"):
        RecordedAgent(tmp_path).answer(request())


def test_links_and_other_bytes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "red-2.md").symlink_to("/etc/passwd")
    with pytest.raises(AgentUnavailable, match="symbolic link"):
        RecordedAgent(tmp_path).answer(request())
    (tmp_path / "red-2.md").unlink()
    (tmp_path / "red-2.md").write_bytes(b"\xff")
    with pytest.raises(AgentUnavailable, match="no UTF-8"):
        RecordedAgent(tmp_path).answer(request())


def test_nobody_is_asked_for_an_answer_that_can_not_be_recorded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    agent = ScriptedAgent(script={"red": ["one"]})
    with pytest.raises(WriteError):
        Recorder(agent, tmp_path / "file" / "new").answer(request())
    assert agent.requests == []
