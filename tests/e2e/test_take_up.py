"""`agentforge resume` opens an agent program on its session, and another one takes it up.

The programs are scripts: they write down how they were started, and call the hook as the real ones
do, from a process of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.agents.programs.agent_process import calling_process, is_running
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.store.sessions_place import OwnSessions
from agentforge_sessions.harness.views.conversations import conversations
from tests.support.agent_commands import put_command

TOOLS = Path(sys.executable).parent
STARTED = """
test "$1" = app-server && exec "{bin}/server"
test "$1" = hook && {{ printf '%s' "$2" | "{hook}" {program}; exit; }}
printf '%s\\n' "$PWD" "${{AGENTFORGE_SESSION-none}}" "${{AGENTFORGE_CALL-none}}" "$@" \\
> "{out}"
"""
COMMANDS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini", "opencode": "opencode"}


class Desk:
    """A person's home, a project, and agent programs that write down how they were started."""

    def __init__(self, folder: Path) -> None:
        self.home, self.bin, self.project = folder / "home", folder / "bin", folder / "project"
        self.out = folder / "started"
        self.base = self.project / ".agentforge" / "sessions"
        for one in (self.home, self.bin, self.base):
            one.mkdir(parents=True)
        self.environment = {"HOME": str(self.home), "PATH": str(self.bin), "LANG": "C.UTF-8"}
        own = OwnSessions(self.base, environment=self.environment)
        self.manager = SessionManager(SessionStore(self.base, own=own))
        session = self.manager.create("agent", None, token_budget=1000, goal="Count words")
        self.session_id = session.session_id

    def put(self, *programs: str) -> None:
        """Put programs on the path, with our hooks in each."""
        for name in programs:
            given = {"bin": self.bin, "hook": TOOLS / "agentforge-hook", "out": self.out}
            put_command(self.bin, COMMANDS[name], STARTED.format(program=name, **given))
            assert self.agentforge("install", name).returncode == 0

    def trust(self, trust: str) -> None:
        """Have Codex list our hook with this trust."""
        text = (self.home / ".codex" / "config.toml").read_text()
        line = next(one for one in text.splitlines() if one.startswith('command = "'))
        hook = {"command": json.loads(line.partition(" = ")[2]), "trustStatus": trust}
        answer = {"id": 2, "result": {"data": [{"hooks": [{**hook, "enabled": True}]}]}}
        put_command(self.bin, "server", f"echo '{json.dumps(answer)}'")

    def agentforge(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [TOOLS / "agentforge", *words],
            cwd=self.project,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def hook(self, program: str, event: str, *, conversation: str = "talk-1", **fields: Any) -> str:
        """Have a program call the hook, from a process that then ends."""
        payload = {"hook_event_name": event, "session_id": conversation, "cwd": str(self.project)}
        done = subprocess.run(
            [self.bin / COMMANDS[program], "hook", json.dumps({**payload, **fields})],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def resumed(self, *words: str, **more: str) -> list[str]:
        """Resume, and return how the program was started: folder, session, call, words."""
        done = self.agentforge("resume", *words, **more)
        assert done.returncode == 0, done.stderr
        return self.out.read_text().splitlines()

    def sessions_of(self, program: str) -> list[str]:
        """Return the session that a new conversation of a program has."""
        self.hook(program, "SessionStart", conversation="later", source="startup")
        session = self.manager.store.load(self.session_id)
        assert session is not None
        talks = conversations(session.history)
        return [session.session_id for one in talks if one.agent_session == "later"]

    def refused(self, *words: str) -> str:
        """Return why nothing was started."""
        before = self.manager.store.load(self.session_id)
        done = self.agentforge("resume", *words)
        assert done.returncode == 6, (done.returncode, done.stdout, done.stderr)
        assert not self.out.exists()
        assert self.manager.store.load(self.session_id) == before
        return done.stderr


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def worked(desk: Desk, program: str = "claude-code", prompt: str = "Write the parser") -> None:
    """Have a program begin a prompt and end without ending its turn."""
    desk.hook(program, "SessionStart", source="startup")
    desk.hook(program, "UserPromptSubmit", prompt=prompt)


def test_the_program_that_worked_last_goes_on_with_its_own_conversation(desk: Desk) -> None:
    desk.put("claude-code", "gemini")
    worked(desk, "claude-code")
    given = {"AGENTFORGE_CALL": "1", "AGENTFORGE_SESSION": "another"}
    found = desk.resumed(desk.session_id, **given)
    assert found == [str(desk.project), "none", "none", "--resume", "talk-1"]


def test_no_program_of_the_repository_is_opened(desk: Desk) -> None:
    desk.put("claude-code")
    worked(desk)
    (desk.project / ".git").mkdir()
    (desk.project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    put_command(desk.project / "bin", "claude", f"touch {desk.out}")
    desk.environment["PATH"] = f"{desk.project / 'bin'}:{desk.bin}"
    assert "which is in this repository" in " ".join(desk.refused(desk.session_id).split())


def test_another_program_takes_the_unfinished_prompt_up_in_the_same_folder(desk: Desk) -> None:
    desk.put("claude-code", "gemini")
    worked(desk)
    folder, *_, prompt = desk.resumed("--in", "gemini", desk.session_id[-8:])
    assert (folder, prompt) == (str(desk.project), "--prompt-interactive=Write the parser")


def test_the_session_that_is_taken_up_is_the_one_of_the_branch_from_then_on(desk: Desk) -> None:
    desk.put("opencode", "claude-code")
    SessionManager(desk.manager.store).create("agent", None)
    assert desk.sessions_of("claude-code") == []
    desk.resumed("--in", "opencode", desk.session_id)
    assert desk.sessions_of("claude-code") == [desk.session_id]


def test_without_an_id_the_session_of_the_branch_is_taken_up(desk: Desk) -> None:
    desk.put("opencode", "claude-code")
    desk.resumed("--in", "opencode")
    SessionManager(desk.manager.store).create("agent", None)
    desk.resumed("--in", "opencode")
    assert desk.sessions_of("claude-code") == [desk.session_id]


def test_without_an_id_and_with_several_open_sessions_one_has_to_be_named(desk: Desk) -> None:
    desk.put("opencode")
    SessionManager(desk.manager.store).create("agent", None)
    assert desk.agentforge("resume", "--in", "opencode").returncode == 2
    assert not desk.out.exists()


@pytest.mark.parametrize("prompt", ["/quit", "!rm -rf .", "@secret", "x" * 9000])
def test_a_prompt_that_a_program_would_read_otherwise_is_left_to_the_briefing(
    desk: Desk, prompt: str
) -> None:
    desk.put("claude-code")
    worked(desk, prompt=prompt)
    assert desk.resumed(desk.session_id, "--in", "claude-code")[3:] == []


def test_a_prompt_that_begins_like_an_option_is_a_prompt(desk: Desk) -> None:
    desk.put("claude-code")
    worked(desk, prompt="--help me")
    assert desk.resumed(desk.session_id, "--in", "claude-code")[3:] == ["--", "--help me"]


def test_a_finished_prompt_is_not_given_again(desk: Desk) -> None:
    desk.put("claude-code", "opencode")
    worked(desk)
    desk.hook("claude-code", "Stop", last_assistant_message="Done.")
    assert desk.resumed(desk.session_id, "--in", "opencode")[3:] == []


def test_a_prompt_that_privacy_hides_is_not_given_to_the_other_program(desk: Desk) -> None:
    desk.put("claude-code", "opencode")
    worked(desk)
    config = desk.home / ".config" / "agentforge" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[privacy.opencode]\nhides = ["claude-code"]\n')
    assert desk.resumed(desk.session_id, "--in", "opencode")[3:] == []
    assert desk.resumed(desk.session_id, "--in", "claude-code")[3:] == ["--", "Write the parser"]


def test_a_paused_session_goes_on(desk: Desk) -> None:
    desk.put("opencode")
    desk.manager.pause("for lunch")
    desk.resumed(desk.session_id, "--in", "opencode")
    session = desk.manager.store.load(desk.session_id)
    assert session is not None
    assert session.state.value == "active"


def test_each_reason_not_to_open_a_program_is_said(desk: Desk) -> None:
    put = (desk.session_id, "--in")
    assert "none worked on it; name one" in desk.refused(desk.session_id)
    assert "there is no opencode on the PATH" in desk.refused(*put, "opencode")
    put_command(desk.bin, "claude", "")
    assert "first: agentforge install claude-code" in desk.refused(*put, "claude-code")
    desk.put("claude-code")
    for one in (desk.home / ".claude").rglob("hooks.json"):
        one.unlink()
    assert "hooks.json is missing" in desk.refused(*put, "claude-code")
    desk.put("codex")
    desk.trust("untrusted")
    assert "review them in /hooks" in desk.refused(*put, "codex")
    desk.manager.record_tokens(1000)
    desk.put("claude-code")
    said = desk.refused(*put, "claude-code")
    assert f"agentforge session budget {desk.session_id} --extend" in said
    desk.manager.abort("no longer wanted")
    assert "the session is aborted" in desk.refused(*put, "claude-code")


def test_codex_that_trusts_the_hooks_is_opened(desk: Desk) -> None:
    desk.put("codex")
    desk.trust("trusted")
    worked(desk, "codex")
    assert desk.resumed(desk.session_id)[3:] == ["resume", "talk-1"]


def test_a_session_whose_program_still_runs_is_not_taken_up(desk: Desk) -> None:
    desk.put("claude-code", "opencode")
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": "talk-1", "prompt": "Go"}
    subprocess.run(
        ["/bin/sh", "-c", f"{TOOLS / 'agentforge-hook'} claude-code; true"],
        env=desk.environment,
        input=json.dumps({**payload, "cwd": str(desk.project)}),
        text=True,
        check=True,
    )
    said = desk.refused(desk.session_id, "--in", "opencode")
    assert f"claude-code (process {os.getpid()}) is at work on it; end that first" in said


def test_a_folder_that_is_missing_is_named(desk: Desk) -> None:
    desk.put("claude-code", "opencode")
    inner = desk.project / "inner"
    inner.mkdir()
    desk.hook("claude-code", "SessionStart", source="startup", cwd=str(inner))
    assert desk.resumed(desk.session_id, "--in", "opencode")[0] == str(inner)
    desk.out.unlink()
    inner.rmdir()
    assert f"the folder {inner}" in desk.refused(desk.session_id, "--in", "opencode")


def test_a_conversation_of_another_machine_is_not_gone_on_with_but_taken_up(desk: Desk) -> None:
    desk.put("claude-code")
    worked(desk)
    elsewhere = {"XDG_STATE_HOME": str(desk.home / "elsewhere")}
    (desk.home / "elsewhere").mkdir()
    desk.environment |= elsewhere
    desk.put("claude-code")
    assert desk.agentforge("session", "adopt", desk.session_id, "--yes").returncode == 0
    assert "is not on this machine; begin one" in desk.refused(desk.session_id)
    found = desk.resumed(desk.session_id, "--in", "claude-code")
    assert found[3:] == ["--", "Write the parser"]


def test_a_word_that_nobody_has_names_the_command(desk: Desk) -> None:
    done = desk.agentforge("take-up")
    assert (done.returncode, "`agentforge resume ID --in PROGRAM`" in done.stderr) == (2, True)
    assert desk.agentforge("resume", desk.session_id, "--in", "vim").returncode == 2
    assert desk.agentforge("resume", desk.session_id, "--in", "codex", "--json").returncode == 2


def test_a_process_that_ended_is_not_taken_for_another_with_its_id() -> None:
    process = calling_process()
    assert is_running(process)
    assert not is_running([process[0], process[1] + 1])
    assert not is_running([])
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    assert not is_running([int(ended.stdout), process[1]])
