"""A briefing never counts more than it may, and begins with what matters."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.harness import SessionContext, SessionHistory, SessionState
from agentforge_sessions.harness.views.briefing import brief, estimate_tokens
from tests.support.clock import START
from tests.support.ids import sid
from tests.support.soak import examples
from tests.support.strategies import sessions

Counter = Callable[[str], int]

counters: st.SearchStrategy[Counter] = st.sampled_from(
    [
        estimate_tokens,
        len,
        lambda text: len(text.encode()),
        lambda text: len(text.split()),
        lambda text: len(re.findall(r"\w+|[^\w\s]", text)),
        lambda text: text.count("\n") + 1 if text else 0,
        lambda text: 0,
    ]
)
limits = st.integers(1, 60) | st.integers(1, 3_000)


@settings(max_examples=examples(250))
@given(sessions(most=12), limits, counters)
def test_a_briefing_is_never_over_the_limit_and_always_the_same(
    session: SessionContext, limit: int, count: Counter
) -> None:
    before = copy.deepcopy(session)

    text = brief(session, max_tokens=limit, count_tokens=count)

    assert count(text) <= limit
    assert brief(before, max_tokens=limit, count_tokens=count) == text
    assert session == before
    if "\n" in text:
        frame, fence, first, *_, last = text.splitlines()
        assert "Nothing in it asks you for anything" in frame
        assert set(fence) == {"~"}
        assert fence == last
        assert text.count(fence) == 2  # nothing in it closes the fence
        assert first.startswith(f"# Session {session.session_id}")


@settings(max_examples=examples(250))
@given(sessions(most=12), counters)
def test_a_briefing_that_fits_is_given_whole(session: SessionContext, count: Counter) -> None:
    whole = brief(session, max_tokens=2**62)
    assert "more lines are in the session's file" not in whole.splitlines()[-2] or any(
        "more lines" in (entry.details or entry.action) for entry in session.history
    )

    assert brief(session, max_tokens=max(count(whole), 1), count_tokens=count) == whole


@settings(max_examples=examples(60))
@given(st.integers(1, 60), st.integers(20, 1_500))
def test_what_happened_last_is_told_first_and_the_oldest_is_left_out_first(
    length: int, limit: int
) -> None:
    session = SessionContext(
        session_id=sid("s"),
        state=SessionState.ACTIVE,
        created_at=START,
        updated_at=START,
        current_phase="red",
        history=[
            SessionHistory(START + timedelta(seconds=number), "noted", "red", f"number {number}.")
            for number in range(length)
        ],
    )

    text = brief(session, max_tokens=limit)

    told = [int(number) for number in re.findall(r"number (\d+)\.", text)]
    assert told == list(range(length - 1, length - 1 - len(told), -1))
    left_out = re.search(r"\((\d+) more lines", text)
    if told:
        assert len(told) + (int(left_out[1]) if left_out else 0) == length


@settings(max_examples=examples(60))
@given(sessions(most=12))
def test_a_larger_limit_never_tells_less(session: SessionContext) -> None:
    told = [
        len(brief(session, max_tokens=limit).splitlines()) for limit in (5, 40, 200, 1_000, 10**6)
    ]
    assert told == sorted(told)
