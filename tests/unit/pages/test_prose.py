"""What somebody wrote, as paragraphs and lists."""

from __future__ import annotations

import pytest

from agentforge_sessions.entrypoints.pages.attempts_section import prose_of
from agentforge_sessions.entrypoints.pages.html import rendered
from agentforge_sessions.entrypoints.pages.parts import prose


def shown(text: str) -> str:
    return rendered(prose(text)).removeprefix('<div class="prose">').removesuffix("</div>")


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("one\ntwo\n\nthree", "<p>one two</p><p>three</p>"),
        ("Do:\n- a\n  b\n- c\n\nend", "<p>Do:</p><ul><li>a b</li><li>c</li></ul><p>end</p>"),
        ("1. a\n2) b", "<ul><li>a</li><li>b</li></ul>"),
        ("call `f(x)` and `", "<p>call <code>f(x)</code> and `</p>"),
        ("# Title\ntext", "<p><b>Title</b></p><p>text</p>"),
        ("a *b* <i>c</i>", "<p>a *b* &lt;i&gt;c&lt;/i&gt;</p>"),
        ("`<b>`", "<p><code>&lt;b&gt;</code></p>"),
    ],
)
def test_paragraphs_lists_and_code_are_known(text: str, html: str) -> None:
    assert shown(text) == html


@pytest.mark.parametrize("text", ["", " \n\n ", "\r\n"])
def test_what_says_nothing_is_none(text: str) -> None:
    assert prose(text) is None


def test_long_text_is_cut_and_says_so() -> None:
    assert rendered(prose("a" * 50, most=10)) == (
        '<div class="prose"><p>aaaaaaaaaa [… 40 more characters]</p></div>'
    )


def test_answer_without_its_files_is_its_prose() -> None:
    answer = "First.\n\n```python:a.py\nx = 1\n```\n\nThen.\n\n````text\n```\n````\n"
    assert prose_of(answer).split() == ["First.", "Then."]


def test_answer_that_is_cut_off_in_a_file_has_the_prose_before_it() -> None:
    assert prose_of("First.\n```python:a.py\nx = 1\n") == "First."
