from __future__ import annotations

import re

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from markdown_it.token import Token

from agentforge_sessions.entrypoints.terminal.markdown import harmless_parser, is_too_long_to_render
from agentforge_sessions.questions import Option, Question
from tests.support.question_queue import CHECKS, STORAGE
from tests.unit.terminal.conftest import Sitting

pytestmark = pytest.mark.anyio

RICH = """\
# Where to put it

Choose **well**, as `List<String>` and <b>HTML</b> stay as they are; see [the page](https://e.org/x).

- one
  1. inner
- two ~~no~~

> quoted

| a | b |
|---|---|
| 1 | 2 |

```nosuchlanguage
x = [red]1[/red]
```

![a chart](https://e.org/c.png)
"""


async def test_markdown_is_rendered_and_links_show_where_they_lead(sitting: Sitting) -> None:
    async with sitting(evolve(STORAGE, prompt=RICH), size=(100, 60)) as person:
        await person.press("enter")
        seen = await person.waits_for("a chart")
    assert "Choose well, as List<String> and <b>HTML</b> stay as they are" in seen
    assert "the page (https://e.org/x)" in seen
    assert "• one" in seen
    assert "x = [red]1[/red]" in seen
    assert "[image: a chart, https://e.org/c.png]" in seen
    assert "```" not in seen


HOSTILE = (
    "a\x1b[2Jb\x1b]52;c;ZXZpbA==\x07c&#8238;k&#8203;&ZeroWidthSpace;&#27;[31md&#x9b;31me\u202ef\u200bg\r\n\x00"
    "[click](javascript:alert(1)) [x](\x1b]8;;https://e.org\x07) `\x1b[5m`\n\n"
    "```\x1b[31m\n\x1b[31mcode\n```\n"
)


async def test_nothing_in_a_prompt_reaches_the_terminal_but_letters(sitting: Sitting) -> None:
    question = Question(
        title=HOSTILE,
        prompt=HOSTILE,
        options=(Option(label=HOSTILE, description=HOSTILE), Option(label="b")),
    )
    async with sitting(question) as person:
        await person.press("enter")
        seen = person.sees()
        await person.press("1", "v")
        seen += person.sees()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200b]", seen)
    assert "52;c" not in seen


def _all(tokens: list[Token]) -> list[Token]:
    return [one for token in tokens for one in (token, *_all(token.children or []))]


_PIECES = st.one_of(
    st.sampled_from(
        ["\x1b[31m", "&#27;", "&#x1b;", "\u202e", "&#8238;", "[a](", ")", "![", "`", "```\n", "|",
         "<b>", "\n\n", "* ", "&ZeroWidthSpace;", "\x9b", "https://e.org", "**", "> ", "1. "]
    ),
    st.text(max_size=5),
)  # fmt: skip


@given(st.lists(_PIECES, max_size=30).map("".join))
def test_no_token_of_any_document_holds_anything_that_acts(source: str) -> None:
    for token in _all(harmless_parser().parse(source)):
        text = token.content.replace("\n", "").replace("\u200c", "").replace("\u200d", "")
        assert text.isprintable(), (source, token)
        assert token.type not in {"link_open", "link_close", "image", "html_inline", "html_block"}


async def test_a_long_prompt_scrolls_and_says_how_much_is_below(sitting: Sitting) -> None:
    lines = "\n\n".join(f"Paragraph {number}." for number in range(60))
    async with sitting(evolve(STORAGE, prompt=lines), CHECKS) as person:
        await person.press("enter")
        seen = await person.waits_for("more lines: PgDn")
        assert "Paragraph 0." in seen
        assert "( ) o Other" in seen, "the options stay in sight"
        await person.burst(*[("pagedown", None)] * 40)
        seen = person.sees()
        assert "Paragraph 59." in seen
        assert "end: PgUp goes up" in seen
        await person.press("pageup")
        assert "Paragraph 59." not in person.sees()


async def test_a_prompt_of_very_many_lines_is_shown_as_written_and_at_once(
    sitting: Sitting,
) -> None:
    prompt = "\n".join(f"- **item** {number}" for number in range(1500))
    assert is_too_long_to_render(prompt)
    async with sitting(evolve(STORAGE, prompt=prompt)) as person:
        await person.press("enter")
        seen = await person.waits_for("- **item** 0")
        assert "shown as it was written" in seen
        await person.press("1", "v")
        assert "→ PostgreSQL" in person.sees()


@pytest.mark.parametrize("size", [(80, 24), (60, 16), (200, 60), (40, 12)])
async def test_it_can_be_used_in_any_size(sitting: Sitting, size: tuple[int, int]) -> None:
    long = Option(label="A label that goes on " * 4, description="So does what it means. " * 6)
    async with sitting(
        evolve(STORAGE, options=(*STORAGE.options, long)), CHECKS, size=size
    ) as person:
        await person.press("enter", "4")
        assert "(•) 4 A label" in person.sees()
        await person.press("v")
        assert "1. Storage" in person.sees()
        await person.press("question_mark", "escape", "escape")
        assert "(•) 4 A label" in person.sees()


async def test_a_terminal_that_changes_its_size_keeps_what_is_seen(sitting: Sitting) -> None:
    async with sitting(STORAGE, size=(120, 40)) as person:
        await person.press("enter", "1")
        await person.pilot.resize_terminal(50, 18)
        await person.waits_for(lambda seen: max(map(len, seen.splitlines())) <= 50)
        await person.waits_for("(•) 1 PostgreSQL")


async def test_states_are_told_without_colour(sitting: Sitting) -> None:
    async with sitting(STORAGE, CHECKS, STORAGE, STORAGE) as person:
        await person.press("enter", "1", "enter", "1", "3", "right", "e", "enter")
        seen = person.sees()
    assert "✓ 1 Storage   · 2 Checks   ? 3 Storage   ▸ 4 Storage" in seen, "each has its own sign"
