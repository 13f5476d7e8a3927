"""Which options the asker recommends.

An agent says so in the label, as in "SQLite (recommended)". The option is marked, the cursor begins
there, and it is preselected when its question is shown for the first time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_WORDS: Final = "recommended|recommandé|empfohlen|recomendado|推荐|推薦|추천|おすすめ"
_OPEN: Final = r"[(\[\uff08\u3010]\s*"  # also the brackets of Chinese, Japanese and Korean
_CLOSE: Final = r"\s*[)\]\uff09\u3011]"
_DASH: Final = r"\s[-\u2013\u2014:]\s*"
_MARK: Final = re.compile(
    rf"\s*(?:{_OPEN}(?:{_WORDS}){_CLOSE}|{_DASH}(?:{_WORDS}))\s*$"
    rf"|^\s*{_OPEN}(?:{_WORDS}){_CLOSE}\s*",
    re.IGNORECASE,
)


def is_recommended(label: str) -> bool:
    """Return whether a label ends with "(recommended)", "[recommended]" or "- recommended".

    The mark may also stand first, in brackets; some other languages' words for it count too.
    """
    return _MARK.search(label) is not None


def without_mark(label: str) -> str:
    """Return the label without the mark; the label itself if there would be nothing left."""
    return _MARK.sub("", label).strip() or label


def first_recommended(labels: Sequence[str]) -> int:
    """Return where the cursor begins: at the first recommended option, else at the first."""
    return next((index for index, label in enumerate(labels) if is_recommended(label)), 0)
