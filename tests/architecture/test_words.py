"""The words of the package: plain technical English, one word for one thing.

The words below read as a translation, or stand for several things. Each may only become rarer:
lower its number with the last use that goes. They count in names, texts and comments.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from tests.architecture.house import modules

MOST: Final = {
    "anew": 35,
    "begun": 132,
    "gone": 47,
    "kept": 547,
    "stands": 39,
    "told": 98,
    "whoever": 2,
}
"""How often each word occurs, at the most."""

_WORDS: Final = re.compile(rf"(?<![a-z])(?:{'|'.join(MOST)})(?![a-z])", re.IGNORECASE)


def test_words_that_read_as_a_translation_only_become_fewer() -> None:
    found = Counter(
        word.lower()
        for path in modules()
        for word in _WORDS.findall(path.read_text(encoding="utf-8"))
    )
    assert {word: found[word] for word in MOST} == MOST
