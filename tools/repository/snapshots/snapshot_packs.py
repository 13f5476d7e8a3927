"""Snapshots as packs, for the transfer from one repository to another.

A pack has all objects of its snapshots that the packs before it lack. The history of a person's
repository, behind the base commit of the work, is not included: that commit is where the other
repository's history ends (`shallow`, as git calls it).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

from ...base.files import AtomicFileWriter
from ..errors import GitFailed
from ..git.git_objects import sync_folder
from .snapshot_repository import LockedRepository

_SHALLOW: Final = "shallow"
_HERE: Final = "packs.here"
"""The file with the names of the packs whose objects the repository has, one per line."""


class NewPack(NamedTuple):
    """A pack to import.

    Attributes:
        name: Its name: letters and digits.
        snapshots: The snapshots that it completes.
        write: Writes it to an open file.
    """

    name: str
    snapshots: Sequence[str]
    write: Callable[[IO[bytes]], object]


def write_pack(
    locked: LockedRepository,
    wanted: Collection[str],
    known: Collection[str],
    target: IO[bytes],
    *,
    boundary: str | None = None,
) -> None:
    """Write the objects of snapshots into an open file.

    Args:
        locked: The repository.
        wanted: The snapshots.
        known: Commits whose objects are left out.
        target: The file.
        boundary: The commit behind which history is left out, or None.

    Raises:
        GitFailed: Objects are missing.
    """
    lines = [] if boundary is None else [f"--shallow {boundary}"]
    locked.git(
        *("pack-objects", "--revs", "--stdout", "--quiet"),
        stdin="".join(f"{line}\n" for line in [*lines, *_beyond(wanted, known)]).encode(),
        output_fd=target.fileno(),
    )


def take_pack(locked: LockedRepository, pack: Path, name: str) -> None:
    """Add a pack to the objects; git makes its index first and syncs both.

    Args:
        locked: The repository.
        pack: The file.
        name: Its new name: letters and digits.

    Raises:
        GitFailed: It is no pack, or damaged; the repository is unchanged.
    """
    folder = locked.repository.directory / "objects" / "pack"
    target = folder / f"pack-{name}.pack"
    with suppress(FileNotFoundError):  # a killed call's, without an index
        target.unlink()
    os.link(pack, target)
    try:
        locked.git("index-pack", os.path.abspath(target))
    except GitFailed:
        target.unlink(missing_ok=True)
        raise


def fetch_packs(
    locked: LockedRepository, packs: Sequence[NewPack], *, boundary: str | None = None
) -> None:
    """Import packs in their order; one whose file exists is not written again.

    A kill leaves some of them, to which nothing refers.

    Raises:
        GitFailed: One is damaged, or objects are missing that its snapshots need.
        WriteError: The disk or its permissions.
    """
    repository = locked.repository
    if boundary is not None:
        end_history(locked, [boundary])
    for pack in packs:
        if (repository.directory / "objects" / "pack" / f"pack-{pack.name}.idx").is_file():
            continue
        aside = repository.directory / f"fetch-{repository.token()}.aside"
        try:
            with aside.open("x+b") as file:
                pack.write(file)
                file.flush()
                repository.fs.fsync(file.fileno())
            take_pack(locked, aside, pack.name)
        finally:
            aside.unlink(missing_ok=True)
    sync_folder(repository.fs, repository.directory / "objects" / "pack")


def require_whole(
    locked: LockedRepository, wanted: Collection[str], known: Collection[str]
) -> None:
    """Raise unless all objects of snapshots are there.

    Args:
        locked: The repository.
        wanted: The snapshots.
        known: Commits that are known to be complete.

    Raises:
        GitFailed: Some are missing.
    """
    locked.git(
        *("rev-list", "--objects", "--quiet", "--stdin"),
        stdin="".join(f"{line}\n" for line in _beyond(wanted, known)).encode(),
    )


def disk_bytes(locked: LockedRepository, wanted: Collection[str], known: Collection[str]) -> int:
    """Return how many bytes the objects of snapshots take, without those of known commits.

    Raises:
        GitFailed: Objects are missing.
    """
    asked = "".join(f"{line}\n" for line in _beyond(wanted, known)).encode()
    return int(locked.git("rev-list", "--objects", "--disk-usage", "--stdin", stdin=asked).line)


def _beyond(wanted: Collection[str], known: Collection[str]) -> Iterator[str]:
    """Yield revision arguments for commits, without the content of the known ones.

    The trees of those are excluded explicitly: by itself, git excludes only what the parents of the
    commits have, and snapshots are no parents of each other.
    """
    yield from wanted
    for one in known:
        yield f"^{one}"
        yield f"^{one}^{{tree}}"


def end_history(locked: LockedRepository, commits: Collection[str]) -> None:
    """Record that the history behind these commits is missing, in addition to earlier records.

    Raises:
        WriteError: The disk or its permissions.
    """
    found = history_ends(locked.repository.directory)
    more = [one for one in commits if one not in found]
    if more:
        _write_lines(locked, _SHALLOW, [*found, *more])


def history_ends(directory: Path) -> list[str]:
    """Return the commits behind which a repository's history is missing."""
    return _lines(directory / _SHALLOW)


def packs_here(directory: Path) -> list[str]:
    """Return the names of the packs whose objects a repository has."""
    return _lines(directory / _HERE)


def note_packs(locked: LockedRepository, names: Collection[str]) -> None:
    """Record that the objects of packs are here, in whatever form.

    Raises:
        WriteError: The disk or its permissions.
    """
    found = packs_here(locked.repository.directory)
    more = [one for one in names if one not in found]
    if more:
        _write_lines(locked, _HERE, [*found, *more])


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("ascii").split()
    except FileNotFoundError:
        return []


def _write_lines(locked: LockedRepository, name: str, lines: Collection[str]) -> None:
    repository = locked.repository
    with AtomicFileWriter(repository.directory / name, fs=repository.fs) as file:
        file.write("".join(f"{line}\n" for line in lines))
