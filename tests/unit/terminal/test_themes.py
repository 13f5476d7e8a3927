"""Every text on every screen can be read in every theme: contrast as WCAG 2.2 computes it."""

from __future__ import annotations

import itertools

import pytest
from rich.color import Color as RichColor

from agentforge_sessions.entrypoints.terminal.theme_name import ThemeName
from agentforge_sessions.entrypoints.terminal.themes import THEMES, theme_after
from agentforge_sessions.questions import Option, Question
from tests.support.contrast import contrast
from tests.support.question_queue import CHECKS, STORAGE, FakeQueue, session_id
from tests.unit.terminal.conftest import Person, Sitting

pytestmark = pytest.mark.anyio
TEXT = {ThemeName.DARK: 4.5, ThemeName.LIGHT: 4.5, ThemeName.CONTRAST: 7.0}
LINES = 3.0
"""What frames and bars need, which only lead the eye (success criterion 1.4.11)."""

_DRAWN = frozenset("╭╮╰╯│─┌┐└┘├┤┬┴┼▁▂▃▄▅▆▇█▊▎▌▐▔┃━")
RICH = Question(
    title="Formats",
    prompt="# One\n## Two\n### Three\nUse `code`, *this*, **that** or [it](https://x.example).\n"
    "> quoted\n\n- a\n- b\n\n```python\n@cached\nclass A(B):\n    'doc'\n    x: int = None  # why\n"
    "    async def f(self): return not str(1.5) + f'{x}' ?\n```\n\n"
    "| a | b |\n|---|---|\n| 1 | 2 |",
    options=(Option(label="A (recommended)", description="described"), Option(label="B")),
)


def faint_texts(person: Person, least: float) -> list[str]:
    """What is drawn with less contrast than it needs: text, place and figure."""
    found = []
    screen = person.app.screen
    boxes = [one.region for one in screen.children]  # behind a window all else is dimmed
    for line, strip in enumerate(screen._compositor.render_strips()):
        column = 0
        for part in strip:
            here, column = column, column + part.cell_length
            if not any(box.contains(here, line) for box in boxes):
                continue
            style = part.style
            text = part.text.strip()
            if not text or style is None or style.color is None or style.bgcolor is None:
                assert not text, f"{text!r} has no colours of the theme"
                continue
            needed = LINES if set(text) <= _DRAWN | {" "} else least
            has = contrast(*(one.get_truecolor().hex for one in (style.color, style.bgcolor)))
            if has < needed:
                found.append(f"line {line + 1}: {text!r} {style} has {has:.2f}, needs {needed}")
    return found


def key_colours(person: Person) -> set[str]:
    """The colours of the keys at the foot, which no two themes share."""
    foot = person.app.screen._compositor.render_strips()[-1]
    bold = [part.style for part in foot if part.style is not None and part.style.bold]
    return {one.color.get_truecolor().hex for one in bold if one.color is not None}


async def test_all_text_of_all_screens_has_the_contrast_that_it_needs(
    sitting: Sitting, queue: FakeQueue
) -> None:
    queue.ask(RICH, CHECKS, STORAGE, folder="/home/ada/shop", limit_s=600)
    queue.ask(STORAGE)
    queue.unreadable = (session_id(77),)
    seen: dict[str, list[str]] = {}
    async with sitting(size=(100, 40)) as person:

        async def look(where: str) -> None:
            for theme, least in TEXT.items():
                person.app.theme = theme.value
                await person.settles()
                assert key_colours(person) == {THEMES[theme].variables["footer-key-foreground"]}
                seen[f"{where}, {theme}"] = faint_texts(person, least)

        await look("queue")
        await person.press("enter")
        await person.waits_for("quoted")
        await look("question")
        await person.press("down", "down", "o")
        await person.write("my own")
        await look("own words")
        await person.press("escape", "r", "right", "2", "e")
        await person.write("more")
        await look("a wish")
        await person.press("enter", "r", "[")
        await person.press("v")
        await look("review")
        await person.press("s")
        await look("a yes")
        await person.press("n", "escape", "]", "3", "o")
        await person.write("my own")
        await look("own words below options")
        await person.press("escape", "question_mark")
        await look("the keys")
        await person.press("escape", "x")
        await look("a reason")
    assert len(seen) == 9 * len(ThemeName)
    assert {where: found for where, found in seen.items() if found} == {}


async def test_one_key_changes_the_colours_in_a_circle(sitting: Sitting) -> None:
    async with sitting(STORAGE, theme=ThemeName.LIGHT) as person:
        assert person.app.theme == "light"
        assert person.app.current_theme.dark is False
        await person.press("t")
        assert person.app.theme == "contrast"
        await person.waits_for("Colours: contrast.")
        await person.press("enter", "t")
        assert person.app.theme == "dark"
        await person.press("o")
        await person.write("text")
        assert person.app.theme == "dark", "in a text it is a letter"


def test_every_colour_is_in_the_palette_of_256_so_that_none_is_replaced() -> None:
    steps = (0, 95, 135, 175, 215, 255)
    greys = {(8 + 10 * one,) * 3 for one in range(24)}
    palette = greys | set(itertools.product(steps, steps, steps))
    used = {
        str(value)
        for theme in THEMES.values()
        for value in (*vars(theme).values(), *theme.variables.values())
        if str(value).startswith("#")
    }
    assert used
    for one in sorted(used):
        assert tuple(RichColor.parse(one).get_truecolor()) in palette, one


def test_every_name_has_its_colours() -> None:
    assert set(THEMES) == set(ThemeName)
    assert [theme_after(one) for one in ThemeName] == [*list(ThemeName)[1:], ThemeName.DARK]
