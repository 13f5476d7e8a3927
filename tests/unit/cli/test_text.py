from __future__ import annotations

import json
import unicodedata

import pytest

from agentforge_sessions.entrypoints.cli.output.output import to_json
from agentforge_sessions.entrypoints.cli.output.text import safe, safe_lines, shorten


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text, ünïcödé, 日本語, 🎉", "plain text, ünïcödé, 日本語, 🎉"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("over\rwritten", "over\\x0dwritten"),
        ("back\x08space\x7f", "back\\x08space\\x7f"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066iso\u2069", "\\u2066iso\\u2069"),
        ("line\u2028break\u2029", "line\\u2028break\\u2029"),
        ("\ufeffmark", "\\ufeffmark"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("a\xa0b\u2003c", "a b c"),
        ("two\nlines\tand\r\nmore", "two lines and more"),
        ("[bold]brackets[/bold]", "[bold]brackets[/bold]"),
        ("क\u200dष 👩\u200d🔬", "क\u200dष 👩\u200d🔬"),
    ],
)
def test_one_line_is_safe_for_a_terminal(text: str, expected: str) -> None:
    assert safe(text) == expected


@pytest.mark.no_cover  # more than a million characters for a function that other tests cover
def test_no_character_of_unicode_reaches_a_terminal_as_a_command() -> None:
    blocks = ["".join(map(chr, range(first, first + 256))) for first in range(0, 0x110000, 256)]
    passed = {character for block in blocks for character in set(block) & set(safe(block))}
    dangerous = {
        character
        for character in passed
        if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp", "Cf"}
    }
    assert dangerous == {"\u200c", "\u200d"}
    assert len(passed) > 100_000


def test_several_lines_keep_their_breaks_and_their_indentation() -> None:
    assert safe_lines("if x:\n\ty\x1b\r\nz") == "if x:\n    y\\x1b\nz"


def test_values_that_are_no_text_are_written_as_text() -> None:
    assert safe(12) == "12"
    assert safe_lines(ValueError("a\nb")) == "a\nb"


def test_long_text_is_cut_with_an_ellipsis() -> None:
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abcde…"


def test_json_is_ascii_without_control_characters_and_reads_back() -> None:
    nasty = {"text": "\x1b[31m\x7f\x9b\u202e\ud800é\n"}
    written = to_json(nasty, indent=2)
    assert all(" " <= character <= "~" or character == "\n" for character in written)
    assert json.loads(written) == nasty
