"""What differs between two states of a tree of files, as a value; pure."""

from __future__ import annotations

from attrs import frozen


@frozen
class FileChange:
    """What became of one file.

    Attributes:
        path: Its path; bytes that are no UTF-8 are surrogates in it.
        kind: "added", "deleted", "modified" or "type changed".
        old_mode: Git's mode of it before, as "100644"; "000000" where it was not there.
        new_mode: The same after.
        insertions: How many lines it gained; None for a binary file.
        deletions: How many it lost; None for a binary file.
    """

    path: str
    kind: str
    old_mode: str
    new_mode: str
    insertions: int | None
    deletions: int | None


@frozen
class TreeChanges:
    """What differs between two states of a tree.

    Attributes:
        files: The files that differ, by path.
        patch: The lines that differ, as git writes them; empty where they were not wanted.
    """

    files: tuple[FileChange, ...]
    patch: bytes = b""

    @property
    def insertions(self) -> int:
        """How many lines were gained."""
        return sum(one.insertions or 0 for one in self.files)

    @property
    def deletions(self) -> int:
        """How many lines were lost."""
        return sum(one.deletions or 0 for one in self.files)
