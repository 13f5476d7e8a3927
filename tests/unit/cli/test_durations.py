from __future__ import annotations

from datetime import timedelta

import pytest
import typer

from agentforge_sessions.entrypoints.cli.options import InvalidDuration, parse_duration
from agentforge_sessions.entrypoints.cli.output.text import age_text, duration_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90m", timedelta(minutes=90)),
        ("24h", timedelta(days=1)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(days=14)),
        ("45s", timedelta(seconds=45)),
        ("0s", timedelta(0)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5h", timedelta(minutes=90)),
        (" 7D ", timedelta(days=7)),
    ],
)
def test_reads_numbers_with_units(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "7",
        "d",
        "-7d",
        "7x",
        "7 d",
        "1d-",
        "1e3s",
        "nan",
        "inf",
        "\u0667d",
        "7d\n7d",
        "1.h",
        ".5h",
    ],
)
def test_refuses_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidDuration, match="is not a duration") as caught:
        parse_duration(text)
    assert caught.value.given == text
    assert isinstance(caught.value, typer.BadParameter)


@pytest.mark.parametrize("text", ["1h1h", "30m1h", "1s1d"])
def test_refuses_units_that_repeat_or_climb(text: str) -> None:
    with pytest.raises(InvalidDuration, match="twice or a smaller one"):
        parse_duration(text)


def test_refuses_a_duration_that_no_time_can_hold() -> None:
    with pytest.raises(InvalidDuration, match="too long"):
        parse_duration("999999999999w")


def test_a_refusal_shows_a_long_text_only_in_part() -> None:
    with pytest.raises(InvalidDuration) as caught:
        parse_duration("x" * 1000)
    assert len(str(caught.value.message)) < 300


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-1, "0.00 s"),
        (0.049, "0.05 s"),
        (9.999, "10.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_tells_a_duration_in_two_units(seconds: float, expected: str) -> None:
    assert duration_text(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "just now"),
        (4.9, "just now"),
        (-30, "just now"),
        (5, "5 s ago"),
        (119, "1 min ago"),
        (7200, "2 h ago"),
        (172_800, "2 d ago"),
        (-3600, "in 1 h"),
    ],
)
def test_tells_an_age_in_one_unit(seconds: float, expected: str) -> None:
    assert age_text(seconds) == expected
