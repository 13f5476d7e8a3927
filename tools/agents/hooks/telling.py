"""Telling receivers of events what the hook recorded, in a process of its own.

An agent waits for the hook, and nobody waits for a receiver: so what was recorded is delivered by
`agentforge webhooks deliver`, begun here and left alone. Where it can't be begun nothing is lost:
whoever opens a session next delivers it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from .settings import names_receivers

Start = Callable[[Sequence[str], Mapping[str, str]], object]
"""Begins a program, given its words and its environment, and does not wait for it."""

_BEGIN: Final = (
    "import os, sys; os.chdir(sys.argv.pop(1)); "
    "from agentforge_sessions.entrypoints.cli.main import main; main()"
)


def tell_receivers(
    data_folder: Path, base: Path | None, environment: Mapping[str, str], *, start: Start
) -> None:
    """Have receivers told what lies behind their cursors, if a configuration names any.

    Args:
        data_folder: The project's data folder.
        base: The directory of the sessions; None where they are in a database.
        environment: The environment variables.
        start: Begins the program.
    """
    if not names_receivers(data_folder, environment):
        return
    where = [] if base is None else ["--base", str(base)]
    # The project is where the program looks for its configuration, and never for modules (-P).
    words = [sys.executable, "-P", "-c", _BEGIN, str(data_folder.parent)]
    start([*words, *where, "webhooks", "deliver", "--due"], environment)


def start_detached(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Begin a program in a session of its own, with nothing to read and nowhere to write to.

    Raises:
        OSError: The system refused.
    """
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    os.posix_spawn(words[0], list(words), environment, file_actions=nowhere, setsid=True)
