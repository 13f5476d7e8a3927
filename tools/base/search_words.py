"""Search words: how they are written, and where texts contain them; pure.

Letters are compared as `str.casefold` folds them, so that case does not matter in any language, and
any white space is one space. All words must occur, in any of the texts of one thing; a word may
match a part of a longer one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

from attrs import frozen

from .errors import AgentForgeError, ErrorKind

MAX_WORDS: Final = 20
MAX_CHARS: Final = 1_000
"""The maximum length of all words together."""
_BEFORE: Final = 40
_EXCERPT: Final = 160
_CUT: Final = "…"


class InvalidSearch(AgentForgeError, ValueError, kind=ErrorKind.USAGE):
    """Words that can't be searched for; nothing was read."""

    message = "words: {reason}"
    reason: str


@frozen
class SearchWords:
    """The words and phrases of a search, all of which must occur.

    Attributes:
        terms: Each is case-folded, with single spaces; a phrase contains some.
    """

    terms: tuple[str, ...]

    @classmethod
    def of(cls, given: SearchWords | str | Iterable[str]) -> SearchWords:
        """Convert a caller's words: a text for `parse`, or single words.

        Raises:
            InvalidSearch: There are none, or too many.
        """
        if isinstance(given, SearchWords):
            return given
        return cls.parse(given) if isinstance(given, str) else cls._of_terms(given)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse words as a person writes them: `"two of them"` is a phrase, the rest are words.

        A phrase without a closing quote extends to the end, as while it is being typed.

        Raises:
            InvalidSearch: There are none, or too many.
        """
        found: list[str] = []
        for number, part in enumerate(text.split('"')):
            found += [part] if number % 2 else part.split()
        return cls._of_terms(found)

    @classmethod
    def of_arguments(cls, arguments: Sequence[str]) -> Self:
        """Parse the arguments of a command: each is a word or, with white space in it, a phrase.

        An argument that contains a quote is parsed by `parse`.

        Raises:
            InvalidSearch: There are none, or too many.
        """
        found: list[str] = []
        for one in arguments:
            found += cls.parse(one).terms if '"' in one else [one]
        return cls._of_terms(found)

    @classmethod
    def _of_terms(cls, given: Iterable[str]) -> Self:
        terms = dict.fromkeys(" ".join(one.split()).casefold() for one in given)
        terms.pop("", None)
        if not terms:
            raise InvalidSearch("there is nothing to search for; give a word")
        if len(terms) > MAX_WORDS or sum(map(len, terms)) > MAX_CHARS:
            raise InvalidSearch(
                f"expected {MAX_WORDS} words and {MAX_CHARS:,} characters at most, got "
                f"{len(terms):,} and {sum(map(len, terms)):,}"
            )
        return cls(tuple(terms))

    def __str__(self) -> str:
        """Return the words in the syntax of `parse`."""
        return " ".join(f'"{one}"' if " " in one else one for one in self.terms)


class TextSource(StrEnum):
    """The part of a session or question that a searched text comes from."""

    TITLE = "title"
    GOAL = "goal"
    ARTIFACT = "artifact"
    HISTORY = "history"
    QUESTION = "question"
    ANSWER = "answer"


@frozen
class SearchedText:
    """One text to search.

    Attributes:
        place: Its kind.
        text: The text.
        number: Its index among those of its place, from 0; None if there is only one.
        at: When it was written, aware, or None.
    """

    place: TextSource
    text: str
    number: int | None = None
    at: datetime | None = None


@frozen
class Passage:
    """A line that contains some of the words.

    Attributes:
        place: The kind of its text.
        number: The text's index among those of its place, from 0; None if there is only one.
        at: When that was written, aware, or None.
        text: The line, with single spaces; "…" replaces what is left out.
        marks: The words' positions in it: starts and ends, in order, none within another.
    """

    place: TextSource
    number: int | None
    at: datetime | None
    text: str
    marks: tuple[tuple[int, int], ...]


def find_passages(texts: Iterable[SearchedText], words: SearchWords) -> tuple[Passage, ...]:
    """Return passages that together contain all words; none if one of the words does not occur.

    Args:
        texts: The texts, the most relevant first: each passage is from the first text with a word
            that none before it has. No more texts are consumed than needed.
        words: The words.
    """
    left = set(words.terms)
    found: list[Passage] = []
    for one in texts:
        folded = _Folded(one.text)
        here = {term for term in left if term in folded.folded}
        if here:
            left -= here
            text, marks = folded.excerpt(words.terms)
            found.append(Passage(one.place, one.number, one.at, text, marks))
        if not left:
            return tuple(found)
    return ()


class _Folded:
    """A text in its folded form, with each character's position in the original."""

    def __init__(self, text: str) -> None:
        self.line = " ".join(text.split())
        self.folded = self.line.casefold()

    def excerpt(self, terms: Iterable[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
        """Return a part of the line with the first of the words in it, and the words' marks."""
        spans = _merged(self._in_line(self._spans(terms)))
        line = self.line
        first = spans[0][0]
        begin = max(0, min(first - _BEFORE, len(line) - _EXCERPT))
        if begin:  # at a word's start, if one is near
            begin = line.find(" ", begin, first) + 1 or begin
        end = min(len(line), begin + max(_EXCERPT, spans[0][1] - begin))
        if end < len(line):
            at = line.rfind(" ", max(spans[0][1], end - _BEFORE), end)
            end = at if at > 0 else end
        before, behind = _CUT if begin else "", _CUT if end < len(line) else ""
        shift = len(before) - begin
        marks = tuple((a + shift, min(b, end) + shift) for a, b in spans if begin <= a < end)
        return f"{before}{line[begin:end]}{behind}", marks

    def _spans(self, terms: Iterable[str]) -> Iterator[tuple[int, int]]:
        for term in terms:
            at = self.folded.find(term)
            while at >= 0:
                yield at, at + len(term)
                at = self.folded.find(term, at + len(term))

    def _in_line(self, spans: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
        """Map spans of the folded text to the line: a folded letter may be longer."""
        if len(self.folded) == len(self.line):
            return spans
        starts, at = [], 0
        for letter in self.line:
            starts.append(at)
            at += len(letter.casefold())
        return [
            (bisect_right(starts, begin) - 1, bisect_right(starts, end - 1)) for begin, end in spans
        ]


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order, overlapping ones merged."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
