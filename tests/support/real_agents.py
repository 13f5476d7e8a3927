"""The real agent programs, each in a home of its own, against a scripted model on this machine.

`make agents` installs pinned versions into a cache folder of the repository. Nothing of this
machine's own programs, configuration or keys is used: the environment is empty but for what is
given here, and every address is 127.0.0.1.
"""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from agentforge_sessions.agents.setup.manifest import Places, Scope
from agentforge_sessions.agents.setup.pieces import PIECES, Commands
from agentforge_sessions.harness import SessionStore
from agentforge_sessions.harness.store.sessions_place import OwnSessions
from tests.support.loopback import loopback
from tests.support.promptness import wait_until
from tests.support.scripted_model import ScriptedModel
from tests.support.sessions import SessionsInUse
from tests.support.trusting import trusted

ROOT: Final = Path(__file__).parents[2]
PREFIX: Final = Path(os.environ.get("AGENTFORGE_TEST_AGENTS") or ROOT / ".benchmarks" / "agents")
"""Where `make agents` puts the programs."""
HOOK: Final = Path(sys.executable).with_name("agentforge-hook")
FULL_DISK: Final = "sh -c 'ulimit -f 0; exec \"$@\"' sh"
"""What comes before a command that can write to no file."""
_TIMEOUT_S: Final = 280
PATIENCE_S: Final = 280
"""How long a program may take to reach a point, on a machine that has much else to do."""


def hook_script(tmp_path: Path, body: str) -> Path:
    """Write a program that stands in for our hook, in the folder."""
    script = tmp_path / "own-hook"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return script


def program(name: str, inside: str = "") -> Path:
    """Return a program, or what else is in its prefix, or skip the test with the reason."""
    found = PREFIX / name / (inside or f"node_modules/.bin/{name}")
    if not found.exists():
        pytest.skip(f"there is no {found}; `make agents` installs the pinned programs from npm")
    if not inside and (problem := _does_not_run(name, found)):
        pytest.skip(f"{found} does not run on this machine: {problem}")
    return found


@functools.cache
def _does_not_run(name: str, command: Path) -> str:
    """Return what a program says that is installed and can't be run, or nothing.

    Raises:
        AssertionError: It is of another version than the pinned one.
    """
    with loopback() as network, tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [*network.prefix, str(command), "--version"],
            cwd=home,
            env={"PATH": os.environ["PATH"], "HOME": home},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    if done.returncode != 0:
        return f"{done.stdout}{done.stderr}".strip()[-500:] or f"exit code {done.returncode}"
    pinned = (PREFIX / name / ".installed").read_text().rpartition("@")[2].strip()
    assert pinned in done.stdout.split(), f"{name} {pinned} is pinned, this is {done.stdout!r}"
    return ""


class Workplace(SessionsInUse):
    """A project folder with a session, and the home of one person."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.model = model
        self.home = folder / "home"
        self.project = folder / "project"
        for one in (self.home / ".claude", self.home / ".codex", self.project / ".agentforge"):
            one.mkdir(parents=True)
        base = self.project / ".agentforge" / "sessions"
        own = OwnSessions(base, environment={"HOME": str(self.home)})
        super().__init__(SessionStore(base, own=own))
        (self.home / ".codex" / "config.toml").write_text(
            'model = "scripted"\nmodel_provider = "scripted"\ncheck_for_update_on_startup = false\n'
            "[analytics]\nenabled = false\n"
            '[model_providers.scripted]\nname = "scripted"\nwire_api = "responses"\n'
            f'env_key = "SCRIPTED_KEY"\nbase_url = "http://127.0.0.1:{model.port}/v1"\n'
        )

    def install(self, name: str, hook: Path = HOOK) -> None:
        """Put our pieces into a program's folders in this home, with a server that is none."""
        places = Places(self.home, self.project, {})
        commands = Commands(hook, Path("/bin/false"), "1.0")
        pieces = PIECES[name](places, Scope.USER, commands)
        for path, content in pieces.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for path, block in pieces.blocks.items():
            path.write_text(path.read_text() + block)

    def configure_opencode(self, *, context: int = 200_000) -> None:
        """Name the model in the home of opencode, beside what its plugins are typed by."""
        folder = self.home / ".config" / "opencode"
        folder.mkdir(parents=True, exist_ok=True)
        model = {"limit": {"context": context, "output": 8_000}, "tool_call": True}
        provider = {
            "npm": "@ai-sdk/anthropic",
            "options": {"baseURL": f"http://127.0.0.1:{self.model.port}/v1", "apiKey": "none"},
            "models": {"m": model},
        }
        named = {"model": "scripted/m", "small_model": "scripted/m"}
        off = dict.fromkeys(("autoupdate", "snapshot", "lsp", "formatter"), False)
        settings = {**named, **off, "provider": {"scripted": provider}}
        (folder / "opencode.json").write_text(json.dumps(settings))
        types = program("opencode-plugin", "node_modules")
        if not (folder / "node_modules").exists():  # without them it waits for a network
            (folder / "node_modules").symlink_to(types)
            for name in ("package.json", "package-lock.json"):
                (folder / name).write_bytes((types.parent / name).read_bytes())

    def configure_gemini(self) -> None:
        """Name the way to the model in the home of Gemini CLI, and nothing that leaves it."""
        folder = self.home / ".gemini"
        folder.mkdir(exist_ok=True)
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        }
        (folder / "settings.json").write_text(json.dumps(settings))

    def begin(self, *, budget: int = 100_000, goal: str | None = "Build the thing") -> str:
        return super().begin(budget=budget, goal=goal)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{HOOK.parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "CODEX_HOME": str(self.home / ".codex"),
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{self.model.port}",
            "ANTHROPIC_API_KEY": "none",
            "SCRIPTED_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{self.model.port}",
            "GEMINI_API_KEY": "none",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "TMPDIR": str(self.home),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_SHARE": "1",
            "MCP_TIMEOUT": "120000",  # a server of ours starts slowly on a busy machine
        }

    def hook_claude(self, hook: str | None = None) -> None:
        """Name the hook in the project's settings of Claude Code."""
        from agentforge_sessions.agents.programs.claude_code import EVENTS

        folder = self.project / ".claude"
        folder.mkdir(exist_ok=True)
        (folder / "settings.json").write_text(_hooks(EVENTS, hook or f"{HOOK} claude-code"))

    def hook_codex(self, hook: str | None = None) -> None:
        """Name the hook in the home of Codex."""
        from agentforge_sessions.agents.programs.codex import EVENTS

        (self.home / ".codex" / "hooks.json").write_text(_hooks(EVENTS, hook or f"{HOOK} codex"))

    def start(self, command: Sequence[str | Path], **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.model.network.prefix, *map(str, command)],
            cwd=self.project,
            env={**self.environment(), **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @contextmanager
    def running(
        self, command: Sequence[str | Path], **more: str
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a program, and kill what runs of it at the end of the block."""
        process = self.start(command, **more)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def run(self, command: Sequence[str | Path], *, expected: int = 0, **more: str) -> str:
        with self.running(command, **more) as process:
            out, err = process.communicate(timeout=_TIMEOUT_S)
        assert process.returncode == expected, (out[-2000:], err[-2000:])
        return out

    def kill_at_work(self, command: Sequence[str | Path]) -> None:
        """Run a program until it has made the file `reached` in the project, and kill it then."""
        with self.running(command):
            wait_until((self.project / "reached").exists, patience_s=PATIENCE_S)

    def configure_gate(self) -> None:
        """Have the end of each turn judged by whether the file `fixed` is in the project."""
        text = (
            "[agents]\ngate = true\n[gate]\n"
            "command = \"sh -c 'test -f fixed || { echo IT-IS-RED; exit 1; }'\"\n"
        )
        trusted(self.project, text, environment=self.environment())

    def claude(self, prompt: str, *options: str, **more: str) -> dict[str, Any]:
        """Run one prompt of Claude Code, and return what it reports."""
        command = [program("claude"), "-p", prompt, "--output-format", "json"]
        out = self.run([*command, "--permission-mode", "acceptEdits", *options], **more)
        found: dict[str, Any] = json.loads(out)
        return found

    def codex(self, prompt: str, *options: str) -> list[dict[str, Any]]:
        """Run one prompt of Codex, and return its events."""
        command = [program("codex"), "exec", "--json", "--skip-git-repo-check"]
        command += ["-s", "workspace-write", "--dangerously-bypass-hook-trust"]
        out = self.run([*command, *options, prompt])
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def opencode(self, prompt: str, *options: str, fails: bool = False) -> list[dict[str, Any]]:
        """Run one prompt of opencode, and return its events."""
        command = [program("opencode"), "run", "--format", "json", "--auto", *options, prompt]
        out = self.run(command, expected=1 if fails else 0)
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def gemini(self, prompt: str, *options: str, fails: bool = False) -> dict[str, Any]:
        """Run one prompt of Gemini CLI, and return what it reports; empty where it fails."""
        command = [program("gemini"), "-p", prompt, "-o", "json", "--approval-mode", "yolo"]
        out = self.run([*command, "-m", "gemini-2.5-flash", *options], expected=1 if fails else 0)
        found: dict[str, Any] = json.loads(out) if out else {}
        return found


def reported_by_claude(result: dict[str, Any]) -> int:
    """Return all tokens that a run of Claude Code reports, of all models and subagents."""
    kinds = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    return sum(model[kind] for model in result["modelUsage"].values() for kind in kinds)


def briefings(request: dict[str, Any]) -> int:
    """Return how many briefings of ours a request to the model has."""
    return json.dumps(request).count("AgentForge session briefing, revision")


def warnings(request: dict[str, Any]) -> int:
    """Return how often a request to the model says that 80 % of the budget are spent."""
    return len(re.findall(r"AgentForge: \d+ % of this session's token budget", json.dumps(request)))


def _hooks(events: Sequence[str], command: str) -> str:
    hooks = {event: [{"hooks": [{"type": "command", "command": command}]}] for event in events}
    return json.dumps({"hooks": hooks})
