"""What is read from a file in our own form is judged as what a caller gives: once, and wholly."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, timedelta
from pathlib import Path

import pytest

from agentforge_sessions.harness import (
    InvalidSession,
    SessionArtifact,
    SessionContext,
    SessionCorrupted,
    SessionHistory,
)
from agentforge_sessions.harness.format.session_codec import (
    SessionEncoder,
    decode_ours,
    decode_session,
    encode_session,
)
from tests.support.clock import START
from tests.support.sessions import session_id as an_id

PATH = Path("session.yaml")
DATA = {"a": 1, "deep": {"b": [1, 2.5, None, True, "x"]}}


def written() -> str:
    session = SessionContext.create("tdflow", "red", session_id=an_id(1), now=START)
    session.add_artifact("src/a b.py", "created", now=START)
    session.add_artifact("tests/\ntwo lines.py", "modified", now=START)
    session.add_history("noted", details="first: line\nsecond line", now=START)
    session.add_history("checkpoint", details='a "quoted" note', now=START)
    session.history.append(SessionHistory(START, "own", None, "null", data=DATA))
    session.history.append(SessionHistory(START, "null", "no", None, data=DATA))
    return encode_session(session).decode()


def ours(text: str) -> SessionContext:
    return decode_ours(text.encode(), text)[0]


def test_what_is_read_is_what_was_written_and_as_any_other_value() -> None:
    session = ours(written())
    for made in (*session.artifacts, *session.history):
        again = type(made)(**{one.name: getattr(made, one.name) for one in fields(made)})
        assert made == again
        assert hash(made) == hash(again)
        assert repr(made) == repr(again)
        assert made.timestamp.tzinfo is UTC
        assert copy.deepcopy(made) == made == pickle.loads(pickle.dumps(made))
        assert replace(made, phase="blue").phase == "blue"
        with pytest.raises(FrozenInstanceError):
            made.phase = "blue"  # type: ignore[misc]
    assert [one.details for one in session.history[1:]] == [
        "first: line\nsecond line",
        'a "quoted" note',
        "null",
        None,
    ]
    assert [one.path for one in session.artifacts] == ["src/a b.py", "tests/\ntwo lines.py"]
    with pytest.raises(TypeError, match="can't be changed"):
        session.history[-1].data["a"] = 2  # type: ignore[index]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("action: noted", 'action: ""', "action: is empty"),
        ("action: noted", 'action: "a\\x01b"', "action: .* control character"),
        ("action: noted", f"action: {'n' * 201}", "action: has 201 characters"),
        ("action: noted", "action: null", "action"),
        ("phase: red", f"phase: {'n' * 201}", r"phase: has 201 characters"),
        ("phase: red", 'phase: "a\\nb"', "phase: .* line break"),
        ("path: src/a b.py", "path: src/../../b.py", "path: .* not inside the workspace"),
        ("path: src/a b.py", "path: /etc/passwd", "path: .* not inside the workspace"),
        ("path: src/a b.py", f"path: {'p' * 4097}", "path: has 4,097 characters"),
        ("2026-03-01T09:30:00.000000", "2026-13-01T09:30:00.000000", "timestamp|_at"),
        ("      a: 1\n", f"      a: {2**63}\n", "data.a: is more than"),
        ("      a: 1\n", f"      {'k' * 101}: 1\n", "field's name: has 101 characters"),
        ("      a: 1\n", "".join(f"      a{n}: 1\n" for n in range(64)), "has 65 fields"),
        (
            "      a: 1\n",
            "".join(f"{' ' * (6 + 2 * n)}a:\n" for n in range(9)) + f"{' ' * 24}a: 1\n",
            "nested deeper than 8",
        ),
    ],
)
def test_what_breaks_the_rules_is_refused_in_words(old: str, new: str, says: str) -> None:
    text = written()
    begin = text.index("artifacts:\n")
    assert old in text[begin:]
    broken = text[:begin] + text[begin:].replace(old, new, 1)
    with pytest.raises(SessionCorrupted, match=says):
        decode_session(broken.encode(), path=PATH)


def test_a_fault_in_one_of_many_equal_values_is_found_in_each() -> None:
    """What is remembered of a value is never that it was refused."""
    broken = written().replace("action: noted", 'action: ""')
    for _ in range(3):
        with pytest.raises(SessionCorrupted, match="action: is empty"):
            decode_session(broken.encode(), path=PATH)


def test_equal_data_of_many_entries_is_one_value_that_nobody_can_change() -> None:
    session = ours(written())
    first, second = (one.data for one in session.history[-2:])
    assert first == second == SessionHistory(START, "own", data=DATA).data
    assert first is second


def test_an_artifact_and_an_entry_of_the_same_time_are_apart() -> None:
    session = ours(written())
    assert {type(one) for one in session.artifacts} == {SessionArtifact}
    assert {type(one) for one in session.history} == {SessionHistory}
    assert session.history[1].timestamp - START == timedelta(0)


def test_a_goal_in_our_own_form_is_judged_like_any_other() -> None:
    broken = written().replace("goal: null", f"goal: {'g' * 4001}")
    with pytest.raises(SessionCorrupted, match=r"goal: has 4,001 characters"):
        decode_session(broken.encode(), path=PATH)


@pytest.mark.parametrize("seeded", [False, True])
def test_what_changed_since_it_was_judged_is_judged_by_the_next_encoding(seeded: bool) -> None:
    encoder = SessionEncoder()
    session = decode_session(written().encode(), path=PATH, encoder=encoder if seeded else None)
    encoder.encode(session, revision=1)
    session.token_budget.tokens_used = -1
    with pytest.raises(InvalidSession, match="tokens_used: -1 is less than 0"):
        encoder.encode(session, revision=2)
    session.token_budget.tokens_used = 0
    session.current_phase = "\n"
    for _ in range(2):  # what was refused is not remembered as sound
        with pytest.raises(InvalidSession, match="current_phase: is empty"):
            encoder.encode(session, revision=2)
