"""Recordings are made and played."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.agents.running import RecordedAgent, Recorder
from agentforge_sessions.base.files import WriteError
from agentforge_sessions.workflows.agents.port import (
    AgentAnswer,
    AgentFailed,
    AgentUnavailable,
    EditedFile,
    TokenUsage,
    WorkspaceChange,
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


def test_an_edit_is_played_with_all_that_it_did(tmp_path: Path) -> None:
    change = WorkspaceChange(
        written=[
            EditedFile(path="tool.sh", content=b"#!/bin/sh\n", executable=True),
            EditedFile(path="plain.py", content=b"x = '```'\n```python:other.py\n"),
            EditedFile(path="no-newline", content=b"x"),
            EditedFile(path="crlf", content=b"a\r\nb\r\n"),
            EditedFile(path="odd", content="a\x0cb\u2028c\n".encode()),
            EditedFile(path="image.bin", content=bytes(range(256))),
            EditedFile(path="empty", content=b""),
        ],
        deleted=["gone.py", "old/gone.py"],
        refused=[("tests/x.py", "it is fixed --> <!-- edit"), ("caf\udce9", "no UTF-8")],
        dropped=["build/x"],
        sealed=False,
    )
    said = "I did it.\n\n```python:plain.py\nnot this\n```\nand ````open\n"
    agent = ScriptedAgent(script={"red": [AgentAnswer(text=said, change=change)]})
    Recorder(agent, tmp_path).answer(request())
    (kept,) = tmp_path.glob("*.md")
    played = RecordedAgent(tmp_path).answer(request())
    assert played.change is not None
    assert sorted(played.change.written, key=lambda one: one.path) == sorted(
        change.written, key=lambda one: one.path
    )
    assert evolve(played.change, written=()) == evolve(change, written=())
    assert played.text.startswith("I did it.\n")

    # A person changes the text: it is what counts.
    kept.write_bytes(kept.read_bytes().replace(b"#!/bin/sh", b"#!/bin/bash"))
    again = RecordedAgent(tmp_path).answer(request()).change
    assert again is not None
    (tool,) = [one for one in again.written if one.path == "tool.sh"]
    assert (tool.content, tool.executable) == (b"#!/bin/bash\n", True)


@pytest.mark.parametrize("note", ["{}", '{"refused": 1}', '{"exact": {"x": "!"}}', "{"])
def test_an_edit_that_can_not_be_read_is_refused(tmp_path: Path, note: str) -> None:
    (tmp_path / "red-2.md").write_text(f"<!-- edit: {note} -->\n```text:a\nb\n```\n")
    played = RecordedAgent(tmp_path)
    if note == "{}":
        assert played.answer(request()).change == WorkspaceChange(
            written=[EditedFile(path="a", content=b"b\n")]
        )
        return
    if note == "{":
        assert played.answer(request()).change is None
        return
    with pytest.raises(AgentUnavailable, match=r"the edit in red-2\.md can't be read"):
        played.answer(request())


def test_an_edit_that_is_too_large_is_not_recorded(tmp_path: Path) -> None:
    files = [EditedFile(path=f"{number}", content=bytes(1 << 20)) for number in range(13)]
    answer = AgentAnswer(text="", change=WorkspaceChange(written=files))
    with pytest.raises(AgentFailed, match="more than 16 MiB"):
        Recorder(ScriptedAgent(script={"red": [answer]}), tmp_path).answer(request())
    assert not list(tmp_path.glob("*.md"))
