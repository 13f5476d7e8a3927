"""The commands of this installation, by absolute paths, so that programs call this version."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sysconfig
from pathlib import Path

from .errors import SetupRefused
from .pieces import Commands

_DISTRIBUTION = "agentforge-sessions"


def own_commands(program: str) -> Commands:
    """Return the commands in the directory of the running one.

    Args:
        program: The path or name with which this process was started.

    Raises:
        SetupRefused: There is no `agentforge-hook`.
    """
    folders = [os.path.dirname(os.path.abspath(program)) if os.sep in program else ""]
    folders += [sysconfig.get_path("scripts"), os.environ.get("PATH", "")]
    hook = shutil.which("agentforge-hook", path=os.pathsep.join(filter(None, folders)))
    if hook is None:
        raise SetupRefused(
            Path(folders[1]), "there is no agentforge-hook; install this package again"
        )
    found = Path(os.path.abspath(hook))
    version = importlib.metadata.version(_DISTRIBUTION)
    return Commands(found, found.with_name("agentforge"), version)
