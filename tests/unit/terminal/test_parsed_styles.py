"""Style sheets share what was parsed with the same colours, and nothing else."""

from __future__ import annotations

import pytest
from textual.css.stylesheet import Stylesheet, StylesheetParseError

from agentforge_sessions.entrypoints.terminal.parsed_styles import ParsedStyles

SOURCE = "Button { color: $mine; &:hover { color: white; } }"
RED = {"mine": "#ff0000"}
BLUE = {"mine": "#0000ff"}


def sheet_of(variables: dict[str, str], source: str = SOURCE) -> ParsedStyles:
    sheet = ParsedStyles(variables=variables)
    sheet.add_source(source, read_from=("a", "b"), is_default_css=True, tie_breaker=3)
    return sheet


def texts(sheet: Stylesheet) -> list[str]:
    return [rule.css for rule in sheet.rules]


@pytest.mark.parametrize("variables", [RED, BLUE])
def test_the_rules_are_those_of_a_sheet_of_its_own(variables: dict[str, str]) -> None:
    alone = Stylesheet(variables=variables)
    alone.source = sheet_of(variables).source
    alone.parse()
    assert texts(sheet_of(variables)) == texts(alone)


def test_a_source_is_parsed_once_for_all_sheets_of_the_same_colours() -> None:
    first, second = sheet_of(RED), sheet_of(dict(RED))
    assert all(one is other for one, other in zip(first.rules, second.rules, strict=True))


def test_other_colours_give_other_rules_and_the_first_ones_are_kept() -> None:
    sheet = sheet_of(RED)
    red = list(sheet.rules)
    sheet.set_variables(BLUE)
    sheet.reparse()
    assert texts(sheet) == texts(sheet_of(BLUE)) != [rule.css for rule in red]
    sheet.set_variables(RED)
    sheet.reparse()
    assert all(one is other for one, other in zip(sheet.rules, red, strict=True))


def test_a_fault_in_a_source_leaves_the_rules_as_they_were() -> None:
    sheet = sheet_of(RED)
    before = list(sheet.rules)
    sheet.add_source("Button { no-such-rule: 1; }", read_from=("c", "d"))
    with pytest.raises(StylesheetParseError):
        sheet.reparse()
    assert sheet._rules == before
