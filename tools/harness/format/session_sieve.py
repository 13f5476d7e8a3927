"""Filters session documents that may contain some words, by their bytes alone; pure.

Decoding a document takes a hundred times as long as searching its bytes, so only documents that may
contain the words are decoded. No document that contains them is ever rejected: the search uses
parts of a word that every form of YAML writes unchanged, and a document that could spell them with
escapes is let through.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from ...base.search_words import SearchWords
from .session_values import RAW

_DISGUISES: Final = re.compile(rb"\\(?:[xuU/\n]|\xc2\x85|\xe2\x80[\xa8\xa9])")
"""Escapes in quoted text that may stand for any letter, or join separated text."""


@cache
def _parts_re() -> re.Pattern[str]:
    """Match runs of characters that every document writes as they are: no quote, escape or space.

    Compiled on first use: that takes a millisecond.
    """
    return re.compile(rf"(?:(?![\s\"'\\])[{RAW}])+")


def unchanging_runs(text: str) -> list[str]:
    """Return the parts of a text that every document writes unchanged."""
    return _parts_re().findall(text)


def unchanging_parts(words: SearchWords) -> tuple[str, ...]:
    """Return parts of the words, case-folded, that every document with all the words contains."""
    parts = (part for term in words.terms for part in unchanging_runs(term))
    return tuple(dict.fromkeys(parts))


class DocumentSieve:
    """Rejects documents that can't contain some words.

    Args:
        words: The words.
    """

    def __init__(self, words: SearchWords) -> None:
        self._parts = unchanging_parts(words)
        self._ascii_parts = [one.encode() for one in self._parts if one.isascii()]
        self._is_ascii = len(self._ascii_parts) == len(self._parts)

    def lets_through(self, document: bytes) -> bool:
        """Return whether a document may contain the words."""
        return self._has_parts(document) or _may_be_disguised(document)

    def _has_parts(self, document: bytes) -> bool:
        if document.isascii():
            small = document.lower()
            return self._is_ascii and all(one in small for one in self._ascii_parts)
        folded = document.decode("utf-8", "replace").casefold()
        return all(one in folded for one in self._parts)


def _may_be_disguised(document: bytes) -> bool:
    if b"\\" not in document:
        return False
    return _DISGUISES.search(document.replace(b"\\\\", b"")) is not None
