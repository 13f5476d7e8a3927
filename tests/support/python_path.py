"""Where a Python that a test starts finds modules."""

from __future__ import annotations

import os
from pathlib import Path


def python_path(*folders: Path) -> str:
    """These folders, after what this process was given, so that it goes for all of a run."""
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*([given] if given else []), *map(str, folders)])
