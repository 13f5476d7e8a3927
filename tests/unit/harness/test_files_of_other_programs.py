"""A file with only the document's fields is a session: what has a default may be missing."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionContext, SessionCorrupted, SessionState, SessionStore
from agentforge_sessions.harness.format.session_codec import decode_session

ID = "session_20260301_093000_000000"
BEGAN = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
REQUIRED = f"""
session_id: {ID}
state: active
created_at: "2026-03-01T09:30:00+00:00"
updated_at: "2026-03-01T09:30:00+00:00"
token_budget: {{total: 5000, used: 1200, remaining: 3800}}
history: [{{timestamp: "2026-03-01T09:30:00+00:00", action: session_created}}]
"""


def read(text: str) -> SessionContext:
    return decode_session(text.encode(), path=Path("session.yaml"))


def test_what_may_be_null_or_has_a_default_may_be_missing() -> None:
    session = read(REQUIRED)

    assert session.session_id == ID
    assert session.state is SessionState.ACTIVE
    assert session.workflow_type is session.current_phase is session.completed_at is None
    assert session.attempt_number == 1
    assert session.artifacts == []
    assert [(one.action, one.timestamp) for one in session.history] == [("session_created", BEGAN)]


@pytest.mark.parametrize(
    ("budget", "total", "used"),
    [
        ("{total: 5000, used: 1200, remaining: 3800}", 5000, 1200),
        ("{total_budget: 5000, tokens_used: 1200, tokens_remaining: 3800}", 5000, 1200),
        ("{total_budget: 5000, used: 1200}", 5000, 1200),
    ],
)
def test_the_budget_is_read_by_either_of_the_documents_names(
    budget: str, total: int, used: int
) -> None:
    text = REQUIRED.replace("{total: 5000, used: 1200, remaining: 3800}", budget)
    found = read(text).token_budget
    assert (found.total_budget, found.tokens_used) == (total, used)


def test_a_budget_that_says_the_same_twice_is_refused() -> None:
    with pytest.raises(SessionCorrupted, match=r"token_budget\.total: is not a field of a session"):
        read(REQUIRED.replace("{total: 5000,", "{total: 5000, total_budget: 6000,"))


def test_entries_and_artifacts_need_only_what_has_no_default() -> None:
    session = read(
        f"""{REQUIRED[: REQUIRED.index("history:")]}
artifacts:
  - {{path: a.py, artifact_type: created, timestamp: 2026-03-01 09:31:00}}
history:
  - {{timestamp: 2026-03-01T09:30:00Z, action: session_created}}
  - {{timestamp: 2026-03-01T09:32:00+00:00, action: noted, details: so}}
  - {{timestamp: 2026-03-01T09:33:00+00:00, action: noted, phase: red}}
"""
    )

    assert [(one.path, one.phase) for one in session.artifacts] == [("a.py", None)]
    assert [(one.action, one.phase, one.details) for one in session.history] == [
        ("session_created", None, None),
        ("noted", None, "so"),
        ("noted", "red", None),
    ]


@pytest.mark.parametrize(
    ("budget", "missing"),
    [
        ("{total: 5000}", "token_budget.tokens_used"),
        ("{used: 1200}", "token_budget.total_budget"),
    ],
)
def test_a_budget_says_what_was_allotted_and_what_was_used(budget: str, missing: str) -> None:
    with pytest.raises(SessionCorrupted, match=f"{re.escape(missing)}: is missing"):
        read(REQUIRED.replace("{total: 5000, used: 1200, remaining: 3800}", budget))


@pytest.mark.parametrize(
    "name", ["session_id", "state", "created_at", "updated_at", "token_budget", "history"]
)
def test_what_has_no_default_is_missed(name: str) -> None:
    text = "\n".join(one for one in REQUIRED.splitlines() if not one.startswith(name))
    with pytest.raises(SessionCorrupted, match=f"{name}: is missing"):
        read(text)


def test_a_session_that_ended_says_when() -> None:
    with pytest.raises(SessionCorrupted, match="completed_at: is missing, and the session is"):
        read(REQUIRED.replace("state: active", "state: completed"))


def test_such_a_file_is_listed_and_saved_in_our_own_form(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    path = store.session_path(ID)
    path.parent.mkdir()
    path.write_text(REQUIRED)

    assert [one.session_id for one in store.summaries()] == [ID]
    session = store.load(ID)
    assert session is not None
    session.attempt_number = 2
    store.save(session)

    assert SessionStore(tmp_path).load(ID) == session
    assert "  total_budget: 5000\n  tokens_used: 1200\n" in path.read_text()


def test_what_breaks_the_domains_rules_is_said_with_all_else_and_its_own_line() -> None:
    text = REQUIRED.replace("state: active", "state: done").replace("used: 1200", "used: -1")
    with pytest.raises(SessionCorrupted) as caught:
        read(f"{text}revision: -5\ncurrent_phase: ''\nhistori: []\n")
    assert caught.value.faults == (
        "line 3: state: expected one of active, paused, completed, aborted, found done",
        "line 6: token_budget.tokens_used: -1 is less than 0",
        "line 8: revision: -5 is less than 0",
        "line 9: current_phase: is empty",
        "line 10: histori: is not a field of a session",
    )
