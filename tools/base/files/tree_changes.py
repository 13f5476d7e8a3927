"""The differences between two states of a tree of files, as a value; pure."""

from __future__ import annotations

from attrs import frozen


@frozen
class FileChange:
    """The change of one file.

    Attributes:
        path: Its path; bytes that are not UTF-8 are surrogates in it.
        kind: "added", "deleted", "modified" or "type changed".
        old_mode: Its git mode before, as "100644"; "000000" if it did not exist.
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
    """The differences between two states of a tree.

    Attributes:
        files: The files that differ, by path.
        patch: The lines that differ, as git writes them; empty if not requested.
    """

    files: tuple[FileChange, ...]
    patch: bytes = b""

    @property
    def insertions(self) -> int:
        """The number of lines gained."""
        return sum(one.insertions or 0 for one in self.files)

    @property
    def deletions(self) -> int:
        """The number of lines lost."""
        return sum(one.deletions or 0 for one in self.files)
