"""The services of an apply, and its outcome."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self

from attrs import field, frozen

from ...base.clock import Clock, utc_now
from ...base.files import FileSystem, OsFileSystem
from ...base.files.atomic_file import random_token
from ..git.git_command import Difference, Git
from .checkout_files import EntryKind, PlannedPath

_LOCK_TIMEOUT_S: Final = 10.0


@frozen
class AppliedPath:
    """A path that changed, or would change.

    Attributes:
        path: The path in the checkout.
        change: "added", "modified" or "deleted".
    """

    path: str
    change: str

    @classmethod
    def of_planned(cls, one: PlannedPath) -> Self:
        """Return the change of a planned path of a checkout."""
        return cls._of(
            one.path, one.before.kind is EntryKind.ABSENT, one.after.kind is EntryKind.ABSENT
        )

    @classmethod
    def of_difference(cls, one: Difference) -> Self:
        """Return the change of a path between two trees."""
        return cls._of(one.path, one.old is None, one.new is None)

    @classmethod
    def _of(cls, path: bytes, added: bool, deleted: bool) -> Self:
        change = "added" if added else "deleted" if deleted else "modified"
        return cls(os.fsdecode(path), change)


@frozen(kw_only=True)
class Applied:
    """What an apply did, or would do.

    Attributes:
        checkout: The checkout.
        paths: What changed; without what is in conflict.
        conflicts: The paths that the person has to resolve, with markers where git writes some.
        already: Paths that already had the result's content.
        ignored: New files of the result that the repository's rules ignore; they were left out.
        left_out: Paths outside the globs of `files`.
        commit: The commit that was made, or None.
        branch: The branch that was made for it, or None.
        dry_run: Whether nothing was done.
    """

    checkout: Path
    paths: tuple[AppliedPath, ...] = ()
    conflicts: tuple[str, ...] = ()
    already: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    commit: str | None = None
    branch: str | None = None
    dry_run: bool = False

    @property
    def nothing_to_do(self) -> bool:
        """Whether the checkout already had the complete result."""
        return not (self.paths or self.conflicts) and self.commit is None


@frozen(kw_only=True)
class ApplyServices:
    """The services of an apply: the real ones, or those of a test.

    Attributes:
        git: The git program.
        fs: The file system.
        clock: Returns the time, for commits.
        token: Returns random texts for names.
        environment: The person's environment, which determines where their configuration is.
        scratch: The folder for temporary folders; the system's if None.
        lock_timeout_s: How long to wait for another apply, in seconds.
    """

    git: Git = field(factory=Git)
    fs: FileSystem = field(factory=OsFileSystem)
    clock: Clock = utc_now
    token: Callable[[], str] = random_token
    environment: Mapping[str, str] = field(factory=lambda: dict(os.environ))
    scratch: Path | None = None
    lock_timeout_s: float = _LOCK_TIMEOUT_S
