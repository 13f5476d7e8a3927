"""Old transcripts are pruned by their own date; the session and what is not ours stay."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from agentforge_sessions.agents.transcripts.entries import stream_of
from agentforge_sessions.agents.transcripts.prune_target import transcript_target
from agentforge_sessions.harness.prune_target import HarnessTarget
from agentforge_sessions.harness.stream_port import NewEntry
from agentforge_sessions.prune import (
    PruneEnvironment,
    PruneResult,
    RetentionPolicy,
    pin,
    prune,
    read_audit,
)
from tests.support.agent_conversations import Conversation, Project
from tests.support.transcripts import transcript

MONTH = timedelta(days=30)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def session_id(project: Project) -> str:
    return project.begin()


def talked(project: Project, name: str) -> Conversation:
    talk = Conversation(project, name)
    talk.start()
    talk.write({"type": "user", "uuid": "u1", "message": {"content": "Count"}})
    talk.hook("Stop", last_assistant_message="done")
    return talk


def pruned(project: Project, *, dry_run: bool = False) -> PruneResult:
    outside = PruneEnvironment(clock=project.clock)
    target = transcript_target(project.store, outside)
    policy = RetentionPolicy(max_age_hours=MONTH / timedelta(hours=1))
    return prune(target, policy, dry_run=dry_run, outside=outside)


def is_there(project: Project, session_id: str, talk: Conversation) -> bool:
    return bool(transcript(project.store, session_id, talk.program, talk.name))


def test_a_transcript_that_nothing_was_added_to_for_a_month_goes_and_its_session_stays(
    project: Project, session_id: str
) -> None:
    old = talked(project, "old")
    project.clock.advance(MONTH.total_seconds())
    new = talked(project, "new")
    project.clock.advance(60)
    name = f"{session_id}/{stream_of('claude-code', 'old')}"
    assert pruned(project, dry_run=True).deleted_sessions == [name]
    assert is_there(project, session_id, old)
    assert pruned(project).deleted_sessions == [name]
    assert not is_there(project, session_id, old)
    assert is_there(project, session_id, new)
    assert "agent_turn_ended" in project.actions(session_id)
    (line,) = [
        one
        for one in read_audit(project.store.base_path / ".prune" / "audit.jsonl")
        if one.get("kind") == "transcripts"
    ]
    assert (line["event"], line["session_id"]) == ("removed", name)
    assert pruned(project).deleted_sessions == []


def test_a_conversation_that_goes_on_after_that_is_copied_again(
    project: Project, session_id: str
) -> None:
    talk = talked(project, "talk")
    project.clock.advance(2 * MONTH.total_seconds())
    pruned(project)
    assert not is_there(project, session_id, talk)
    talk.hook("Stop", last_assistant_message="done")
    assert is_there(project, session_id, talk)


def test_the_transcripts_of_a_pinned_session_stay(project: Project, session_id: str) -> None:
    talk = talked(project, "talk")
    pin(HarnessTarget(project.store.base_path), session_id)
    project.clock.advance(2 * MONTH.total_seconds())
    assert pruned(project).deleted_sessions == []
    assert is_there(project, session_id, talk)


@pytest.mark.parametrize(
    "head",
    [
        b"{}",
        b"no json",
        json.dumps({"copied": "yesterday"}).encode(),
        json.dumps({"copied": "2020-01-01T00:00:00"}).encode(),
        json.dumps({"copied": 5}).encode(),
        json.dumps({"copied": "2999-01-01T00:00:00+00:00"}).encode(),
    ],
)
def test_what_cannot_be_dated_is_left_alone(project: Project, session_id: str, head: bytes) -> None:
    project.store.append_entries(session_id, "agent-mine", [NewEntry(head, b"x")])
    found = pruned(project)
    assert (found.deleted_sessions, len(found.skipped)) == ([], 1)
    assert project.store.read_entries(session_id, "agent-mine").entries


def test_what_is_no_transcript_or_no_file_is_left_alone(
    project: Project, session_id: str, tmp_path: Path
) -> None:
    talk = talked(project, "talk")
    folder = project.store.session_directory(session_id) / "streams"
    file = folder / f"{stream_of(talk.program, talk.name)}.log"
    moved = tmp_path / "elsewhere.log"
    os.rename(file, moved)
    file.symlink_to(moved)
    head = json.dumps({"copied": "2020-01-01T00:00:00+00:00"}).encode()
    project.store.append_entries(session_id, "thread", [NewEntry(head, b"x")])
    project.clock.advance(2 * MONTH.total_seconds())
    found = pruned(project)
    assert [one.reason for one in found.skipped] == ["symbolic_link"]
    assert found.deleted_sessions == []
    assert moved.exists()
    assert project.store.read_entries(session_id, "thread").entries
