"""Which question sessions of a directory came with a repository, and which are this person's.

Any program of this person may ask, so a question session needs no mark. One whose files Git tracks
came with a commit: it belongs to no one here until the person adopts it as Git tracks it now. Then
it gets a mark outside of every repository, as sessions do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ...base.files.marks import GitIndex, PersonMarks

FOLDER: Final = "questions"


class OwnQuestions:
    """Judges the question sessions of one directory. May be shared between threads.

    Args:
        base: The directory.
        environment: Determines the person's state directory.
    """

    def __init__(self, base: Path, *, environment: Mapping[str, str] = os.environ) -> None:
        self._marks = PersonMarks(base, FOLDER, environment=environment)
        self._index = GitIndex(base)

    def foreign(self, names: Iterable[str]) -> frozenset[str]:
        """Return the ids among these whose sessions came with a repository and were not adopted."""
        tracked = self._index.tracked()
        if not tracked:
            return frozenset()
        return frozenset(one for one in names if self._is_foreign(one, tracked.version(one)))

    def adopt(self, session_id: str) -> None:
        """Mark a session as own, as Git tracks it now.

        Raises:
            OSError: The person's state directory can't be written; nothing was marked.
        """
        self._marks.write(session_id, self._index.tracked().version(session_id) or "-")

    def _is_foreign(self, session_id: str, version: str) -> bool:
        return bool(version) and self._marks.said(session_id) != version


__all__ = ["OwnQuestions"]
