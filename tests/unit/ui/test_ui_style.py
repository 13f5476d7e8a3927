"""The colours of the served pages: of the two schemes, each rule with contrast enough."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.entrypoints import ui
from tests.support.contrast import contrast
from tests.unit.pages.test_style import SCHEMES

SHEET: Final = (Path(ui.__file__).parent / "static" / "ui.css").read_text(encoding="utf-8")
_RULE: Final = re.compile(r"([^{}]+)\{([^{}]*)\}")
_GROUND: Final = re.compile(r"background: var\(--([a-z-]+)\)")
_FRONT: Final = re.compile(r"(?<![-a-z])color: var\(--([a-z-]+)\)")
PAIRS: Final = [
    (selector.strip(), front[1], ground[1])
    for selector, rules in _RULE.findall(SHEET)
    if (front := _FRONT.search(rules)) and (ground := _GROUND.search(rules))
]


def test_colours_are_those_of_the_two_schemes() -> None:
    assert not re.findall(r"#[0-9a-f]{3,8}\b(?=[;\s}])|hsla?\(", SHEET)
    named = set(re.findall(r"var\(--([a-z-]+)\)", SHEET))
    assert named <= set(SCHEMES["light"])
    assert len(PAIRS) > 8


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("selector", "front", "ground"), PAIRS)
def test_each_rule_with_a_ground_is_readable(
    scheme: str, selector: str, front: str, ground: str
) -> None:
    colours = SCHEMES[scheme]
    assert contrast(colours[front], colours[ground]) >= 4.5, selector
