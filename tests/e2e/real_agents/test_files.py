"""Files that the real agent programs wrote are taken back, whichever program wrote them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Final

import pytest

from agentforge_sessions.harness.views.checkpoints import checkpoints
from tests.support.real_agents import HOOK, Workplace

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(600)]

AGENTFORGE: Final = HOOK.with_name("agentforge")
SHELL: Final[dict[str, Callable[[str], dict[str, object]]]] = {
    "claude-code": lambda command: {"name": "Bash", "input": {"command": command}},
    "codex": lambda command: {"name": "exec_command", "input": {"cmd": command}},
    "opencode": lambda command: {"name": "bash", "input": {"command": command, "description": "d"}},
    "gemini": lambda command: {"name": "run_shell_command", "input": {"command": command}},
}
"""The tool of each program that runs a command, which no hook reports as an edit."""


@pytest.fixture
def session_id(place: Workplace) -> str:
    subprocess.run(["git", "init", "-q", place.project], check=True)
    return place.begin()


def ready(place: Workplace, name: str) -> None:
    """Put the hook into a program."""
    match name:
        case "claude-code":
            place.hook_claude()
        case "codex":
            place.hook_codex()
        case "opencode":
            place.configure_opencode()
            place.install("opencode")
        case _:
            place.configure_gemini()
            place.install("gemini")


def prompt(place: Workplace, name: str, command: str) -> None:
    """Have a program run a command, in a conversation of its own."""
    place.model.script.add({"text": "at work", "tools": [SHELL[name](command)]}, {"text": "Done."})
    match name:
        case "claude-code":
            place.claude(f"Run {command}", "--allowedTools", "Bash")
        case "codex":
            place.codex(f"Run {command}")
        case "opencode":
            place.opencode(f"Run {command}")
        case _:
            place.gemini(f"Run {command}")


def rewind(place: Workplace, session_id: str, *options: str) -> None:
    place.run([AGENTFORGE, "session", "rewind", session_id, "--yes", *options])


@pytest.mark.parametrize("name", SHELL)
def test_what_a_second_prompt_broke_is_restored(
    place: Workplace, session_id: str, name: str
) -> None:
    ready(place, name)
    file = place.project / "sum.py"
    prompt(place, name, "printf 'good\\r\\n' > sum.py")
    prompt(place, name, "printf 'bad' > sum.py; printf 'x' > made.txt")
    assert (file.read_bytes(), (place.project / "made.txt").exists()) == (b"bad", True)
    rewind(place, session_id)
    assert (file.read_bytes(), (place.project / "made.txt").exists()) == (b"good\r\n", False)
    rewind(place, session_id, "--to", str(len(checkpoints(place.session(session_id)))))
    assert file.read_bytes() == b"bad"


def test_what_one_program_wrote_is_taken_back_from_inside_another(
    place: Workplace, session_id: str
) -> None:
    for name in ("claude-code", "gemini"):
        ready(place, name)
    file = place.project / "sum.py"
    prompt(place, "claude-code", "printf good > sum.py")
    written = len(checkpoints(place.session(session_id)))
    prompt(place, "claude-code", "printf bad > sum.py")
    inside = f"{AGENTFORGE} session rewind {session_id} --to {written} --in-turn --yes"
    prompt(place, "gemini", inside)
    assert file.read_bytes() == b"good"


def test_the_command_inside_says_what_to_run(place: Workplace, session_id: str) -> None:
    place.install("claude-code")
    place.model.script.add({"text": "Which one?"})
    place.claude("/agentforge:rewind 3")
    request = json.dumps(place.model.requests[0])
    assert "checkpoint, or, if none is named here" in request
    assert "session rewind ID --to CHECKPOINT --in-turn --yes" in request
    assert "ask\\nme which one: 3" in request
