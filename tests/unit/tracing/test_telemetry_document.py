"""docs/integrations.md says which spans, attributes and metrics there are; so does the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentforge_sessions.base.tracing import Counter, Traced
from agentforge_sessions.base.tracing.conventions import (
    TOKEN_USAGE,
    Attribute,
    CounterType,
    Histogram,
    SpanType,
)

DOCUMENT = (Path(__file__).parents[3] / "docs" / "integrations.md").read_text(encoding="utf-8")
_NAME = re.compile(r"`([^`]+)`")


def section(title: str) -> str:
    return DOCUMENT.split(f"\n### {title}\n")[1].split("\n### ")[0]


def table(text: str, first: str) -> list[list[str]]:
    """The rows of the table whose first column has this head."""
    lines = iter(text.splitlines())
    head = f"| {first} |"
    for line in lines:
        if line.startswith(head):
            next(lines)
            break
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def of_class(holder: type, kind: type) -> list[object]:
    return [one for one in vars(holder).values() if isinstance(one, kind)]


def test_the_table_of_spans_is_the_codes() -> None:
    rows = table(section("Spans"), "Span")
    documented = {
        (None if "," in name else _NAME.findall(name)[0], kind, tuple(_NAME.findall(attributes)))
        for name, kind, _, attributes in rows
    }
    assert documented == {
        (one.prefix or None, one.kind, one.attributes)
        for one in of_class(Traced, SpanType)
        if isinstance(one, SpanType)
    }


def test_the_table_of_metrics_is_the_codes() -> None:
    rows = table(section("Metrics"), "Metric")
    documented = [
        (_NAME.findall(name)[0], kind, _NAME.findall(unit)[0], tuple(_NAME.findall(apart)))
        for name, kind, unit, apart in rows
    ]
    durations = [one.duration for one in of_class(Traced, SpanType) if isinstance(one, SpanType)]
    expected = [
        (one.name, "histogram", one.unit, one.dimensions)
        for one in (TOKEN_USAGE, *durations)
        if isinstance(one, Histogram)
    ]
    expected += [
        (one.name, "counter", one.unit, one.dimensions)
        for one in of_class(Counter, CounterType)
        if isinstance(one, CounterType)
    ]
    assert sorted(documented) == sorted(expected)


@pytest.mark.parametrize("row", table(section("Spans"), "Attribute"), ids=lambda row: row[0])
def test_attributes_whose_values_are_explained_are_attributes(row: list[str]) -> None:
    assert _NAME.findall(row[0])[0] in {
        value for name, value in vars(Attribute).items() if name.isupper()
    }
