"""`agentforge doctor` asks the real Codex for its version, and whether it runs our hooks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.agents.setup.health import is_answered, list_request
from agentforge_sessions.base.program_run import ProgramRun, run_program
from tests.support.real_agents import PATIENCE_S, Workplace, program

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(600)]


def environment(place: Workplace) -> dict[str, str]:
    given = place.environment()
    return {**given, "PATH": f"{program('codex').parent}:{given['PATH']}"}


def agentforge(place: Workplace, *words: str) -> str:
    """Run a command of ours where nothing but this machine can be reached."""
    done = subprocess.run(
        [
            *place.model.network.prefix,
            str(Path(sys.executable).with_name("agentforge")),
            *words,
        ],
        cwd=place.project,
        env=environment(place),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def findings(place: Workplace) -> dict[str, tuple[str, str]]:
    checks = json.loads(agentforge(place, "doctor", "--json"))["checks"]
    return {one["name"]: (one["status"], one["message"]) for one in checks}


def listed(place: Workplace) -> list[dict[str, Any]]:
    """Return the hooks as Codex itself lists them."""
    words = [*place.model.network.prefix, str(program("codex")), "app-server"]
    asked = list_request(str(place.project), "1.0")
    ended = run_program(
        ProgramRun(words, environment(place), stdin=asked, timeout_s=PATIENCE_S, until=is_answered)
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    (found,) = [one["result"]["data"] for one in answers if one.get("id") == 2]
    return [hook for folder in found for hook in folder["hooks"]]


def review(place: Workplace) -> None:
    """Keep what a person's review in /hooks keeps: the digest of each hook."""
    with (place.home / ".codex" / "config.toml").open("a") as file:
        for hook in listed(place):
            key, digest = json.dumps(hook["key"]), json.dumps(hook["currentHash"])
            file.write(f"[hooks.state.{key}]\ntrusted_hash = {digest}\n")


def test_doctor_says_whether_codex_was_told_to_trust_the_hooks(place: Workplace) -> None:
    place.begin(goal="Count")
    agentforge(place, "install", "codex")
    found = findings(place)
    assert found["versions"] == ("ok", "codex 0.169.0")
    assert found["hook trust"] == (
        "warn",
        "codex does not run hooks of agentforge: they are untrusted",
    )
    assert found["hooks"][0] == "warn"
    assert "no session will begin here" in found["hooks"][1]

    review(place)
    found = findings(place)
    assert found["hook trust"] == ("ok", "codex runs all hooks of agentforge")
    assert found["hooks"][0] == "ok"
    assert "in codex, a prompt goes on with session_" in found["hooks"][1]

    config = place.home / ".codex" / "config.toml"
    config.write_text(config.read_text().replace("timeout = 900", "timeout = 901"))
    assert "they are modified" in findings(place)["hook trust"][1]
