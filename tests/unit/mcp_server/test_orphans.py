"""Questions whose waiting server is gone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from attrs import evolve, frozen

from tools.mcp_server.orphans import REASON, is_orphan, waiting_call_id, withdraw_orphans
from tools.questions import Option, Question, QuestionSessions, SessionStatus

QUESTIONS = [Question(prompt="?", title="t", options=(Option(label="a"), Option(label="b")))]


@frozen
class FakeProcesses:
    """A machine on which this process, and no other, began at a given time."""

    began: int | None = 100
    here: tuple[str, str, str] = ("machine", "boot", "namespace")

    def start_time(self, pid: int) -> int | None:
        return self.began if pid == os.getpid() else None

    def start_moment(self, pid: int) -> float | None:
        return None


THEN = FakeProcesses()


def test_the_process_that_waits_is_alive_to_itself() -> None:
    assert not is_orphan(waiting_call_id("mcp-1"))
    assert not is_orphan(waiting_call_id("mcp-1", THEN), THEN)


@pytest.mark.parametrize(
    "now",
    [
        FakeProcesses(began=None),
        FakeProcesses(began=101),
        FakeProcesses(here=("machine", "next boot", "namespace")),
    ],
    ids=["gone", "pid used again", "machine restarted"],
)
def test_a_process_that_is_certainly_gone_leaves_an_orphan(now: FakeProcesses) -> None:
    assert is_orphan(waiting_call_id("mcp-1", THEN), now)


@pytest.mark.parametrize("here", [("other", "boot", "namespace"), ("machine", "boot", "other")])
def test_a_process_elsewhere_is_not_judged(here: tuple[str, str, str]) -> None:
    assert not is_orphan(waiting_call_id("mcp-1", THEN), FakeProcesses(None, here))


@pytest.mark.parametrize(
    "call_id", [None, "", "mcp-1", "agentforge-mcp-waits ", "agentforge-mcp-waits {", "{}"]
)
def test_the_call_ids_of_others_are_not_judged(call_id: str | None) -> None:
    assert not is_orphan(call_id, evolve(THEN, began=None))


def test_each_call_has_an_id_of_its_own_that_fits_the_wire() -> None:
    one, two = waiting_call_id("mcp-1"), waiting_call_id("mcp-2")
    assert one != two
    assert len(one) < 1000
    assert json.loads(one.partition(" ")[2])["pid"] == os.getpid()


def test_only_orphans_are_withdrawn(tmp_path: Path) -> None:
    sessions = QuestionSessions(tmp_path)
    orphan = sessions.create_session(QUESTIONS, call_id=waiting_call_id("mcp-1", THEN))
    waiting = sessions.create_session(QUESTIONS, call_id=waiting_call_id("mcp-2"))
    asked = sessions.create_session(QUESTIONS, call_id="mcp-3")
    rejected = sessions.create_session(QUESTIONS, call_id=waiting_call_id("mcp-4", THEN))
    sessions.reject_session(rejected)
    (tmp_path / "00000000-0000-4000-8000-000000000000").mkdir()
    assert withdraw_orphans(sessions, evolve(THEN, here=("machine", "later", "namespace"))) == [
        orphan
    ]
    assert sessions.get(orphan).status is SessionStatus.ABANDONED
    assert sessions.get(orphan).record.end_reason == REASON
    assert sessions.get(waiting).status is SessionStatus.PENDING
    assert sessions.get(asked).status is SessionStatus.PENDING
    assert sessions.get(rejected).status is SessionStatus.REJECTED


def test_a_directory_that_is_missing_or_unusable_hinders_nobody(tmp_path: Path) -> None:
    assert withdraw_orphans(QuestionSessions(tmp_path / "none")) == []
    (tmp_path / "file").write_text("")
    assert withdraw_orphans(QuestionSessions(tmp_path / "file")) == []
