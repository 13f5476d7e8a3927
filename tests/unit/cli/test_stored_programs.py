"""`agentforge doctor` and `prune repair` on programs that are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.sandbox import create_session_sandbox
from tests.unit.cli.conftest import CommandLine

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(900)


def found(agentforge: CommandLine) -> list[dict[str, Any]]:
    checks = agentforge("doctor", "--json").document["checks"]
    return [one for one in checks if one["name"] == "programs"]


def test_doctor_says_which_programs_cannot_go_on_and_what_to_do(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert found(agentforge) == []
    session_id, sandbox = create_session_sandbox(
        workspace_root="workspace", stateful=True, durable=True
    )
    with sandbox:
        sandbox.execute("x = 1")
    state = tmp_path / "workspace" / session_id / ".program.state" / "state.aflive"
    whole = state.read_bytes()
    assert [one["status"] for one in found(agentforge)] == ["ok"]
    state.write_bytes(whole[:-1])
    (one,) = found(agentforge)
    assert one["status"] == "warn"
    assert f"1 of 1 stored program cannot go on here as it is: {session_id}" in one["message"]
    assert "cut short" in one["message"]
    assert "agentforge prune repair" in one["advice"]


def test_repair_moves_a_damaged_program_aside_and_leaves_the_session(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    session_id, sandbox = create_session_sandbox(workspace_root="workspace")
    sandbox.close()
    program = tmp_path / "workspace" / session_id / ".program.state"
    program.mkdir()
    (program / "state.aflive").write_bytes(b"AFLIVE01 cut short")
    (program / "turn.afjournal").write_bytes(b"")
    tried = agentforge("prune", "repair", "--dry-run")
    assert f"{session_id}: its program is damaged" in tried.out
    assert (program / "state.aflive").exists()

    done = agentforge("prune", "repair", "--yes")

    assert "it is .program.state/state.damaged now" in done.out
    assert [one.name for one in program.iterdir()] == ["state.damaged"]
    assert agentforge("prune", "repair", "--yes").out == "All metadata is in order.\n"
    assert agentforge("prune", "repair", "--yes", "--json").document["programs"] == {}
