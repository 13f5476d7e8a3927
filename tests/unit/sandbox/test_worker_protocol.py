"""What the host and a worker send each other."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.sandbox import SandboxResult
from agentforge_sessions.sandbox.isolation.worker_protocol import (
    BadMessage,
    FrameReader,
    decode_answer,
    decode_result,
    encode_result,
    frame,
)
from agentforge_sessions.sandbox.result_parts import LostWrite


@given(st.lists(st.binary(max_size=50)), st.integers(1, 40))
def test_messages_arrive_whole_however_they_are_cut(messages: list[bytes], cut: int) -> None:
    stream = b"".join(map(frame, messages))
    reader = FrameReader(1000)
    found = []
    for start in range(0, len(stream), cut):
        reader.feed(stream[start : start + cut])
        while (message := reader.next()) is not None:
            found.append(message)
    assert found == messages


def test_a_message_longer_than_any_answer_is_refused_before_it_arrives() -> None:
    with pytest.raises(BadMessage, match="longer"):
        FrameReader(10).feed(frame(bytes(11))[:8])


def test_a_result_is_the_same_after_the_wire(result: SandboxResult) -> None:
    sent = evolve(
        result,
        stdout="ü\ufffd\0\u2028",
        trapped="fuel",
        exit_code=None,
        success=False,
        files_created=("a", "b"),
        lost_writes=(LostWrite(path="a", method="write", errno="ENOSPC", at="close"),),
        metadata={"truncated_streams": ("stdout",), "quota_exceeded": (), "state_lost": None},
    )
    said = json.loads(json.dumps(encode_result(sent)))
    assert decode_result(said, sent.workspace_path) == sent


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stdout", 1),
        ("stdout", None),
        ("exit_code", True),
        ("exit_code", "0"),
        ("trapped", "unheard"),
        ("trapped", 1),
        ("fuel_consumed", 1.5),
        ("duration_s", "1"),
        ("files_created", "abc"),
        ("lost_writes", None),
        ("lost_writes", ["a"]),
        ("lost_writes", [{"path": "a"}]),
        ("lost_writes", [{"path": "a", "method": 1, "errno": "EIO", "at": "exit"}]),
        ("files_deleted", [1]),
        ("truncated", 1),
        ("metadata", []),
    ],
)
def test_a_result_with_a_field_of_another_kind_is_none(
    result: SandboxResult, name: str, value: object
) -> None:
    said = {**json.loads(json.dumps(encode_result(result))), name: value}
    with pytest.raises(BadMessage):
        decode_result(said, Path("/nowhere"))
    del said[name]
    if name not in ("exit_code", "trapped", "fuel_consumed"):
        with pytest.raises(BadMessage):
            decode_result(said, Path("/nowhere"))


@pytest.mark.parametrize("said", [None, 1, [], "text", {}, {"stdout": 1}, {"exit_code": "0"}])
def test_what_is_no_result_is_none(said: object) -> None:
    with pytest.raises(BadMessage):
        decode_result(said, Path("/nowhere"))


@pytest.mark.parametrize(
    "data", [b"", b"no json", b"[]", b"{}", b'{"kind": 1}', b"[" * 100_000, b"\xff"]
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(BadMessage):
        decode_answer(data)


@given(st.binary(max_size=100))
def test_any_bytes_are_an_answer_or_refused(data: bytes) -> None:
    with contextlib.suppress(BadMessage):
        assert isinstance(decode_answer(data)["kind"], str)
