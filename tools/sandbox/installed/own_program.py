"""How processes of the package's own are started: with its modules, and nothing of the user's."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from .forbidden_workspaces import temporary_directory
from .interpreter_files import ARTIFACTS_VARIABLE

_HOME: Final = str(Path(__file__).resolve().parents[3])


def own_program(module: str, first: str = "") -> tuple[str, ...]:
    """Return the command that runs `main` of one of the package's modules; arguments may follow.

    With an explicit path, Python searches and runs nothing to find its modules.

    Args:
        module: The module's full name.
        first: A statement to run before anything of the package is loaded.
    """
    path = [_HOME, *(entry for entry in sys.path if os.path.isabs(entry))]
    lines = ("import os, sys", first, f"sys.path[:] = {path!r}", f"from {module} import main")
    return (sys.executable, "-I", "-S", "-c", "\n".join((*lines, "main()")))


def own_environment() -> dict[str, str]:
    """Return the environment of such a process."""
    found = {"TMPDIR": temporary_directory(), "LANG": "C.UTF-8"}
    artifacts = os.environ.get(ARTIFACTS_VARIABLE)
    return {**found, ARTIFACTS_VARIABLE: artifacts} if artifacts else found
