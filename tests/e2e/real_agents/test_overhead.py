"""What each request of a real program carries of ours, and that hooks cost nothing elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.real_agents import Workplace, briefings, hook_script, program

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(400)]

CHARS_PER_TOKEN: Final = 4
MOST_TOKENS: Final = 600
"""Of tools, skill and commands together, in each request."""
MOST_TOKENS_WITH_BRIEFING: Final = 2_000

_WAITS: Final = {
    "claude": {"name": "Bash", "input": {"command": "sleep 1"}},
    "codex": {"name": "exec_command", "input": {"cmd": "sleep 1", "yield_time_ms": 3000}},
    "opencode": {"name": "bash", "input": {"command": "sleep 1", "description": "wait"}},
    "gemini": {"name": "run_shell_command", "input": {"command": "sleep 1"}},
}
_OFFERED: Final = {
    "claude": '"name": "mcp__plugin_agentforge_agentforge__ask"',
    "codex": '"name": "mcp__agentforge"',
    "opencode": '"name": "agentforge_ask"',
    "gemini": '"name": "mcp_agentforge_ask"',
}
"""What a request has once the server is up."""


def run(place: Workplace, name: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "claude": lambda: place.claude("hi", ENABLE_TOOL_SEARCH="false"),
        "codex": lambda: place.codex("hi"),
        "opencode": lambda: place.opencode("hi"),
        "gemini": lambda: place.gemini("hi"),
    }
    calls[name]()


def configure(place: Workplace, name: str) -> None:
    if name == "opencode":
        place.configure_opencode()
    if name == "gemini":
        place.configure_gemini()


def agentforge(place: Workplace, *arguments: str, folder: Path | None = None) -> None:
    subprocess.run(
        [Path(sys.executable).with_name("agentforge"), *arguments],
        cwd=folder or place.project,
        env=place.environment(),
        capture_output=True,
        check=True,
        timeout=100,
    )


def size(request: dict[str, Any]) -> int:
    """Return the characters of a request up to the first message, and of what is of ours in it.

    Codex offers tools of its own to read resources once it has a server, and Gemini CLI adds a
    parameter of its own to each tool of one.
    """
    for key in ("messages", "input", "contents"):
        if key in request:
            request = {**request, key: [one for one in request[key] if _is_first(one)]}
    tools = [one for one in request["tools"] if "mcp_resource" not in str(one.get("name"))]
    request = {**request, "tools": tools}
    text = json.dumps(request, ensure_ascii=False, separators=(",", ":"))
    return len(re.sub(r'"wait_for_previous":\{[^}]*\},?', "", text))


def _is_first(message: dict[str, Any]) -> bool:
    if message.get("role") in {"assistant", "model", "tool"}:
        return False
    return not re.search(r"tool_result|functionResponse|_call", json.dumps(message))


@pytest.mark.parametrize("name", ["claude", "codex", "opencode", "gemini"])
def test_a_request_carries_little_of_ours(
    place: Workplace, name: str, record_property: Callable[[str, object], None]
) -> None:
    program(name)
    configure(place, name)
    run(place, name)
    without = max(size(one) for one in place.model.requests if one.get("tools"))
    asked = len(place.model.requests)

    session_id = place.begin(goal="Count the words")
    agentforge(place, "install", {"claude": "claude-code"}.get(name, name))
    place.model.script.when(_OFFERED[name], {"text": "done"})
    place.model.script.add(*[{"tools": [_WAITS[name]]}] * 100)
    run(place, name)
    offered = [one for one in place.model.requests[asked:] if _OFFERED[name] in json.dumps(one)]
    assert briefings(offered[0]) == 1
    all_of_ours = size(offered[0]) - without
    (briefing,) = re.findall(
        rf"AgentForge session briefing.*?{session_id}.*?## Next step\\n[^\\\"]*",
        json.dumps(offered[0], ensure_ascii=False),
    )
    each = all_of_ours - len(briefing)
    record_property("characters of each request", each)
    record_property("characters of the first", all_of_ours)
    print(f"{name}: {each:,} characters in each request, {all_of_ours:,} in the first")
    assert each <= MOST_TOKENS * CHARS_PER_TOKEN
    assert all_of_ours <= MOST_TOKENS_WITH_BRIEFING * CHARS_PER_TOKEN


@pytest.mark.parametrize("name", ["claude", "codex", "opencode", "gemini"])
def test_where_no_session_may_begin_no_program_starts_the_hook(
    place: Workplace, name: str, tmp_path: Path
) -> None:
    """In a repository it does: the same hook is called there."""
    program(name)
    configure(place, name)
    called = tmp_path / "called"
    hook = hook_script(tmp_path, f"cat >/dev/null; echo . >>{called}")
    place.install({"claude": "claude-code"}.get(name, name), hook)
    (place.project / ".agentforge").rmdir()
    run(place, name)
    assert not called.exists()
    assert place.model.requests, "the program asked its model"

    (place.project / ".git").mkdir()
    (place.project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    run(place, name)
    assert called.exists()
