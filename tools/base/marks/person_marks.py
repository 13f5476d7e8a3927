"""A person's marks on what is in a directory, outside of every repository.

    $XDG_STATE_HOME/agentforge/{kind}/{real path of the directory}/
        {name} -> {what the mark says}

No file in a repository can make one. A mark is a symbolic link that leads nowhere: one system call
writes it whole, and nothing is synced, because a person makes one again that a power failure took.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from ..data_folder import state_of


class PersonMarks:
    """The marks of one kind on what is in one directory; each name is one that leads nowhere.

    Args:
        base: The directory.
        kind: The folder of the person's state directory in which such marks are.
        environment: Says where that directory is.
    """

    def __init__(
        self, base: Path, kind: str, *, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._base = base
        self._kind = kind
        self._environment = environment

    @property
    def folder(self) -> Path:
        """Where the marks are; it need not be there."""
        return state_of(self._base, self._kind, self._environment)

    def names(self) -> list[str]:
        """Return the names that have a mark; none where the folder can't be read."""
        try:
            return os.listdir(self.folder)
        except OSError:
            return []

    def said(self, name: str) -> str | None:
        """Return what the mark of a name says; None without one."""
        try:
            return os.readlink(self.folder / name)
        except OSError:
            return None

    def write(self, name: str, says: str) -> None:
        """Make the mark of a name say something.

        Raises:
            OSError: The person's state directory can't be written; nothing was marked.
        """
        mark = os.path.join(self.folder, name)
        try:
            os.symlink(says, mark)
        except FileExistsError:
            os.unlink(mark)
            os.symlink(says, mark)
        except FileNotFoundError:
            os.makedirs(self.folder, 0o700, exist_ok=True)
            os.symlink(says, mark)

    def remove(self, names: Iterable[str]) -> None:
        """Remove the marks of names, as far as the system lets us."""
        folder = self.folder
        for name in names:
            with suppress(OSError):
                os.unlink(folder / name)


__all__ = ["PersonMarks"]
