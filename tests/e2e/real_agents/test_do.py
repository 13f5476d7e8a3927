"""`agentforge do` with the real agent programs: a task is done, whenever its process is killed.

The model has the program add a line at each call; the check wants two of them. What a call wrote
that was killed is not in the next one's copy, so that two tries end with two lines in any case.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, frozen

from tests.e2e.do.conftest import Desk
from tests.support.descriptors import held_below
from tests.support.own_project import require_jail
from tests.support.promptness import wait_until
from tests.support.real_agents import PATIENCE_S, program
from tests.support.repositories import new_checkout, plain_git, user_environment
from tests.support.scripted_model import Reply, Script, ScriptedModel, scripted_model
from tests.support.soak import SOAKING

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(900)]

ADD: Final = "echo more >> work.txt"
CHECK: Final = 'test "$(grep -c more work.txt)" = 2\n'
RESULTS: Final = ("tool_result", "function_call_output", "functionResponse")
"""The words for the result of a tool, in the protocols of the programs."""


@frozen
class Adapter:
    """What differs between the programs.

    Attributes:
        agent: Its name for `--agent`.
        tool: Its tool that runs a command in a shell, and the name of the command there.
        variables: What it needs to find a model at this address.
    """

    agent: str
    tool: tuple[str, str]
    variables: Callable[[str], Mapping[str, str]]


def _opencode(address: str) -> Mapping[str, str]:
    model = {"limit": {"context": 200_000, "output": 8_000}, "tool_call": True}
    options = {"baseURL": f"{address}/v1", "apiKey": "none"}
    provider = {"npm": "@ai-sdk/anthropic", "options": options, "models": {"m": model}}
    off = dict.fromkeys(("autoupdate", "snapshot", "lsp", "formatter"), False)
    named = {"model": "scripted/m", "small_model": "scripted/m", "provider": {"scripted": provider}}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps({**named, **off})}


ADAPTERS: Final = {
    "claude": Adapter(
        "claude",
        ("Bash", "command"),
        lambda address: {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none"},
    ),
    "codex": Adapter(
        "codex:scripted",
        ("exec_command", "cmd"),
        lambda address: {"OPENAI_BASE_URL": f"{address}/v1", "OPENAI_API_KEY": "none"},
    ),
    "gemini": Adapter(
        "gemini:gemini-2.5-flash",
        ("run_shell_command", "command"),
        lambda address: {"GOOGLE_GEMINI_BASE_URL": address, "GEMINI_API_KEY": "none"},
    ),
    "opencode": Adapter("opencode", ("bash", "command"), _opencode),
}


class OneCommand(Script):
    """A model that runs one command for each prompt, and ends when it has the result."""

    def __init__(self, tool: tuple[str, str]) -> None:
        super().__init__([])
        name, key = tool
        self._call: Reply = {
            "tools": [{"name": name, "input": {key: ADD, "description": "add a line"}}],
            "usage": {"input": 1_000, "output": 10},
        }

    def _choose(self, request: dict[str, Any]) -> Reply:
        said = request.get("messages") or request.get("input") or request.get("contents") or [""]
        has_result = any(word in json.dumps(said[-1]) for word in RESULTS)
        return self._call if request.get("tools") and not has_result else {"text": "It is done."}


@define(kw_only=True)
class RealDesk(Desk):
    """A desk with a real program, and a model in a network of its own."""

    adapter: Adapter
    model: ScriptedModel

    def kill(self, process: subprocess.Popen[str], *, when: Callable[[], bool]) -> None:
        """Kill a process, and what runs of it, at a moment before its end."""
        try:
            wait_until(lambda: process.poll() is not None or when(), patience_s=PATIENCE_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            said = process.communicate()
        assert process.returncode == -signal.SIGKILL, said

    def end(self, process: subprocess.Popen[str]) -> Any:
        """Wait for a process to succeed, and return its document."""
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, (out[-3000:], err[-3000:])
        return json.loads(out)

    @property
    def recorded(self) -> int:
        """How many entries the history of the only session has; 0 before it is there."""
        found = [self.store.load(one) for one in self.store.list_sessions()]
        return sum(len(one.history) for one in found if one is not None)


@pytest.fixture(params=list(ADAPTERS))
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealDesk]:
    require_jail()
    adapter = ADAPTERS[request.param]
    folder = program(request.param).parent
    checkout = new_checkout(tmp_path / "own", {"work.txt": "begun\n", "check.sh": CHECK})
    with scripted_model([]) as model:
        model.script = OneCommand(adapter.tool)
        environment = {
            **user_environment(tmp_path),
            **adapter.variables(f"http://127.0.0.1:{model.port}"),
            "PATH": f"{folder}:{os.environ['PATH']}",
        }
        prefix = model.network.prefix
        yield RealDesk(checkout, environment, prefix=prefix, adapter=adapter, model=model)
    assert held_below(tmp_path) == [], "a store that is looked at again and again holds nothing"


def asked(desk: RealDesk) -> int:
    """How often the model was asked."""
    return len(desk.model.requests)


def recorded(desk: RealDesk) -> int:
    """How many entries the session's history has."""
    return desk.recorded


ALL: Final = [(asked, 1), (asked, 2), (asked, 3), *((recorded, number) for number in range(2, 9))]
MOMENTS: Final = [[one] for one in ALL] if SOAKING else [[ALL[0], ALL[6]]]
"""The moments at which the process is killed within one task: when so much has happened."""


@pytest.mark.parametrize("moments", MOMENTS)
def test_a_task_killed_at_any_moment_is_continued_and_applied(
    desk: RealDesk, moments: list[tuple[Callable[[RealDesk], int], int]]
) -> None:
    words = ["Add a line.", "--agent", desk.adapter.agent, "--check", "sh check.sh"]
    for happened, count in moments:
        desk.kill(desk.started(*words), when=lambda at=happened, least=count: at(desk) >= least)
        words = ["--continue"]
    assert plain_git(desk.checkout, "status", "--porcelain", "--ignored").stdout == b""
    document = desk.end(desk.started("--continue", "--yes", "--json"))
    assert document["state"] == "completed"
    assert document["token_budget"]["tokens_used"] >= 2_020
    assert (desk.checkout / "work.txt").read_text() == "begun\nmore\nmore\n"
    assert plain_git(desk.checkout, "status", "--porcelain").stdout == b"M  work.txt\n"


LOGINS: Final[Mapping[str, tuple[str, str, Mapping[str, Any]]]] = {
    "claude": (
        "ANTHROPIC_API_KEY",
        ".claude/.credentials.json",
        {
            "claudeAiOauth": {
                "accessToken": "invented",
                "refreshToken": "invented",
                "expiresAt": 4_000_000_000_000,
                "scopes": ["user:inference", "user:profile"],
                "subscriptionType": "max",
            }
        },
    ),
    "codex": (
        "OPENAI_API_KEY",
        ".codex/auth.json",
        {"auth_mode": "apikey", "OPENAI_API_KEY": "invented"},
    ),
}
"""The variable that is taken away, and the login file in the home with an invented content."""


@pytest.mark.parametrize("desk", list(LOGINS), indirect=True)
def test_a_program_that_a_file_in_the_home_logs_in_does_a_task(
    desk: RealDesk, tmp_path: Path
) -> None:
    variable, path, login = LOGINS[desk.adapter.agent.partition(":")[0]]
    del desk.environment[variable]
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text(json.dumps(login))
    words = (
        "Add a line.",
        "--agent",
        desk.adapter.agent,
        "--check",
        "sh check.sh",
        "--yes",
        "--json",
    )
    assert desk.end(desk.started(*words))["state"] == "completed"
    assert (desk.checkout / "work.txt").read_text() == "begun\nmore\nmore\n"
    assert json.loads((tmp_path / path).read_text()) == login
    assert [one.name for one in (tmp_path / path).parent.iterdir()] == [(tmp_path / path).name]
