"""The colours of the pages and of the documents' site, with contrast enough in light and dark.

The bounds are those of WCAG 2.2, level AA: 4.5 for text (1.4.3), 3 for what is drawn (1.4.11).
"""

from __future__ import annotations

import colorsys
import re
from itertools import product
from typing import Final

import pytest

from agentforge_sessions.entrypoints.pages.html import style_sheet
from tests.support.contrast import contrast
from tests.support.documents import DOCS

_ROOTS: Final = re.compile(r":root \{(.*?)\}", re.DOTALL)
_COLOUR: Final = re.compile(r"--([a-z-]+): (#[0-9a-f]{6});")
LIGHT, DARK = (dict(_COLOUR.findall(block)) for block in _ROOTS.findall(style_sheet())[:2])
SCHEMES: Final = {"light": LIGHT, "dark": DARK}
GROUNDS: Final = ("page", "surface", "sunken")
TEXTS: Final = ("text", "muted", "link", "good", "bad", "warn", "info")
ON_SOFT: Final = (
    *((name, f"{name}-soft") for name in ("good", "bad", "warn", "info")),
    *product(("text", "muted"), ("added", "removed")),
    *product(("text",), ("added-word", "removed-word")),
    ("good", "added"),
    ("bad", "removed"),
    ("text", "info-soft"),
    ("text", "good-soft"),
    ("text", "bad-soft"),
    ("text", "warn-soft"),
)
DRAWN: Final = (
    *product(("agent", "gate", "person", "idle", "edge", "focus"), ("page", "surface")),
    *product(("good", "bad"), ("surface",)),
    ("agent", "info-soft"),
)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_both_schemes_have_the_same_colours() -> None:
    assert set(LIGHT) == set(DARK)
    assert len(LIGHT) > 20


def test_colours_stand_in_the_two_schemes_alone() -> None:
    rules = _ROOTS.sub("", style_sheet())
    assert not re.findall(r"#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(", rules)
    named = set(re.findall(r"var\(--([a-z-]+)\)", rules))
    assert named <= set(LIGHT)
    used = {pair for pairs in (ON_SOFT, DRAWN) for pair in pairs}
    judged = {*GROUNDS, *TEXTS, "line", *(name for pair in used for name in pair)}
    assert named <= judged, "a colour that no pair of this test has"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("front", "ground"), [*product(TEXTS, GROUNDS), *ON_SOFT])
def test_text_is_readable(scheme: str, front: str, ground: str) -> None:
    colours = SCHEMES[scheme]
    assert contrast(colours[front], colours[ground]) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("front", "ground"), DRAWN)
def test_what_is_drawn_is_to_be_seen(scheme: str, front: str, ground: str) -> None:
    colours = SCHEMES[scheme]
    assert contrast(colours[front], colours[ground]) >= 3.0


def test_motion_stops_where_it_is_unwanted_and_focus_is_seen() -> None:
    sheet = style_sheet()
    assert "@media (prefers-reduced-motion: reduce)" in sheet
    assert ":focus-visible { outline: 2px solid var(--focus)" in sheet
    assert "outline: none" not in sheet.replace("main:focus { outline: none }", "")


SITE: Final = (DOCS / "images" / "site.css").read_text(encoding="utf-8")
_SCHEME: Final = re.compile(r'\[data-md-color-scheme="(\w+)"\] \{(.*?)\}')


def _dark(lightness: float) -> str:
    """Return a ground of the theme's dark scheme: `hsl(225, 15%, lightness)`."""
    parts = colorsys.hls_to_rgb(225 / 360, lightness, 0.15)
    return "#" + "".join(f"{round(part * 255):02x}" for part in parts)


@pytest.mark.parametrize(
    ("scheme", "grounds"),
    [("default", ("#ffffff", "#f5f5f5")), ("slate", (_dark(0.14), _dark(0.18)))],
)
def test_the_colours_of_the_documents_are_readable(scheme: str, grounds: tuple[str, ...]) -> None:
    colours = dict(_COLOUR.findall(dict(_SCHEME.findall(SITE))[scheme]))
    assert {"md-typeset-a-color", "md-accent-fg-color"} <= set(colours)
    assert len(re.findall("#", SITE)) == 2 * len(colours), "a colour that this test does not see"
    for name, ground in product(colours, grounds):
        assert contrast(colours[name], ground) >= 4.5, (name, ground)
