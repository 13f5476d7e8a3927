from __future__ import annotations

import pytest

from agentforge_sessions.base.search_words import (
    InvalidSearch,
    Passage,
    SearchedText,
    SearchWords,
    TextSource,
    find_passages,
)


def found(text: str, words: str) -> Passage:
    (passage,) = find_passages([SearchedText(TextSource.GOAL, text)], SearchWords.parse(words))
    return passage


def marked(text: str, words: str) -> str:
    passage = found(text, words)
    shown = passage.text
    for begin, end in reversed(passage.marks):
        shown = f"{shown[:begin]}[{shown[begin:end]}]{shown[end:]}"
    return shown


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Parser lock", ("parser", "lock")),
        ('"Retry  limit" parser', ("retry limit", "parser")),
        ('parser "retry li', ("parser", "retry li")),
        ('a"b c"d', ("a", "b c", "d")),
        ("a A a", ("a",)),
        ("Straße", ("strasse",)),
    ],
)
def test_words_are_read_as_a_person_writes_them(text: str, terms: tuple[str, ...]) -> None:
    words = SearchWords.parse(text)
    assert words.terms == terms
    assert SearchWords.parse(str(words)) == words


def test_an_argument_with_a_space_is_a_phrase() -> None:
    words = SearchWords.of_arguments(["retry limit", "parser", 'a "b c"'])
    assert words.terms == ("retry limit", "parser", "a", "b c")


def test_words_may_be_given_one_by_one() -> None:
    assert SearchWords.of(["retry limit", "x"]).terms == ("retry limit", "x")
    assert SearchWords.of("retry limit").terms == ("retry", "limit")
    words = SearchWords.parse("x")
    assert SearchWords.of(words) is words


@pytest.mark.parametrize("words", [[], [""], ["\n"], [str(n) for n in range(21)], ["x" * 1_001]])
def test_no_words_and_too_many_are_refused(words: list[str]) -> None:
    with pytest.raises(InvalidSearch, match="words: "):
        SearchWords.of(words)


def test_passages_have_all_words_between_them_and_no_more_than_needed() -> None:
    texts = [
        SearchedText(TextSource.GOAL, "a needle and a thread"),
        SearchedText(TextSource.HISTORY, "the thread again", 4),
        SearchedText(TextSource.HISTORY, "the hay", 3),
        SearchedText(TextSource.ARTIFACT, "hay.py", 0),
    ]
    passages = find_passages(texts, SearchWords.parse("thread hay"))
    assert [(one.place, one.number) for one in passages] == [
        (TextSource.GOAL, None),
        (TextSource.HISTORY, 3),
    ]
    assert find_passages(texts, SearchWords.parse("thread wool")) == ()


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("One two\n  three", '"TWO three"', "One [two three]"),
        ("Die Straße hier", "strasse", "Die [Straße] hier"),
        ("Die Straße hier", "hier", "Die Straße [hier]"),
        ("xßy", "s", "x[ß]y"),
        ("İstanbul ok", "ok", "İstanbul [ok]"),
        ("aaaa", "aa", "[aa][aa]"),
        ("abcabc", "abc bc", "[abc][abc]"),
        ("abcd", "abc bcd", "[abcd]"),
    ],
)
def test_marks_are_where_the_words_are(text: str, words: str, expected: str) -> None:
    assert marked(text, words) == expected


def test_an_excerpt_is_one_line_around_the_first_word() -> None:
    text = f"{'before ' * 60}the needle is\nhere {'behind ' * 60}"
    shown = marked(text, "needle behind")
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert "the [needle] is here [behind]" in shown
    assert len(found(text, "needle behind").text) <= 162
    assert "\n" not in shown


def test_an_excerpt_of_one_endless_word_is_bounded() -> None:
    passage = found("x" * 5_000 + "needle" + "y" * 5_000, "needle")
    assert len(passage.text) <= 162
    ((begin, end),) = passage.marks
    assert passage.text[begin:end] == "needle"


def test_a_long_phrase_is_shown_whole() -> None:
    phrase = "word " * 80
    passage = found(f"see {phrase}here", f'"{phrase}"')
    ((begin, end),) = passage.marks
    assert passage.text[begin:end] == phrase.strip()
