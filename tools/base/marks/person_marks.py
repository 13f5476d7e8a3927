"""A person's marks on entries of a directory, stored outside every repository.

    $XDG_STATE_HOME/agentforge/{kind}/{real path of the directory}/
        {name} -> {the mark's text}

No file in a repository can create one. A mark is a dangling symbolic link: one system call writes
it completely. Nothing is synced, because a person can repeat a mark lost in a power failure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from ..data_folder import state_of


class PersonMarks:
    """The marks of one kind on the entries of one directory; each is a dangling link.

    Args:
        base: The directory.
        kind: The folder of the person's state directory for such marks.
        environment: Locates the state directory.
    """

    def __init__(
        self, base: Path, kind: str, *, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._base = base
        self._kind = kind
        self._environment = environment

    @property
    def folder(self) -> Path:
        """The folder of the marks; it need not exist."""
        return state_of(self._base, self._kind, self._environment)

    def names(self) -> list[str]:
        """Return the names that have a mark; none if the folder can't be read."""
        try:
            return os.listdir(self.folder)
        except OSError:
            return []

    def said(self, name: str) -> str | None:
        """Return the text of a name's mark; None without one."""
        try:
            return os.readlink(self.folder / name)
        except OSError:
            return None

    def write(self, name: str, says: str) -> None:
        """Set the text of a name's mark.

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
        """Remove the marks of names, ignoring the system's errors."""
        folder = self.folder
        for name in names:
            with suppress(OSError):
                os.unlink(folder / name)


__all__ = ["PersonMarks"]
