"""One program begins the work and is killed; another takes it up, in each of twelve directions.

What is asserted is the first request that the second program's model receives.
"""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionContext
from agentforge_sessions.harness.views.briefing import most_tokens
from agentforge_sessions.harness.views.checkpoints import last_kept
from agentforge_sessions.harness.views.conversations import conversations
from tests.contract.conftest import database, migrated, server
from tests.e2e.real_agents.test_codex_hook_list import review
from tests.support.promptness import wait_until
from tests.support.real_agents import HOOK, PATIENCE_S, Workplace, briefings, program
from tests.support.repositories import plain_git
from tests.support.scripted_model import scripted_model
from tests.support.terminals import run_in_terminal

pytestmark = [pytest.mark.real_agents, pytest.mark.timeout(900)]

__all__ = ["database", "migrated", "server"]
PROMPT: Final = "Write the parser and mend what its test shows"
PROGRAMS: Final = {
    "claude": "claude-code",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
}
STEPS: Final = (("read the grammar", "completed"), ("write the parser", "in_progress"))
FAILS: Final = "echo EXPECTED-4-GOT-5; exit 3"
REACHED: Final = "touch reached; sleep 600"
_MODEL: Final = "gemini-2.5-flash"


def _patch(name: str) -> dict[str, Any]:
    patch = f"*** Begin Patch\n*** Add File: {name}\n+x = 1\n*** End Patch\n"
    return {"name": "exec_command", "input": {"cmd": f"apply_patch <<'EOF'\n{patch}EOF"}}


def plan_tools(name: str) -> list[dict[str, Any]]:
    """Return the calls by which a program's model makes its plan."""
    if name == "claude":
        made = [
            {"name": "TaskCreate", "input": {"subject": one, "description": one}}
            for one, _ in STEPS
        ]
        return made + [
            {"name": "TaskUpdate", "input": {"taskId": str(number), "status": status}}
            for number, (_, status) in enumerate(STEPS, 1)
        ]
    if name == "codex":
        plan = [{"step": one, "status": status} for one, status in STEPS]
        return [{"name": "update_plan", "input": {"plan": plan}}]
    if name == "gemini":
        todos = [{"description": one, "status": status} for one, status in STEPS]
        return [{"name": "write_todos", "input": {"todos": todos}}]
    given = [{"content": one, "status": status, "priority": "high"} for one, status in STEPS]
    return [{"name": "todowrite", "input": {"todos": given}}]


def write_tool(name: str, place: Workplace) -> dict[str, Any]:
    """Return the call by which a program's model writes `parser.py`."""
    path = str(place.project / "parser.py")
    return {
        "claude": {"name": "Write", "input": {"file_path": path, "content": "x = 1\n"}},
        "codex": _patch("parser.py"),
        "gemini": {"name": "write_file", "input": {"file_path": path, "content": "x = 1\n"}},
        "opencode": {"name": "write", "input": {"filePath": path, "content": "x = 1\n"}},
    }[name]


def shell_tool(name: str, command: str) -> dict[str, Any]:
    """Return the call by which a program's model runs a command."""
    return {
        "claude": {"name": "Bash", "input": {"command": command}},
        "codex": {"name": "exec_command", "input": {"cmd": command}},
        "gemini": {"name": "run_shell_command", "input": {"command": command}},
        "opencode": {"name": "bash", "input": {"command": command, "description": "d"}},
    }[name]


def command_of(name: str) -> list[str | Path]:
    """Return the command line of a program's run without a terminal."""
    words: Mapping[str, tuple[str, ...]] = {
        "claude": ("-p", PROMPT, "--output-format", "json", "--allowedTools", "Bash,Write,Task*"),
        "codex": (
            *("exec", "--json", "--skip-git-repo-check", "-s", "workspace-write"),
            *("--dangerously-bypass-hook-trust", PROMPT),
        ),
        "gemini": ("-p", PROMPT, "-o", "json", "--approval-mode", "yolo", "-m", _MODEL),
        "opencode": ("run", "--format", "json", "--auto", PROMPT),
    }
    return [program(name), *words[name]]


class Desk:
    """A person's machine with two programs, in both of which our hooks are installed."""

    def __init__(self, place: Workplace, *names: str) -> None:
        self.place = place
        paths = [str(program(one).parent) for one in names]
        path = ":".join([*paths, place.environment()["PATH"]])
        tasks = {"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1", "ENABLE_TOOL_SEARCH": "false"}
        self.more = {"PATH": path, **tasks}
        subprocess.run(["git", "init", "-q", str(place.project)], check=True)
        for one in names:
            getattr(self, f"_configure_{one}")()
            self.agentforge("install", PROGRAMS[one])
            if one == "codex":
                review(place)

    def agentforge(self, *words: str) -> str:
        done = subprocess.run(
            [*self.place.model.network.prefix, str(HOOK.with_name("agentforge")), *words],
            cwd=self.place.project,
            env={**self.place.environment(), **self.more},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def take_up(self, session_id: str, name: str, *more: str) -> dict[str, Any]:
        """Take a session up in a program, and return its first request for the work."""
        place, asked = self.place, len(self.place.model.requests)

        def requests() -> list[dict[str, Any]]:
            return [one for one in place.model.requests[asked:] if one.get("tools")]

        shown = self.opened(session_id, name, *more, until=lambda: bool(requests()))
        assert requests(), shown[-3000:]
        return requests()[0]

    def opened(self, session_id: str, name: str, *more: str, until: Callable[[], bool]) -> str:
        """Take a session up in a program until a fact holds, and return what was shown."""
        words = ("resume", session_id, "--in", PROGRAMS[name], *more)
        return run_in_terminal(
            [*self.place.model.network.prefix, HOOK.with_name("agentforge"), *words],
            folder=self.place.project,
            environment={**self.place.environment(), **self.more},
            until=until,
            patience_s=PATIENCE_S,
        )

    def _configure_claude(self) -> None:
        known = {str(self.place.project): {"hasTrustDialogAccepted": True}}
        state = {
            "hasCompletedOnboarding": True,
            "customApiKeyResponses": {"approved": ["none"], "rejected": []},
            "projects": known,
        }
        (self.place.home / ".claude" / ".claude.json").write_text(json.dumps(state))

    def _configure_codex(self) -> None:
        with (self.place.home / ".codex" / "config.toml").open("a") as file:
            file.write(f'[projects."{self.place.project}"]\ntrust_level = "trusted"\n')

    def _configure_gemini(self) -> None:
        self.place.configure_gemini()
        file = self.place.home / ".gemini" / "settings.json"
        settings = json.loads(file.read_text())
        file.write_text(json.dumps({**settings, "model": {"name": _MODEL}}))

    def _configure_opencode(self) -> None:
        self.place.configure_opencode()


def ours_in(request: dict[str, Any]) -> str:
    """Return the briefing in a request, as the model reads it."""
    form = re.compile(r"AgentForge session briefing, revision .*?\n## Next step\n[^\n]*", re.DOTALL)
    (found,) = [one for text in _texts(request) for one in form.findall(text)]
    return str(found)


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return []


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(PROGRAMS, 2)))
def test_a_program_takes_up_what_a_killed_one_left(
    place: Workplace, first: str, second: str
) -> None:
    desk = Desk(place, first, second)
    session_id = place.begin(goal="A parser for intervals", budget=1_000_000)
    place.model.script.add(
        *({"tools": [one]} for one in plan_tools(first)),
        {"tools": [write_tool(first, place)]},
        {"tools": [shell_tool(first, FAILS)]},
        {"tools": [shell_tool(first, REACHED)]},
    )
    with place.running(command_of(first), **desk.more):
        wait_until((place.project / "reached").exists, patience_s=PATIENCE_S)
    place.model.script.clear()

    request = desk.take_up(session_id, second)
    whole, ours = json.dumps(request), ours_in(request)
    assert briefings(request) == 1
    assert most_tokens(ours) <= 2_000
    assert "A parser for intervals" in ours
    assert PROMPT in ours
    assert PROMPT in whole.replace(json.dumps(ours)[1:-1], ""), "the prompt itself is given again"
    assert "parser.py" in ours
    for step, _ in STEPS:
        assert step in ours
    assert FAILS in ours
    assert "EXPECTED-4-GOT-5" in ours.replace(FAILS, "")
    kinds = [entry.action for entry in place.session(session_id).history]
    assert kinds.count("agent_started") == 2


def test_a_session_goes_on_on_another_machine_with_its_files_and_comes_back(
    tmp_path: Path, database: Database
) -> None:
    origin = tmp_path / "origin"
    subprocess.run(["git", "init", "-q", "-b", "main", str(origin)], check=True)
    (origin / "grammar").write_text("digits\n")
    plain_git(origin, "add", "-A")
    plain_git(origin, "commit", "-q", "-m", "first")
    with scripted_model([]) as model:
        one, other = (
            _desk_in_clone(Workplace(tmp_path / name, model), origin, database)
            for name in ("one", "other")
        )
        model.script.add({"tools": [write_tool("claude", one.place)]})
        one.place.run(command_of("claude"), **one.more)
        store = PostgresStore(database, one.place.store.base_path)
        (session_id,) = store.list_sessions()

        def loaded() -> SessionContext:
            found = store.load(session_id)
            assert found is not None
            return found

        def is_sent() -> bool:
            packs = store.pack_index().packs(session_id, "workspace")
            return any(last_kept(loaded()).snapshot in each.snapshots for each in packs)

        wait_until(is_sent, patience_s=PATIENCE_S)
        model.script.add({"tools": [shell_tool("claude", REACHED)]})
        with one.place.running(command_of("claude"), **one.more):
            wait_until((one.place.project / "reached").exists, patience_s=PATIENCE_S)
        model.script.clear()

        ours = ours_in(other.take_up(session_id, "codex", "--files", "bring"))
        assert "parser.py" in ours
        assert PROMPT in ours
        assert (other.place.project / "parser.py").read_text() == "x = 1\n"
        model.script.add({"tools": [_patch("lexer.py")]})
        other.place.run(command_of("codex"), **other.more)
        wait_until(is_sent, patience_s=PATIENCE_S)

        (one.place.project / "reached").unlink()
        begun = len(conversations(loaded().history))
        shown = one.opened(
            *(session_id, "claude", "--files", "bring"),
            until=lambda: len(conversations(loaded().history)) > begun,
        )
        assert "lexer.py | 1 + (added)" in shown
        assert (one.place.project / "lexer.py").read_text() == "x = 1\n"
        assert list(store.list_sessions()) == [session_id]


def _desk_in_clone(place: Workplace, origin: Path, database: Database) -> Desk:
    """Return a desk whose project is a clone, and whose sessions are in a database."""
    clone = place.project.with_name("clone")
    subprocess.run(["git", "clone", "-q", str(origin), str(clone)], check=True)
    (clone / ".git").rename(place.project / ".git")
    plain_git(place.project, "checkout", "-q", "--", ".")
    desk = Desk(place, "claude", "codex")
    desk.more["AGENTFORGE_STORE"] = database.url
    return desk
