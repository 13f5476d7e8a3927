"""What was said in one real program goes to no other's model where the person hides it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.e2e.real_agents.test_hand_over import shell_tool
from tests.support.real_agents import Workplace, briefings, program

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(900)]

NAMES: Final = ("claude", "codex", "gemini", "opencode")
_HIDES: Final = "".join(
    f'[privacy.{name}]\nhides = ["*"]\n' for name in ("claude-code", *NAMES[1:])
)


@pytest.fixture
def runs(place: Workplace) -> dict[str, Callable[[str], Any]]:
    """How each program is given a prompt, with our hooks in all of them."""
    for name in NAMES:
        program(name)
    place.hook_claude()
    place.hook_codex()
    place.configure_gemini()
    place.configure_opencode()
    place.install("gemini")
    place.install("opencode")
    return {
        "claude": lambda prompt: place.claude(prompt, "--allowedTools", "Bash"),
        "codex": place.codex,
        "gemini": place.gemini,
        "opencode": place.opencode,
    }


def test_nothing_that_was_said_in_one_program_goes_to_the_model_of_another(
    place: Workplace, runs: dict[str, Callable[[str], Any]]
) -> None:
    configuration = place.home / ".config" / "agentforge" / "config.toml"
    configuration.parent.mkdir(parents=True, exist_ok=True)
    configuration.write_text(_HIDES)
    place.begin(goal=None, budget=5_000_000)
    for name in (*NAMES, NAMES[0]):
        secret, asked = f"SECRET-{name}", len(place.model.requests)
        place.model.script.add(
            {
                "text": f"I decided for {secret}.",
                "tools": [shell_tool(name, f"echo {secret}-FAILED; exit 3")],
            },
            {"text": f"{secret} is half done."},
        )
        runs[name](f"Begin {secret}-PROMPT. Never push {secret}-RULE.")
        place.model.script.clear()
        requests = place.model.requests[asked:]
        assert sum(map(briefings, requests)) >= 2
        said = json.dumps(requests)
        assert [one for one in NAMES if f"SECRET-{one}" in said] == [name]
    again = json.dumps(requests[0], ensure_ascii=False)
    assert "by the agent in claude-code: “I decided for SECRET-claude.”" in again
    assert "Standing instruction, by a person to claude-code: “Never push SECRET-claude" in again
