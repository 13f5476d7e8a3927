"""What one execution did to the files of its workspace, noted as it happens."""

from __future__ import annotations

from collections.abc import Iterable

from .workspace import Changes


class ChangeLedger:
    """Follows the files an execution touches, each from what it was before the first touch.

    A file that came and went is forgotten, so the ledger holds at most the files that are there
    and the files that were.
    """

    def __init__(self) -> None:
        self._was: dict[str, bool] = {}
        self._is: dict[str, bool] = {}
        self._complete = True

    def wrote(self, path: str, *, existed: bool) -> None:
        """A file was made, written to or put in another's place."""
        self._was.setdefault(path, existed)
        self._is[path] = True

    def removed(self, path: str) -> None:
        """A file is no longer at its path."""
        if self._was.setdefault(path, True):
            self._is[path] = False
        else:
            del self._was[path]
            self._is.pop(path, None)

    def lose_track(self) -> None:
        """More files moved at once than are followed."""
        self._complete = False

    def summary(self) -> Changes:
        """The lists, by workspace-relative path."""
        now = self._is
        return Changes(
            created=_sorted(path for path, was in self._was.items() if not was and now[path]),
            modified=_sorted(path for path, was in self._was.items() if was and now[path]),
            deleted=_sorted(path for path, was in self._was.items() if was and not now[path]),
            complete=self._complete,
        )


def _sorted(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(path.removeprefix("/") for path in paths))
