"""What is sifted out by its bytes holds the words in no form that it could be written in."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.base.search_words import InvalidSearch, SearchWords, find_passages
from agentforge_sessions.fleet.postgres.sessions.session_candidates import (
    FOLDED_TO_ASCII,
    searched_parts,
)
from agentforge_sessions.harness import (
    SessionArtifact,
    SessionContext,
    SessionCorrupted,
    SessionHistory,
    SessionState,
)
from agentforge_sessions.harness.format.session_codec import decode_session, encode_session
from agentforge_sessions.harness.format.session_sieve import (
    DocumentSieve,
    unchanging_parts,
    unchanging_runs,
)
from agentforge_sessions.harness.views.session_search import searched_texts
from tests.support.clock import START
from tests.support.ids import sid
from tests.support.sessions import as_plain
from tests.support.soak import examples
from tests.support.strategies import LOOKALIKES, hostile_texts

LETTERS: Final = (*range(0xD800), *range(0xE000, sys.maxunicode + 1))
PATH: Final = Path("/nowhere/session.yaml")
ALPHABET: Final = (
    "aA bBsSkK\u017f\u212a\xdf\ufb01\u0130\u0131\xe9\u0301\u65e5\u672c"
    "'\"\\/-_.:#%xu41\n\t\x1b\u2028\u200e\ufeff\U0001f600"
)
texts: Final = st.one_of(
    st.text(st.sampled_from("s\xdf'\"\\\n x"), min_size=1, max_size=12),
    st.text(st.sampled_from(ALPHABET), min_size=1, max_size=24),
    st.sampled_from(LOOKALIKES),
    hostile_texts,
)


@st.composite
def searched_sessions(draw: st.DrawFn) -> SessionContext:
    said = draw(st.lists(st.tuples(texts, texts), min_size=1, max_size=3))
    return SessionContext(
        session_id=sid("s"),
        revision=1,
        state=SessionState.ACTIVE,
        created_at=START,
        updated_at=START,
        goal=draw(texts)[:1_000],
        artifacts=[SessionArtifact("src/ünïque part.py", "created", START)],
        history=[
            SessionHistory(START, "noted", None, details, data={"note": 1, "texts": [text]})
            for details, text in said
        ],
    )


@st.composite
def words_in(draw: st.DrawFn, session: SessionContext) -> SearchWords | None:
    """Draw some words that a session has: parts of its texts, now and then in other letters."""
    having = [one.text for one in searched_texts(session)]
    chosen = []
    for _ in range(draw(st.integers(1, 3))):
        text = draw(st.sampled_from(having))
        begin = draw(st.integers(0, max(0, len(text) - 1)))
        part = text[begin : begin + draw(st.integers(1, 12))]
        chosen.append(draw(st.sampled_from([part, part.upper(), part.casefold()])))
    try:
        return SearchWords.of(chosen)
    except InvalidSearch:
        return None


def holds(session: SessionContext, words: SearchWords | None) -> bool:
    return words is not None and bool(find_passages(searched_texts(session), words))


@settings(max_examples=examples(1_200))
@given(data=st.data(), session=searched_sessions())
def test_a_document_of_ours_that_holds_the_words_is_let_through(
    data: st.DataObject, session: SessionContext
) -> None:
    words = data.draw(words_in(session))
    if holds(session, words):
        assert words is not None
        assert DocumentSieve(words).lets_through(encode_session(session))


class _Style(yaml.SafeDumper):
    """Writes texts in one style."""

    style: str | None = None

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(dumper: _Style, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=dumper.style)


_Style.add_representer(str, _write_text)


@settings(max_examples=examples(1_200))
@given(
    data=st.data(),
    session=searched_sessions(),
    style=st.sampled_from([None, "'", '"', ">", "|"]),
    width=st.sampled_from([8, 20, 1_000]),
    plain_letters=st.booleans(),
    flow=st.sampled_from([None, True]),
)
def test_a_document_that_others_wrote_and_that_holds_the_words_is_let_through(
    data: st.DataObject,
    session: SessionContext,
    style: str | None,
    width: int,
    plain_letters: bool,
    flow: bool | None,
) -> None:
    words = data.draw(words_in(session))
    dumper = type("_Chosen", (_Style,), {"style": style})
    document = yaml.dump(
        as_plain(session),
        Dumper=dumper,
        width=width,
        allow_unicode=plain_letters,
        default_flow_style=flow,
        sort_keys=False,
    ).encode()
    try:
        read = decode_session(document, path=PATH)
    except SessionCorrupted:
        return
    if holds(read, words):
        assert words is not None
        assert DocumentSieve(words).lets_through(document)


def test_letters_that_are_escaped_or_apart_fold_to_nothing_that_is_looked_for() -> None:
    """The sieve looks for runs of what stands for itself; no other letter may become a part."""
    written = "".join(map(chr, LETTERS))
    runs = "".join(unchanging_runs(written))
    apart = set(written) - set(runs)
    assert {"\\", '"', "'", " ", "\n", "\t", "\x1b", "\u2028", "\u200e", "\ufeff"} <= apart
    assert [one for one in apart if set(one.casefold()) - apart] == []


def test_no_other_letter_folds_to_what_a_database_is_asked_for() -> None:
    """The server folds ASCII alone: all else is in the table, or has but one form."""
    for code in LETTERS[0x80:]:
        letter = chr(code)
        folded = letter.casefold()
        if folded == letter:
            continue
        assert letter in FOLDED_TO_ASCII or not any(map(str.isascii, folded)), hex(code)
        asked = [run.pattern for run in searched_parts(SearchWords((f"x{folded}",)))]
        assert all(one.isascii() for one in asked), hex(code)


@pytest.mark.parametrize(
    ("phrase", "parts"),
    [
        ("say hello", ("say", "hello")),
        ('"it\'s"', ("it", "s")),
        ("a\\b/c", ("a", "b/c")),
        ("ÜNÏQUE", ("ünïque",)),
        ("\x1b[31m", ("[31m",)),
        ("'", ()),
    ],
)
def test_parts_stand_in_a_document_as_they_are(phrase: str, parts: tuple[str, ...]) -> None:
    assert unchanging_parts(SearchWords.of([phrase])) == parts


@pytest.mark.parametrize(
    "written",
    [
        '"\\x6eeedle"',
        '"n\\u0065edle"',
        '"n\\U00000065edle"',
        '"nee\\\n  dle"',
        '"nee\\\x85  dle"',
        '"nee\\\u2028  dle"',
        '"a \\\\ and \\\\\\x6eeedle"',
    ],
)
def test_what_escapes_hide_is_let_through(written: str) -> None:
    document = f"goal: {written}\n".encode()
    assert "needle" in yaml.safe_load(document)["goal"]
    sieve = DocumentSieve(SearchWords.parse("needle"))
    assert sieve.lets_through(document)
    assert not sieve.lets_through(b'goal: "\\\\x6eeedle, \\n \\" \\\\ \\e"\n')
