"""What the hook recorded is told by a process of its own; nobody who waits for the hook waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agentforge_sessions.agents.hooks.handler import handle
from agentforge_sessions.fleet import stores
from tests.support.agent_conversations import Conversation, Project
from tests.support.person import persons_folders
from tests.support.promptness import PATIENCE_S, wait_until
from tests.support.trusting import trusted
from tests.support.webhook_receiver import receiving


class Begun:
    """What was begun, and is not."""

    def __init__(self) -> None:
        self.words: list[Sequence[str]] = []

    def __call__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self.words.append(words)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def talk(project: Project) -> Conversation:
    project.begin(budget=1_000)
    found = Conversation(project)
    found.start()
    return found


def name_a_receiver(folder: Path, url: str = "https://example.com/") -> None:
    trusted(
        folder / "config.toml",
        f'[[webhooks]]\nname = "team"\nurl = "{url}"\nevents = ["agent.turn_ended"]\n',
    )


def call(talk: Conversation, event: str, environment: dict[str, str], **fields: object) -> Begun:
    begun = Begun()
    handle(
        "claude-code",
        talk.payload(event, **fields),
        {**persons_folders(), **environment},
        stores=stores,
        clock=talk.project.clock,
        start=begun,
    )
    return begun


def test_the_end_of_a_turn_has_receivers_told(project: Project, talk: Conversation) -> None:
    name_a_receiver(project.data_folder)
    [words] = call(talk, "Stop", {}, last_assistant_message="Done.").words
    assert words[:3] == [sys.executable, "-P", "-c"]
    base = str(project.data_folder / "sessions")
    assert list(words[4:]) == [
        *(str(project.folder), "--base", base, "webhooks", "deliver", "--due"),
    ]


def test_receivers_of_the_persons_own_configuration_count(
    talk: Conversation, tmp_path: Path
) -> None:
    name_a_receiver(tmp_path / "own" / "agentforge")
    own = {"XDG_CONFIG_HOME": str(tmp_path / "own")}
    assert call(talk, "Stop", own, last_assistant_message="Done.").words


def test_nothing_is_begun_for_receivers_that_a_stranger_named(
    project: Project, talk: Conversation
) -> None:
    name_a_receiver(project.data_folder)
    with (project.data_folder / "config.toml").open("a") as file:
        file.write("# and changed since\n")
    assert call(talk, "Stop", {}, last_assistant_message="Done.").words == []


def test_a_fifo_in_the_place_of_the_configuration_holds_nobody_up(
    project: Project, talk: Conversation
) -> None:
    os.mkfifo(project.data_folder / "config.toml")
    assert call(talk, "Stop", {}, last_assistant_message="Done.").words == []


def test_a_conversation_that_starts_has_told_what_lies_behind(
    project: Project, talk: Conversation
) -> None:
    """A receiver that is new begins here, before the first turn, and not at its end."""
    name_a_receiver(project.data_folder)
    assert call(talk, "SessionStart", {}, source="resume").words


def test_a_conversation_that_takes_up_a_session_has_told_what_lies_behind(
    project: Project, talk: Conversation
) -> None:
    name_a_receiver(project.data_folder)
    other = Conversation(project, "another")
    assert call(other, "UserPromptSubmit", {}, prompt="Go on").words
    assert call(other, "UserPromptSubmit", {}, prompt="Go on").words == []


def test_a_pause_is_told_at_once(project: Project, talk: Conversation) -> None:
    name_a_receiver(project.data_folder)
    talk.spend(2_000)
    assert call(talk, "PreToolUse", {}, tool_name="Bash", tool_input={}).words


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("UserPromptSubmit", {"prompt": "Go on"}),
        ("PreToolUse", {"tool_name": "Bash", "tool_input": {}}),
    ],
)
def test_nothing_is_begun_in_the_middle_of_a_turn(
    project: Project, talk: Conversation, event: str, fields: dict[str, object]
) -> None:
    name_a_receiver(project.data_folder)
    assert call(talk, event, {}, **fields).words == []


def test_nothing_is_begun_where_nobody_is_to_be_told(
    project: Project, talk: Conversation, tmp_path: Path
) -> None:
    (project.data_folder / "config.toml").write_text("[briefing]\n")
    own = {"XDG_CONFIG_HOME": str(tmp_path / "own")}
    assert call(talk, "Stop", own, last_assistant_message="Done.").words == []


def test_that_it_can_not_be_begun_fails_no_turn(project: Project, talk: Conversation) -> None:
    def refused(words: Sequence[str], environment: Mapping[str, str]) -> None:
        raise OSError("no process")

    name_a_receiver(project.data_folder)
    payload = talk.payload("Stop", last_assistant_message="Done.")
    clock = project.clock
    assert handle("claude-code", payload, {}, stores=stores, clock=clock, start=refused) is None


def test_what_a_real_hook_recorded_reaches_the_receiver(
    project: Project, talk: Conversation
) -> None:
    """A module of the project, which a clone may bring, is not loaded by what tells."""
    (project.folder / "json.py").write_text("raise SystemExit('loaded from the project')")
    (project.folder / "agentforge_sessions.py").write_text("raise SystemExit('loaded, too')")
    hook = "from agentforge_sessions.entrypoints.hook.main import main; main()"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AGENTFORGE_")}
    with receiving() as receiver:
        name_a_receiver(project.data_folder, receiver.url)
        deliver = [sys.executable, "-P", "-c", "from agentforge_sessions.entrypoints.cli.main "]
        deliver[-1] += "import main; main()"
        begun = subprocess.run(  # the receiver begins here
            [*deliver, "webhooks", "deliver"], cwd=project.folder, check=True, env=environment
        )
        assert begun.returncode == 0
        payload = talk.payload("Stop", last_assistant_message="Done.")
        done = subprocess.run(
            [sys.executable, "-P", "-c", hook, "claude-code"],
            input=json.dumps(payload).encode(),
            check=True,
            capture_output=True,
            env=environment,
            timeout=PATIENCE_S,
        )
        assert done.stderr == b""
        wait_until(lambda: receiver.received)
    [told] = [json.loads(one.body) for one in receiver.received]
    assert told["type"] == "agent.turn_ended"
