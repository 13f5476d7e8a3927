"""The lines between a worker and its session processes."""

from __future__ import annotations

import pytest

from agentforge_sessions.fleet.workers.messages import (
    MAX_REASON_CHARS,
    Ending,
    Look,
    decode,
    encode,
    look_message,
    look_of,
)
from agentforge_sessions.workflows.workflow import RunRetry


@pytest.mark.parametrize("ending", list(Ending))
def test_a_look_is_read_as_it_was_written(ending: Ending) -> None:
    look = Look(
        ending=ending,
        reason="because:\n é \u2028",
        cause="agent",
        tokens=12,
        phases=(("red", 1.5), ("green", 0.25)),
        retry=RunRetry(attempts=1),
    )
    line = encode(look_message(look))
    assert line.count(b"\n") == 1
    assert look_of(decode(line)) == look
    assert look_of(decode(encode(look_message(Look(ending=ending))))) == Look(ending=ending)


def test_a_reason_is_cut_to_its_limit() -> None:
    message = look_message(Look(ending=Ending.FAILED, reason="x" * 100_000))
    assert look_of(message).reason == "x" * MAX_REASON_CHARS


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"1", b"null", b"\xff"])
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        decode(line)


@pytest.mark.parametrize(
    "message", [{}, {"look": None}, {"look": {"ending": "odd"}}, {"look": {"ending": "paused"}}]
)
def test_what_does_not_say_how_a_look_ended_is_refused(message: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        look_of(message)
