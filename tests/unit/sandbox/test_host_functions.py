"""What is noted of a call of a function of the host."""

from __future__ import annotations

import pytest

from agentforge_sessions.sandbox.guest.tool_arguments import summary


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
