from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.entrypoints.terminal.drafts.draft import (
    first_recommended,
    is_recommended,
    without_mark,
)
from agentforge_sessions.entrypoints.terminal.text import harmless, one_line, since

_TEXTS = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x9d[]();m\x07\\\r\n\t\u202e\u200d\ud800"))
)


@pytest.mark.parametrize(
    ("given_text", "left"),
    [
        ("plain, naïve, 日本語, 👩‍💻", "plain, naïve, 日本語, 👩‍💻"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]8;;https://e.org\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
        ("a\x1bP1$qm\x1b\\b", "ab"),
        ("a\x1b]52;c;never ended\nb", "a\nb"),
        ("a\x1bcb\x1b(Bc", "abc"),
        ("a\r\nb\rc\x0bd\u2028e", "a\nb\nc\nd\ne"),
        ("a\x08\x00\x7f\x85b", "a\nb"),
        ("\u202eevil\u202c \u2066x\u2069", "evil x"),
        ("in\u200bvisible\ufeff\U000e0041", "invisible"),
        ("half \ud83d", "half \ufffd"),
        ("a\tb", "a   b"),
        ("no\u00a0break", "no break"),
    ],
)
def test_only_what_can_be_read_is_left(given_text: str, left: str) -> None:
    assert harmless(given_text) == left


@given(_TEXTS)
def test_whatever_comes_what_is_left_is_printable_and_stays_as_it_is(text: str) -> None:
    left = harmless(text)
    assert left.replace("\n", "").replace("\u200c", "").replace("\u200d", "").isprintable()
    assert harmless(left) == left


@given(_TEXTS, st.integers(1, 30))
def test_one_line_is_one_line_and_no_longer_than_it_may_be(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert "\n" not in line
    assert len(line) <= limit


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "now"), (59, "now"), (60, "1 min"), (7199, "1 h"), (86400, "24 h"), (200000, "2 d")],
)
def test_how_long_something_waits_is_told_in_one_unit(seconds: float, text: str) -> None:
    assert since(seconds) == text


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        ("SQLite (recommended)", "SQLite"),
        ("SQLite (Recommended) ", "SQLite"),
        ("SQLite [RECOMMENDED]", "SQLite"),
        ("SQLite - recommended", "SQLite"),
        ("SQLite \u2014 recommended", "SQLite"),
        ("[추천] SQLite", "SQLite"),
        ("SQLite\uff08推荐\uff09", "SQLite"),
        ("(recommended)", "(recommended)"),
    ],
)
def test_a_recommended_label_is_known_and_shown_without_its_mark(label: str, plain: str) -> None:
    assert is_recommended(label)
    assert without_mark(label) == plain


@pytest.mark.parametrize(
    "label",
    ["SQLite", "The recommended one", "not-recommended", "(not recommended)", "Un(recommended)x"],
)
def test_a_word_in_passing_recommends_nothing(label: str) -> None:
    assert not is_recommended(label)
    assert without_mark(label) == label


def test_the_cursor_begins_at_the_first_recommended_option_else_at_the_first() -> None:
    assert first_recommended(["a", "b (recommended)", "c (recommended)"]) == 1
    assert first_recommended(["a", "b"]) == 0
    assert first_recommended([]) == 0
