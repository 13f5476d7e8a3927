"""Ports that are opened when they are first needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionManager
from agentforge_sessions.harness.lazy import Lazy, lazy
from tests.support.channels import COLOUR, MemoryChannel


def test_a_value_is_made_by_the_first_call_and_once() -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    value = Lazy(make)
    assert made == []
    assert value() is value()
    assert len(made) == 1
    assert lazy(value) is value
    assert lazy(made)() is made


def test_what_could_not_be_made_is_tried_again() -> None:
    faults = iter([OSError("not now")])

    def make() -> str:
        for fault in faults:
            raise fault
        return "made"

    value = Lazy(make)
    with pytest.raises(OSError, match="not now"):
        value()
    assert value() == "made"


def test_a_manager_opens_its_channel_with_the_first_question(tmp_path: Path) -> None:
    opened: list[MemoryChannel] = []

    def open_channel() -> MemoryChannel:
        opened.append(MemoryChannel())
        opened[-1].answer("q-1", "red")
        opened[-1].answer("q-2", "blue")
        return opened[-1]

    manager = SessionManager(tmp_path, channel=Lazy(open_channel))
    manager.create()
    assert manager.can_ask
    assert opened == []
    assert [manager.ask([COLOUR], key=key).text for key in ("one", "two")] == ["red", "blue"]
    assert len(opened) == 1
