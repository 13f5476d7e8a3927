"""A restarted conversation whose context has the briefing is given what is new, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentforge_sessions.agents.programs.context_file import holds_texts
from agentforge_sessions.base.data_folder import configuration_folder
from agentforge_sessions.harness.domain.history_events import QuestionAsked, QuestionRejected
from tests.support.agent_conversations import CodexConversation, Conversation, Project

BRIEFED = "AgentForge session briefing, revision "
UPDATED = "AgentForge session update, revision "


class Claude(Conversation):
    """Writes what hooks give it into its transcript, as Claude Code does."""

    def take(self, text: str) -> str:
        given = {"type": "hook_additional_context", "content": [text]}
        self.write({"type": "attachment", "attachment": given})
        return text

    def compact(self) -> None:
        self.raw('{"type":"system","subtype":"compact_boundary"}')

    def raw(self, line: str) -> None:
        with self.transcript.open("a") as file:
            file.write(f"{line}\n")


class Codex(Claude, CodexConversation):
    """Likewise, as Codex does."""

    def take(self, text: str) -> str:
        message = {"role": "developer", "content": [{"type": "input_text", "text": text}]}
        self.write({"type": "response_item", "payload": message})
        return text

    def compact(self) -> None:
        self.raw('{"timestamp":"2026","type":"compacted","payload":{}}')


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture(params=[Claude, Codex])
def talk(project: Project, request: pytest.FixtureRequest) -> Claude:
    project.begin(goal="Count the words")
    found = request.param(project)
    assert isinstance(found, Claude)
    return found


def test_a_restart_without_news_is_one_line(talk: Claude) -> None:
    talk.take(talk.start())
    talk.prompt("Begin with the parser")
    talk.hook("Stop", last_assistant_message="The parser is written")
    again = talk.start("resume")
    assert again.startswith(UPDATED)
    assert again.endswith("10,000 of 10,000 tokens are left. The briefing above still holds.")
    assert "\n" not in again


def test_a_restart_after_work_elsewhere_is_given_that_and_nothing_again(
    project: Project, talk: Claude
) -> None:
    first = talk.take(talk.start())
    talk.prompt("Begin with the parser")
    other = (Codex if isinstance(talk, Codex) else Claude)(project, "other")
    other.start()
    other.prompt("Write the printer")
    (project.folder / "printer.py").write_text("x = 1\n")
    patch = "*** Add File: printer.py"
    for name, given in (
        ("Write", {"file_path": str(project.folder / "printer.py")}),
        ("apply_patch", {"command": patch}),
    ):
        other.hook(
            "PostToolUse", tool_name=name, tool_input=given, tool_response={"type": "create"}
        )
    other.hook("Stop", last_assistant_message="The printer is written ~~~~ ” <b>")
    again = talk.start("resume")
    assert again.startswith(UPDATED)
    assert ": “Write the printer”" in again
    assert '“The printer is written ~~~~ " \u2039b>”\n' in again
    assert "- printer.py (created)" in again
    assert "parser" not in again
    assert not {line for line in again.splitlines() if "“" in line} & set(first.splitlines())
    assert again.splitlines()[-1] == "~" * 5

    talk.take(again)
    assert "\n" not in talk.start("resume"), "an update is not repeated either"


def ran(talk: Conversation, number: int, command: str, *, fails: bool = False) -> None:
    call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": command}}
    done = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "red", "is_error": fails}
    for kind, content in (("assistant", call), ("user", done)):
        talk.write({"type": kind, "uuid": f"{number}-{kind}", "message": {"content": [content]}})


def test_an_update_takes_back_what_is_no_longer_so(project: Project, talk: Claude) -> None:
    (session_id,) = project.store.list_sessions()
    other = Claude(project, "other")
    other.start()
    other.prompt("Mend the parser")
    ran(other, 1, "make test", fails=True)
    project.open(session_id).record(QuestionAsked(question_id="q-1", prompts=("Which one?",)))
    other.hook("PreCompact", trigger="auto")
    first = talk.take(talk.start())
    lines = first.splitlines()
    taken_back = [one for one in lines if "“make test”" in one or one.startswith("- question q")]
    taken_back += [f"- {one}" for one in lines if one.startswith("Asked last")]
    assert len(taken_back) == 3
    ran(other, 2, "make test")
    project.open(session_id).record(QuestionRejected(question_id="q-1"))
    other.hook("Stop", last_assistant_message="It is mended")
    again = talk.take(talk.start("resume"))
    said = again.partition("## No longer so\n")[2].partition("\n## ")[0].splitlines()
    assert sorted(said) == sorted(taken_back)
    assert "\n" not in talk.start("resume")


def test_an_update_does_not_take_back_a_failed_command_when_another_fails(
    project: Project, talk: Claude
) -> None:
    other = Claude(project, "other")
    other.start()
    other.prompt("Mend the parser")
    ran(other, 1, "make test", fails=True)
    other.hook("PreCompact", trigger="auto")
    talk.take(talk.start())
    ran(other, 2, "make lint", fails=True)
    other.prompt("And now?")
    again = talk.start("resume")
    assert "“make lint”" in again
    assert "No longer so" not in again


def test_a_briefing_and_its_updates_take_2_000_tokens_together(
    project: Project, talk: Claude
) -> None:
    other = Claude(project, "other")
    other.start()

    def work() -> None:
        for number in range(12):
            other.prompt(f"Prompt {number}: {'words and more words ' * 30}")
            other.hook("Stop", last_assistant_message=f"Turn {number}: {'it is done ' * 20}")

    work()
    given = [talk.take(talk.start())]
    for _ in range(3):
        work()
        given.append(talk.take(talk.start("resume")))
        assert "more lines are in the session's file" in given[-1]
    assert all("Turn 11" in one for one in given[:3])
    assert [one.startswith(UPDATED) for one in given] == [False, True, True, True]
    assert sum(map(len, given)) <= 2_000 * 4


def test_a_pause_is_news_with_what_to_do(project: Project, talk: Claude) -> None:
    talk.take(talk.start())
    (session_id,) = project.store.list_sessions()
    project.open(session_id).pause("Wait for the review")
    again = talk.start("resume")
    assert again.startswith(UPDATED)
    assert ": paused\n" in again
    assert "“Wait for the review”" in again
    assert again.endswith("The session is paused. A person decides when it goes on.")


def test_a_compaction_is_followed_by_a_whole_briefing_and_a_restart_by_none(talk: Claude) -> None:
    talk.take(talk.start())
    talk.hook("PostCompact", trigger="auto", compact_summary="Half is done")
    briefing = talk.start("compact")  # before the program wrote of it, too
    talk.compact()
    assert briefing.startswith(BRIEFED)
    assert "Half is done" in briefing
    talk.take(briefing)
    assert talk.start("resume").startswith(UPDATED)


@pytest.mark.parametrize("lost", ["not written", "compacted", "no file", "update", "quoted"])
def test_what_the_context_lacks_is_given_whole(talk: Claude, lost: str) -> None:
    briefing = talk.start()
    if lost == "quoted":
        talk.take(f"I read: {json.dumps(briefing)}")
    elif lost != "not written":
        talk.take(briefing)
    if lost == "compacted":
        talk.compact()
    if lost == "update":
        assert talk.start("resume").startswith(UPDATED)
    if lost == "no file":
        talk.transcript.unlink()
    assert talk.start("resume").startswith(BRIEFED)


def test_the_briefing_of_another_session_does_not_count(project: Project, talk: Claude) -> None:
    talk.take(talk.start())
    (session_id,) = project.store.list_sessions()
    project.open(session_id).complete()
    project.begin(goal="Another thing")
    assert "Goal: “Another thing”" in talk.start("resume")


def test_an_update_has_nothing_of_a_hidden_program(project: Project) -> None:
    project.begin()
    talk = Codex(project)
    talk.take(talk.start())
    other = Claude(project, "other")
    other.start()
    other.prompt("secret prompt")
    other.hook("Stop", last_assistant_message="secret answer")
    path = configuration_folder() / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('[privacy.codex]\nhides = ["claude-code"]\n')
    try:
        again = talk.start("resume")
    finally:
        path.unlink()
    assert again.startswith(UPDATED)
    assert "secret" not in again
    assert "secret answer" in talk.start("compact")


def test_a_long_file_is_read_from_its_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b'"It is here"' + b"x" * 17_000_000)
    assert not holds_texts(str(file), ["It is"], b"compacted")
    with file.open("ab") as end:
        end.write(b'"It is here"')
    assert holds_texts(str(file), ["It is"], b"compacted")
    assert not holds_texts(str(file), ["It is"], None)
    assert not holds_texts(str(file), [], b"compacted")
    assert not holds_texts(f"{file}\0", ["It is"], b"compacted")
