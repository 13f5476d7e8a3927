"""The small parts: what is said over the wire, what is noted of a call, what is streamed."""

from __future__ import annotations

import contextlib
import errno
import json
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.sandbox import CancelToken, SandboxResult
from agentforge_sessions.sandbox import errors as errors_module
from agentforge_sessions.sandbox.guest_streams import StreamProvider
from agentforge_sessions.sandbox.host_functions import summary
from agentforge_sessions.sandbox.request import relative_path_fault
from agentforge_sessions.sandbox.result import LostWrite
from agentforge_sessions.sandbox.worker_protocol import (
    BadMessage,
    FrameReader,
    decode_answer,
    decode_result,
    encode_result,
    frame,
)
from agentforge_sessions.sandbox.workspace import ChangeLedger

# ---------------------------------------------------------------- the wire


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


# ---------------------------------------------------------------- calls, streams, changes


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({}, ""),
        ({"a": 1, "b": "ü\n"}, "a=1, b='\\xfc\\n'"),
        ({"list": list(range(100))}, "list=<list of 100>"),
    ],
)
def test_arguments_are_told_in_short(arguments: dict[str, object], line: str) -> None:
    assert summary(arguments) == line


def test_large_arguments_are_cut() -> None:
    large = "x" * 10**6
    line = summary({f"name{i}": large for i in range(1000)})
    assert len(line) <= 200
    assert line.startswith("name0='xxx")
    assert line.endswith("...")


def test_a_stream_serves_nothing_but_its_streams() -> None:
    seen: list[str] = []
    streams = StreamProvider({"stdout": seen.append}, 10)
    assert streams.list("/") == [("stdout", "file")]
    assert (streams.stat("/").kind, streams.stat("/stdout").kind) == ("dir", "file")
    assert streams.read("/stdout") == b""
    for call in (streams.stat, streams.read):
        with pytest.raises(OSError):
            call("/stderr")
    for refused in (streams.mkdir, streams.remove, streams.rmdir):
        with pytest.raises(OSError) as caught:
            refused("/stdout")
        assert caught.value.errno == errno.EPERM
    with pytest.raises(OSError):
        streams.rename("/stdout", "/x")
    with pytest.raises(OSError):
        streams.set_times("/stdout", None, 1)
    with pytest.raises(OSError):
        streams.read("/")
    with pytest.raises(OSError):
        streams.list("/stdout")
    streams.write("/stdout", b"12345\xc3")
    streams.write("/stdout", b"\xbc89 and what is too much")
    streams.finish()
    assert "".join(seen) == "12345ü89 "


def test_changes_of_one_path_come_down_to_one_word() -> None:
    ledger = ChangeLedger()
    ledger.wrote("/new", existed=False)
    ledger.wrote("/new", existed=True)
    ledger.removed("/old")
    ledger.wrote("/old", existed=False)
    ledger.removed("/gone")
    ledger.wrote("/brief", existed=False)
    ledger.removed("/brief")
    assert ledger.lists() == (("new",), ("old",), ("gone",))
    assert ledger.complete


@pytest.mark.parametrize("path", ["a", "a/b.txt", "..a", ".hidden", "ü\n", "a/.metadata.json"])
def test_a_relative_path_is_fine(path: str) -> None:
    assert relative_path_fault("the path", path) is None


@pytest.mark.parametrize("path", ["a/" * 128 + "a", "/".join(["a" * 200] * 21)])
def test_a_relative_path_may_not_be_long(path: str) -> None:
    assert "longer" in (relative_path_fault("the path", path) or "")


def test_a_token_says_what_it_is() -> None:
    import threading

    token = CancelToken()
    early, late = threading.Event(), threading.Event()
    with token.watching(early):
        token.cancel()
        assert early.is_set()
    with token.watching(late):
        assert late.is_set()
    assert repr(token) == "CancelToken(cancelled=True)"


@pytest.mark.parametrize(
    "error",
    [
        errors_module.WorkspaceBusy(Path("/w"), 1.5, "another process"),
        errors_module.InputFileError("a/b", "no space", ["x"]),
        errors_module.SandboxClosed(Path("/w")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_says_what_was_kept_and_what_to_do(error: Exception) -> None:
    assert isinstance(error, errors_module.SandboxError)
    assert "No code ran" in str(error)
    assert ";" in str(error)
