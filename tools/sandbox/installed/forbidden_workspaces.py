"""Directories that may never be a workspace: later runs or the host execute from them.

Among them is the temporary directory, found as `tempfile` would, which loads three
compressors and takes longer than a first execution may.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..errors import WorkspaceError
from .interpreter_files import CARRIER, artifact_directory, package_directory

if TYPE_CHECKING:
    from types import ModuleType


def temporary_directory() -> str:
    """Return the directory that `tempfile.gettempdir()` would.

    Raises:
        FileNotFoundError: No directory is usable.
    """
    chosen = chosen_directory()
    if chosen is not None:
        return chosen
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    for candidate in filter(None, (*named, "/tmp", "/var/tmp", "/usr/tmp")):  # noqa: S108
        if os.path.isdir(candidate) and os.access(candidate, os.W_OK | os.X_OK):
            return os.path.abspath(candidate)
    import tempfile

    return tempfile.gettempdir()


def chosen_directory() -> str | None:
    """Return the directory that `tempfile` is set to or has settled on; None before."""
    loaded: ModuleType | None = sys.modules.get("tempfile")
    chosen = None if loaded is None else loaded.tempdir
    return chosen if chosen is None else os.fsdecode(chosen)


_REMEDY: Final = (
    "choose a directory apart from the temporary directory, the module cache and Python"
)
Identity = tuple[int, int]

_MAX_ALLOWED: Final = 4096
_allowed: set[tuple[object, ...]] = set()


def refuse_forbidden(path: Path, cache: Path | None, *, writable: bool = True) -> None:
    """Refuse a directory whose content the host trusts.

    A directory the guest may write to must not be, contain or lie in the wheel's code, the
    interpreter's files, the cache of compiled modules or the host's Python. No directory, even a
    read-only one, may be or contain the temporary directory, which has the private files of every
    run.

    Args:
        path: An absolute path without links.
        cache: The directory of compiled modules, or None.
        writable: Whether the guest may write there.

    Raises:
        WorkspaceError: The directory is one of these.
    """
    chain = _chain(path)
    if not chain:
        return
    question = (*chain, cache, temporary_directory(), writable)
    if question in _allowed:
        return
    temporary = _chain(Path(temporary_directory()).resolve())
    if chain[0] in temporary:
        raise WorkspaceError(path, "it holds the temporary directory", _REMEDY)
    if writable:
        _refuse_code(path, chain, cache)
    if len(_allowed) >= _MAX_ALLOWED:
        _allowed.clear()
    _allowed.add(question)


def _refuse_code(path: Path, chain: list[Identity], cache: Path | None) -> None:
    trusted = [*_code(), *([("the cache of compiled modules", cache)] if cache else [])]
    for what, directory in trusted:
        theirs = _chain(directory.resolve())
        if theirs and theirs[0] in chain:
            raise WorkspaceError(path, f"it is, or lies in, {what}", _REMEDY)
        if chain[0] in theirs:
            raise WorkspaceError(path, f"it holds {what}", _REMEDY)


def _chain(path: Path) -> list[Identity]:
    """Return the identities of a directory and its parents; empty if it does not exist."""
    found: list[Identity] = []
    directory, below = os.fspath(path), ""
    while directory != below:
        try:
            seen = os.stat(directory)
        except OSError:
            if not found:
                return []
        else:
            found.append((seen.st_dev, seen.st_ino))
        directory, below = os.path.dirname(directory), directory
    return found


@functools.cache
def _code() -> tuple[tuple[str, Path], ...]:
    return tuple(_find_code())


def _find_code() -> Iterator[tuple[str, Path]]:
    import site

    for what, package in (("the carrier's code", CARRIER), ("the engine's code", "wasmtime")):
        found = package_directory(package)
        if found is not None:  # if missing, running guests reports it
            yield what, found
    artifacts = artifact_directory()
    if artifacts is not None:
        yield "the interpreter's files", artifacts
    for path in _of_python():
        yield "the host's Python", Path(path)
    if site.ENABLE_USER_SITE:
        yield "the host's Python", Path(site.getusersitepackages())
    yield "this package", Path(__file__).parents[1]


def _of_python() -> Iterator[str]:
    """Yield the directories of this Python's modules and programs.

    They equal the paths of `sysconfig`, which is slow to load. Some systems install below `local`
    there.
    """
    import site

    yield os.path.dirname(os.__file__)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for prefix in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix):
        yield os.path.join(prefix, sys.platlibdir, version)
    for prefix in (sys.prefix, os.path.join(sys.prefix, "local")):
        yield os.path.join(prefix, "bin")
    yield from site.getsitepackages()
