"""Whatever stands in `details`, runs, retries, questions, accounts and reports are the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.harness import SessionManager, SessionStore
from tests.support.led_sessions import GO_ON, MAKERS, told
from tests.support.soak import examples
from tests.support.strategies import hostile_texts

WORDS: Final = (
    "call 1: 999999 tokens (1 in, 2 out); 99.00 s; someone; answer sha256 0123456789abcdef",
    "attempt 7; exit code 0; 99.00 s; fuel 1; 99999 tokens; created a",
    "by 999999 to 9 tokens",
    "question q-00000000, key 1.1\n1. How wide?",
    'question q-f88e7751\nanswers: [[0, ["green"], null]]\ngreen',
    "waiting for an answer to question q-f88e7751",
    "from red to green",
    "100 of 100 tokens used (100 %)",
    "1da7a45e: the agent asks: How wide?",
)
texts = st.sampled_from((*WORDS, "0", "1,000", "V0")) | st.none() | hostile_texts
ACTIONS: Final = (
    *("session_created", "session_paused", "session_resumed", "session_completed"),
    *("session_aborted", "phase_advanced", "phase_retried", "phase_succeeded", "phase_failed"),
    *("agent_answered", "budget_extended", "budget_warning", "budget_exceeded", "checkpoint"),
    *("question_asked", "question_not_asked", "question_answered", "question_rejected"),
    *("question_timed_out", "question_abandoned", "inputs_placed", "retry_reason"),
)


@cache
def grounds() -> Path:
    """Make the directory of the sessions, once."""
    return Path(mkdtemp())


@pytest.fixture(scope="module", autouse=True)
def _grounds() -> Any:
    yield
    shutil.rmtree(grounds(), ignore_errors=True)
    grounds.cache_clear()


def copy_of(name: str) -> Path:
    """Return a session as the present code makes it, to be changed."""
    made = grounds() / name
    if not made.exists():
        MAKERS[name](made / "sessions")
    copy = grounds() / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(made, copy)
    return copy / "sessions"


@cache
def unchanged(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is told of a session as it was made, and after it was gone on with."""
    base = copy_of(name)
    return decided(told(base, "")), decided(GO_ON[name](base))


def decided(found: dict[str, Any], *, notes: int = 0) -> dict[str, Any]:
    """Return all that is no prose, and in its place how much there is of it."""
    accounts = dict(found["accounts"])
    del accounts["briefing"]
    history = accounts.pop("history")
    for name in ("charges", "extensions"):
        accounts[name] = sorted(one for one in accounts[name] if one)
    attempts = [(name, outcome, tokens) for name, outcome, _, tokens in accounts.pop("attempts")]
    return {
        **accounts,
        "outcome": found["outcome"],
        "prompts": len(found["prompts"]),
        "entries": len(history) - notes,
        "attempts": attempts,
    }


def rewrite(base: Path, change: Callable[[SessionManager], object]) -> None:
    store = SessionStore(base)
    (session_id,) = store.list_sessions()
    manager = SessionManager(store)
    manager.load(session_id)
    change(manager)


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=examples(12), deadline=None)
@given(text=texts)
def test_any_text_of_details_leaves_runs_and_accounts_as_they_are(
    name: str, text: str | None
) -> None:
    before, after = unchanged(name)
    base = copy_of(name)

    def say(manager: SessionManager) -> None:
        session = manager.current_session
        assert session is not None
        session.history[:] = [replace(entry, details=text) for entry in session.history]
        manager.save()

    rewrite(base, say)
    assert decided(told(base, "")) == before
    assert decided(GO_ON[name](base)) == after


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=examples(6), deadline=None)
@given(text=texts)
def test_notes_with_the_actions_and_words_of_events_change_nothing(
    name: str, text: str | None
) -> None:
    before, after = unchanged(name)
    base = copy_of(name)
    store = SessionStore(base)
    session = store.load(store.list_sessions()[0])
    assert session is not None
    words = {entry.action: entry.details for entry in session.history}
    for action in ACTIONS:
        session.add_history(action, details=words.get(action, text), now=session.updated_at)
    store.save(session)
    notes = len(ACTIONS)
    assert decided(told(base, ""), notes=notes) == before
    assert decided(GO_ON[name](base), notes=notes) == after
