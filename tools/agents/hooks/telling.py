"""Deliver recorded events to their receivers, in a separate process.

An agent waits for the hook, but nothing waits for a receiver: so `agentforge webhooks deliver`
delivers what was recorded; it is started here and left alone. If it can't be started, no event is
lost: the next process that opens a session delivers it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from .settings import names_receivers

Start = Callable[[Sequence[str], Mapping[str, str]], object]
"""Starts a program, given its words and its environment, without waiting for it."""

_BEGIN: Final = (
    "import os, sys; os.chdir(sys.argv.pop(1)); "
    "from agentforge_sessions.entrypoints.cli.main import main; main()"
)


def tell_receivers(
    data_folder: Path, base: Path | None, environment: Mapping[str, str], *, start: Start
) -> None:
    """Start delivery of the events behind the receivers' cursors, if a configuration names any.

    Args:
        data_folder: The project's data folder.
        base: The directory of the sessions; None if they are in a database.
        environment: The environment variables.
        start: Starts the program.
    """
    if not names_receivers(data_folder, environment):
        return
    where = [] if base is None else ["--base", str(base)]
    # The program finds its configuration in the project; -P keeps it from importing from there.
    words = [sys.executable, "-P", "-c", _BEGIN, str(data_folder.parent)]
    start([*words, *where, "webhooks", "deliver", "--due"], environment)


def start_detached(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Start a program in a process session of its own, without input and output.

    Raises:
        OSError: The system refused.
    """
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    os.posix_spawn(words[0], list(words), environment, file_actions=nowhere, setsid=True)
