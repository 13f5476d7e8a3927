"""opencode itself, with the plugin: judged by the requests that the model received."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.harness import SessionState
from tests.support.promptness import wait_until
from tests.support.real_agents import (
    FULL_DISK,
    HOOK,
    PATIENCE_S,
    Workplace,
    briefings,
    hook_script,
    program,
)
from tests.support.scripted_model import scripted_model

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(600)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with scripted_model([]) as model:
        place = Workplace(tmp_path, model)
        place.configure_opencode()
        place.install("opencode")
        yield place


def write_tool(place: Workplace, name: str = "made.txt") -> dict[str, object]:
    return {"name": "write", "input": {"filePath": str(place.project / name), "content": "x"}}


def shell_tool(command: str = "true") -> dict[str, object]:
    return {"name": "bash", "input": {"command": command, "description": "d"}}


def reported(*runs: list[dict[str, Any]]) -> int:
    """Return all tokens that runs of opencode report of their own conversation."""
    ended = [event for run in runs for event in run if event["type"] == "step_finish"]
    return sum(event["part"]["tokens"]["total"] for event in ended)


def main_requests(place: Workplace) -> list[dict[str, Any]]:
    """Return the requests but for those that ask for a title."""
    return [one for one in place.model.requests if "title generator" not in json.dumps(one)]


def test_a_conversation_is_recorded_charged_as_reported_and_briefed_after_restart(
    place: Workplace,
) -> None:
    session_id = place.begin(goal="Count the words")
    place.model.script.add(
        {
            "text": "at work",
            "tools": [write_tool(place), shell_tool()],
            "usage": {"input": 1000, "output": 50, "cached": 200},
        },
        {"text": "Counted; decided for bytes.", "usage": {"input": 700, "output": 30}},
    )
    first = place.opencode("Count")
    requests = main_requests(place)
    assert [briefings(one) for one in requests] == [1, 1]
    assert "Goal: “Count the words" in json.dumps(requests[0], ensure_ascii=False)
    assert place.session(session_id).token_budget.tokens_used == reported(first) == 1980

    place.model.script.add({"text": "and on", "usage": {"input": 500, "output": 20}})
    second = place.opencode("more", "--continue")
    resumed = main_requests(place)[-1]
    assert briefings(resumed) == 1
    assert "Counted; decided for bytes." in json.dumps(resumed["system"])
    assert place.session(session_id).token_budget.tokens_used == reported(first, second)

    session = place.session(session_id)
    assert [(one.path, one.artifact_type) for one in session.artifacts] == [("made.txt", "created")]
    happened = [entry.action for entry in session.history]
    assert happened.count("agent_prompted") == happened.count("agent_turn_ended") == 2


def test_an_automatic_compaction_is_charged_recorded_and_followed_by_a_new_briefing(
    place: Workplace,
) -> None:
    place.configure_opencode(context=100_000)
    session_id = place.begin(budget=1_000_000)
    place.model.script.add(
        {"text": "a", "tools": [shell_tool()], "usage": {"input": 98_000, "output": 10}},
        {"text": "After it.", "usage": {"input": 900, "output": 10}},
    )
    place.model.script.when(
        "anchored summary",
        {"text": "SUMMARY: words are counted.", "usage": {"input": 5_000, "output": 300}},
    )
    place.opencode("Go")
    assert briefings(main_requests(place)[-1]) == 1
    assert "SUMMARY: words are counted." in json.dumps(main_requests(place)[-1]["system"])
    session = place.session(session_id)
    assert session.token_budget.tokens_used == 98_010 + 5_300 + 910
    happened = [entry.action for entry in session.history]
    assert happened.count("agent_compacted") == happened.count("checkpoint") == 1


def test_a_subagent_is_charged_too_and_has_no_briefing(place: Workplace) -> None:
    session_id = place.begin()
    subagent = {
        "name": "task",
        "input": {"description": "d", "prompt": "SUBTASK", "subagent_type": "general"},
    }
    place.model.script.add(
        {"tools": [subagent], "usage": {"input": 500, "output": 20}},
        {"text": "one", "usage": {"input": 700, "output": 30}},
        {"text": "two", "usage": {"input": 300, "output": 40}},
    )
    place.opencode("Delegate")
    assert [briefings(one) for one in main_requests(place)] == [1, 0, 1]
    assert place.session(session_id).token_budget.tokens_used == 520 + 730 + 340


def test_a_spent_budget_stops_the_agent_and_refuses_the_next_prompt_until_extended(
    place: Workplace,
) -> None:
    session_id = place.begin(budget=2_000)
    place.model.script.add(
        {"tools": [shell_tool()], "usage": {"input": 1_650, "output": 50}},
        *[{"tools": [shell_tool()], "usage": {"input": 400, "output": 50}} for _ in range(3)],
    )
    events = place.opencode("Work", fails=True)
    assert "the token budget of session" in events[-1]["error"]["data"]["message"]
    assert len(main_requests(place)) == 2, "none after the one that spent it"
    assert "85 % of this session's token budget" in json.dumps(main_requests(place)[1])
    session = place.session(session_id)
    assert session.state is SessionState.PAUSED
    assert "the budget is spent" in (session.history[-1].details or "")

    asked = len(place.model.requests)
    events = place.opencode("more", "--continue", fails=True)
    assert f"agentforge session budget {session_id} --extend" in json.dumps(events[-1])
    assert len(place.model.requests) == asked

    place.open(session_id).extend_budget(100_000)
    place.opencode("more", "--continue")
    assert len(place.model.requests) > asked
    assert place.session(session_id).state is SessionState.ACTIVE


def test_hooks_that_are_killed_in_the_middle_charge_nothing_twice_and_lose_nothing(
    place: Workplace, tmp_path: Path
) -> None:
    session_id = place.begin()
    first = place.opencode("Begin")
    script = hook_script(tmp_path, f'exec timeout --signal KILL 0.3 {HOOK} "$@"')
    place.install("opencode", script)
    two = [shell_tool(), shell_tool("true && true")]
    place.model.script.add(
        *[{"tools": two, "usage": {"input": 500 + number, "output": 10}} for number in range(3)]
    )
    second = place.opencode("Work", "--continue")
    place.install("opencode")
    place.model.script.clear()
    third = place.opencode("more", "--continue")
    used = place.session(session_id).token_budget.tokens_used
    assert used == reported(first, second, third)


@pytest.mark.parametrize("body", [None, "echo no json; exit 1", "sleep 3"])
def test_a_hook_that_is_missing_broken_or_slow_leaves_the_turn_alone(
    place: Workplace, tmp_path: Path, body: str | None
) -> None:
    missing = Path("/no/such/agentforge-hook")
    place.install("opencode", hook_script(tmp_path, body) if body else missing)
    place.model.script.add({"tools": [shell_tool()]}, {"text": "All is well"})
    events = place.opencode("Work")
    assert [one["part"]["text"] for one in events if one["type"] == "text"] == ["All is well"]


@pytest.mark.parametrize("broken", [FULL_DISK, "corrupted session"])
def test_what_a_full_disk_or_a_corrupted_session_kept_out_is_charged_later(
    place: Workplace, tmp_path: Path, broken: str
) -> None:
    """The turn goes on meanwhile, and what it cost is not lost."""
    session_id = place.begin()
    first = place.opencode("Begin")
    file = place.store.session_path(session_id)
    sound = file.read_bytes()
    if broken == FULL_DISK:
        place.install("opencode", hook_script(tmp_path, f'exec {FULL_DISK} {HOOK} "$@"'))
    else:
        file.write_bytes(b"\x00")
    place.model.script.add(
        {"tools": [shell_tool()], "usage": {"input": 700, "output": 10}}, {"text": "All is well"}
    )
    second = place.opencode("Work", "--continue")
    assert [one["part"]["text"] for one in second if one["type"] == "text"] == ["All is well"]
    assert file.read_bytes() == (sound if broken == FULL_DISK else b"\x00")
    file.write_bytes(sound)
    place.install("opencode")
    third = place.opencode("more", "--continue")
    used = place.session(session_id).token_budget.tokens_used
    assert used == reported(first, second, third)


def test_a_killed_program_is_followed_by_another_run_and_both_are_charged(
    place: Workplace,
) -> None:
    session_id = place.begin(goal="Carry on")
    place.model.script.add(
        {"tools": [write_tool(place)], "usage": {"input": 900, "output": 100}},
        {"tools": [shell_tool("touch reached; sleep 60")], "usage": {"input": 400, "output": 100}},
    )
    place.kill_at_work([program("opencode"), "run", "--format", "json", "--auto", "Begin"])
    place.model.script.clear()
    place.model.script.add({"text": "carried on", "usage": {"input": 300, "output": 50}})
    place.opencode("more", "--continue")
    last = json.dumps(main_requests(place)[-1]["system"], ensure_ascii=False)
    assert "Goal: “Carry on" in last
    assert "made.txt" in last
    assert place.session(session_id).token_budget.tokens_used == 1_000 + 350


# ----------------------------------------------------------------------------- the program's server


class Server:
    """`opencode serve` in the model's network, and the calls of its interface."""

    def __init__(self, place: Workplace) -> None:
        self._prefix = place.model.network.prefix
        self._process = place.start([program("opencode"), "serve", "--port", "0"])
        self._url = ""

    def wait_until_ready(self) -> None:
        """Read where it listens: a request before it says so would wait for ever."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("opencode server listening on "):
                self._url = line.split()[-1]
                return
        raise AssertionError(f"it ended: {self._process.communicate()}")

    def post(self, path: str, body: dict[str, Any]) -> Any:
        code = (
            "import sys, urllib.request as r\n"
            "url, body = sys.argv[1:]\n"
            "head = {'Content-Type': 'application/json'}\n"
            "request = r.Request(url, body.encode(), head)\n"
            "sys.stdout.write(r.urlopen(request, timeout=200).read().decode())\n"
        )
        words = [sys.executable, "-I", "-c", code, self._url + path, json.dumps(body)]
        done = subprocess.run([*self._prefix, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-500:]
        return json.loads(done.stdout) if done.stdout else None

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def server(place: Workplace) -> Iterator[Server]:
    server = Server(place)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


def text_of_a_person(text: str) -> dict[str, Any]:
    return {"parts": [{"type": "text", "text": text}]}


def test_a_failed_gate_sends_the_agent_on_and_a_manual_compaction_is_recorded(
    place: Workplace, server: Server
) -> None:
    """As in the terminal: the program lives on after a turn."""
    place.configure_gate()
    session_id = place.begin()
    place.model.script.add({"text": "I am done"}, {"tools": [write_tool(place, "fixed")]})
    talk = server.post("/session", {})["id"]
    server.post(f"/session/{talk}/message", text_of_a_person("Fix it"))

    def judged() -> list[bool]:
        history = place.session(session_id).history
        return [one.data["passed"] for one in history if one.action == "agent_gate"]

    wait_until(lambda: judged() == [False, True], patience_s=PATIENCE_S)
    assert any("IT-IS-RED" in json.dumps(one) for one in place.model.requests)
    assert [one.action for one in place.session(session_id).history].count("agent_prompted") == 1

    place.model.script.when("anchored summary", {"text": "SUMMARY by hand"})
    server.post(f"/session/{talk}/summarize", {"providerID": "scripted", "modelID": "m"})

    def compacted() -> list[str | None]:
        history = place.session(session_id).history
        return [one.details for one in history if one.action == "agent_compacted"]

    wait_until(lambda: compacted() == ["SUMMARY by hand"], patience_s=PATIENCE_S)
    server.post(f"/session/{talk}/message", text_of_a_person("Go on"))
    assert "SUMMARY by hand" in json.dumps(place.model.requests[-1]["system"])
