"""The folders of the person whom tests run as: what they said on this machine is the tests'."""

from __future__ import annotations

import os
from typing import Final

PERSON: Final = ("XDG_STATE_HOME", "XDG_CONFIG_HOME")
"""The variables that name them; a process with an environment of its own is given them, too."""


def persons_folders() -> dict[str, str]:
    """Return the variables as they are."""
    return {name: os.environ[name] for name in PERSON}
