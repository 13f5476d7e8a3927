"""`--agent claude` and the like: the real programs develop a component, by a script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_agents import ROOT, Workplace, program

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(600)]
SPEC = ROOT / "examples" / "specs" / "session-manager.yaml"
RECORDED = ROOT / "examples" / "recordings" / "session_domain"
IN_ORDER = ("red-1", "green-1", "green-2", "refactor-1")


@pytest.mark.parametrize("name", ["claude", "codex", "gemini:gemini-2.5-flash", "opencode"])
def test_a_component_is_developed_and_the_folder_around_stays_as_it_is(
    place: Workplace, name: str
) -> None:
    for number, recorded in enumerate(IN_ORDER, start=1):
        text = (RECORDED / f"{recorded}.md").read_text()
        usage = {"input": 1_000 * number, "output": 10}
        place.model.script.when("acceptance criteria", {"text": text, "usage": usage})
    if name == "opencode":
        place.configure_opencode()
    elif name.startswith("gemini"):
        place.configure_gemini()
    mine = place.project / "mine.txt"
    mine.write_text("mine")
    folder = program(name.partition(":")[0]).parent
    done = subprocess.run(
        [
            *place.model.network.prefix,
            *(Path(sys.executable).with_name("agentforge"), "run", "tdflow", SPEC),
            *("--component", "session_domain", "--agent", name, "--json"),
        ],
        cwd=place.project,
        env={**place.environment(), "PATH": f"{folder}:{os.environ['PATH']}", **_caches()},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-3000:])
    session = place.session(json.loads(done.stdout)["session_id"])
    assert session.state.value == "completed"
    answered = [e.data for e in session.history if e.action == "agent_answered"]
    assert [one["usage"] for one in answered] == [
        {"input": 1_000 * number, "output": 10} for number in range(1, 5)
    ]
    assert not any(one["estimated"] for one in answered)
    assert sorted(one.name for one in place.project.iterdir()) == [".agentforge", "mine.txt"]
    if name != "codex":
        assert not any(_offered(one) for one in place.model.requests)


def _offered(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tools of a request; Gemini CLI has them in groups, which may be empty."""
    groups: list[dict[str, Any]] = request.get("tools") or []
    return [tool for group in groups for tool in group.get("functionDeclarations", [group])]


def _caches() -> dict[str, str]:
    """Name the compiled interpreter of this user, which a new home would have made anew."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return {"XDG_CACHE_HOME": cache}
