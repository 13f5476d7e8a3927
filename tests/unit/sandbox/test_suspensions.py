"""What a suspended program says it waits for: a value or a refusal, whatever the guest sends."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentforge_sessions.sandbox import InvalidExecution
from agentforge_sessions.sandbox.guest.tool_frames import BadRequest, from_json
from agentforge_sessions.sandbox.host.machine import TurnOutcome
from agentforge_sessions.sandbox.live.durable_state import PendingTurn
from agentforge_sessions.sandbox.live.live_door import LiveDoor
from agentforge_sessions.sandbox.live.progress import ProgramProgress
from agentforge_sessions.sandbox.live.requests import (
    checked_answers,
    decode_suspension,
    encode_suspension,
)
from agentforge_sessions.sandbox.result_parts import RequestFailed, Suspension

ASKED: dict[str, Any] = {"id": 1, "kind": "ask", "question": "Deploy?"}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
odd = values | st.sampled_from([{"$bytes": "AA=="}, {"$bytes": 1}, 10**400, 1e308, "\ud800"])
requests = st.fixed_dictionaries(
    {"id": st.integers(0, 4) | odd, "kind": st.sampled_from(["ask", "call", "sleep", "x"]) | odd},
    optional={
        "question": st.text() | odd, "options": st.lists(st.text(), max_size=3) | odd,
        "title": st.text() | odd, "multi_select": st.booleans() | odd, "tool": st.text() | odd,
        "arguments": st.dictionaries(st.text(), odd, max_size=3) | odd,
        "until": st.floats(0, 1e9) | odd,
    },
)  # fmt: skip
frames = st.fixed_dictionaries(
    {"file": st.text() | odd, "line": st.integers(0, 9) | odd, "function": st.text() | odd},
    optional={"names": st.dictionaries(st.text(), st.text() | odd, max_size=3) | odd},
)
suspensions = st.fixed_dictionaries(
    {"op": st.just("suspended")},
    optional={
        "v": st.just(1) | odd, "id": st.just(0) | odd, "requests": st.lists(requests) | odd,
        "wake_at": st.floats(0, 1e12) | odd, "where": st.lists(frames, max_size=3) | odd,
    },
)  # fmt: skip


def door() -> LiveDoor:
    return LiveDoor(None, 60.0, threading.Event())


@given(suspensions)
@example({"op": "suspended", "requests": [ASKED], "wake_at": 1e300})
@example({"op": "suspended", "requests": [ASKED, ASKED]})
def test_any_frame_is_understood_or_refused_in_words(said: dict[str, Any]) -> None:
    asked = door()
    answer = json.loads(asked(json.dumps(said).encode()))
    assert answer["ok"] is (asked.suspension is not None)
    assert (asked.suspension is None) is isinstance(asked.fault, str)
    if asked.suspension is not None:
        text = json.dumps(encode_suspension(asked.suspension), allow_nan=False)
        again = decode_suspension(from_json(json.loads(text), lambda: None))
        assert again == asked.suspension


@given(st.binary(max_size=200) | st.just(b'"suspended"' + b"[" * 5000))
def test_any_bytes_are_answered(data: bytes) -> None:
    assert json.loads(door()(data))["ok"] is False


def test_what_is_too_much_is_refused() -> None:
    many = [{**ASKED, "id": number} for number in range(1, 1002)]
    deep = [{"file": "a", "line": 1, "function": "f"}] * 65
    for said in ({"requests": many}, {"requests": [ASKED], "where": deep}):
        with pytest.raises(BadRequest):
            decode_suspension(said)
    idle = door()
    idle(b'{"v":1,"id":0,"op":"suspended","requests":[]}')
    assert (idle.suspension, idle.fault) == (None, "the program waits for nothing")
    assert door().admit((1 << 20) + 1) is not None


@given(st.dictionaries(st.sampled_from([*ProgramProgress._fields, "x"]), st.integers() | odd))
def test_any_progress_of_a_snapshot_is_understood_or_refused(said: dict[str, Any]) -> None:
    whole = {**ProgramProgress().encoded(), **said}
    try:
        found = ProgramProgress.decoded(json.loads(json.dumps(whole)))
    except BadRequest:
        return
    assert ProgramProgress.decoded(json.loads(json.dumps(found.encoded()))) == found


_REST: dict[str, Any] = {"truncated": (), "file_calls": 0}


heads = st.fixed_dictionaries(
    {},
    optional={
        "lengths": st.lists(st.integers(-1, 9), max_size=4) | odd,
        "before": suspensions | odd,
    },
)


def headed(said: dict[str, Any]) -> bytes:
    head = json.dumps(said).encode()
    return len(head).to_bytes(8, "little") + head + b"code and notes"


@given(st.binary(max_size=60) | heads.map(headed))
def test_any_turn_of_a_snapshot_is_understood_or_refused(data: bytes) -> None:
    try:
        found = PendingTurn.decoded(data)
    except BadRequest:
        return
    assert (found is None) is (not data)
    if found is not None:
        assert PendingTurn.decoded(found.encoded()) == found


def outcome(**said: Any) -> TurnOutcome:
    plain = TurnOutcome(0, None, ended=False, fuel_used=10, stdout=b"", stderr=b"", **_REST)
    return plain._replace(**said)


def test_limits_are_those_of_the_whole_program() -> None:
    waiting = Suspension((), None)
    progress = ProgramProgress().begun(100)
    first = outcome(fuel_used=60, stdout=b"abc", stderr=b"e", file_calls=7)
    progress = progress.after(first, waiting)
    limits = progress.limits(1.0, 4, threading.Event())
    assert (limits.fuel, limits.file_calls, limits.output_bytes) == (40, 7, 3)
    second = outcome(fuel_used=None, stdout=b"def", stderr=b"fgh", file_calls=9)
    own = progress.own_part(second, 4)
    assert (own.stdout, own.stderr, own.truncated, own.file_calls) == (b"d", b"fgh", ("stdout",), 2)
    assert (
        progress.after(second, None).begun(5).encoded()
        == ProgramProgress(fuel=5, sequence=2).encoded()
    )


def test_answers_are_json_or_failures() -> None:
    given_answers = {1: {"a": b"\0"}, 2: RequestFailed("no")}
    found = checked_answers(given_answers)
    assert found == {1: {"value": {"a": {"$bytes": "AA=="}}}, 2: {"error": "no"}}
    for wrong in ([], {"1": 1}, {True: 1}, {1: object()}, {1: float("nan")}, {1: "x" * (17 << 20)}):
        with pytest.raises(InvalidExecution):
            checked_answers(wrong)
