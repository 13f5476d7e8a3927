"""Which documents of sessions may hold some words, judged by their bytes alone; pure.

To read a document takes a hundred times as long as to look for bytes in it. So what can't hold the
words is sifted out, and only the rest is read. Nothing that holds them is ever sifted out: what is
looked for are the parts of a word that no form of YAML writes otherwise than they are, and where a
document could spell them by escapes, it is let through.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from ...base.search_words import SearchWords
from .session_values import RAW

_DISGUISES: Final = re.compile(rb"\\(?:[xuU/\n]|\xc2\x85|\xe2\x80[\xa8\xa9])")
"""Escapes of a quoted text behind which any letter may be, or which join what stands apart."""


@cache
def _parts_re() -> re.Pattern[str]:
    """Runs of what stands for itself in a document: no quote, no escape, no white space.

    It is compiled where it is first needed: that takes a millisecond.
    """
    return re.compile(rf"(?:(?![\s\"'\\])[{RAW}])+")


def unchanging_runs(text: str) -> list[str]:
    """Return the parts of a text that stand in any document as they are."""
    return _parts_re().findall(text)


def unchanging_parts(words: SearchWords) -> tuple[str, ...]:
    """Return what stands in each document that holds some words, folded: parts of the words."""
    parts = (part for term in words.terms for part in unchanging_runs(term))
    return tuple(dict.fromkeys(parts))


class DocumentSieve:
    """Sifts out documents that can't hold some words.

    Args:
        words: The words.
    """

    def __init__(self, words: SearchWords) -> None:
        self._parts = unchanging_parts(words)
        self._ascii_parts = [one.encode() for one in self._parts if one.isascii()]
        self._is_ascii = len(self._ascii_parts) == len(self._parts)

    def lets_through(self, document: bytes) -> bool:
        """Return whether a document may hold the words."""
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
