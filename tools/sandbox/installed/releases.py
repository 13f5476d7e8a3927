"""Where distributions are installed, and which releases; imports none of them."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import Final

_OF_A_RELEASE: Final = ".dist-info"
_SEPARATORS: Final = str.maketrans("_.", "--")


@functools.cache
def installed_version(distribution: str) -> str:
    """Return the release of an installed distribution, or "unknown".

    It comes from the name of the distribution's directory: loading the standard library's module
    for this takes longer than an execution.
    """
    wanted = _normalised(distribution)
    found = _in_names().get(wanted)
    if found is not None:
        return found
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@functools.cache
def _in_names() -> dict[str, str]:
    """Return the releases in directory names; for duplicates, of the one that is imported."""
    found: dict[str, str] = {}
    for directory in sys.path:
        try:
            names = os.listdir(directory or ".")
        except OSError:
            continue
        for name in names:
            release = release_of(name)
            if release is not None:
                found.setdefault(*release)
    return found


def release_of(directory: str) -> tuple[str, str] | None:
    """Return the distribution and release in a directory's name; None if it has none.

    The distribution's name is normalised per PEP 503. This runs for everything installed, and a
    regular expression would take as long as all other lookups of a first execution.
    """
    if not directory.endswith(_OF_A_RELEASE):
        return None
    name, _, version = directory.removesuffix(_OF_A_RELEASE).partition("-")
    return (_normalised(name), version) if name and version and "-" not in version else None


_directories: Final[dict[tuple[str, ...], Path]] = {}


def package_directory(name: str) -> Path | None:
    """Return an installed package's directory without importing it, or None."""
    asked = (name, *sys.path)
    if asked not in _directories:
        try:
            found = [finder.find_spec(name, None) for finder in sys.meta_path]
        except (ImportError, ValueError):
            return None
        origin = next((spec.origin for spec in found if spec is not None), None)
        if origin is None:
            return None
        _directories[asked] = Path(origin).resolve().parent
    return _directories[asked]


def _normalised(name: str) -> str:
    parts = name.lower().translate(_SEPARATORS).split("-")
    return "-".join(part for part in parts if part)
