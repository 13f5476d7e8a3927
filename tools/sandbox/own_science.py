"""A template in which numpy and pandas are imported, made in the background when first wanted.

Importing them takes seconds in every execution; beginning with such a template takes nothing. Its
memory, some 70 MB, is shared by all that begin with it. Random generators are seeded anew at each
start.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
from typing import Final

from ..event_log import get_logger
from .errors import SandboxError
from .guest_code import ENTRY
from .host.engine import EngineUnavailable, Trapped
from .host.machine import TurnLimits
from .host.template import Template
from .own_runtime import PreparedRuntime, new_machine, prepare_machine

SCIENCE_VARIABLE: Final = "AGENTFORGE_SANDBOX_SCIENCE"
"""The environment variable that, set to 1, has this process make and use such a template."""

_WANTED: Final = re.compile(
    r"(?:^|;)[ \t]*(?:from[ \t]+|import[ \t]+(?:[\w.]+(?:[ \t]+as[ \t]+\w+)?[ \t]*,[ \t]*)*)"
    r"(?:numpy|pandas|scipy|sklearn|matplotlib)\b",
    re.MULTILINE,
)
"""Imports what the template has, or what begins by importing that."""

_JOIN_SECONDS: Final = 5.0

_IMPORTS: Final = "exec('import numpy, pandas', {'__name__': '__starter__'})"
_SEEDED: Final = f"""exec('''
import random, sys
import numpy.random

names = vars(sys.modules['__main__'])
start = names[{ENTRY!r}]

def start_anew(*arguments):
    random.seed()
    numpy.random.seed()
    return start(*arguments)

names[{ENTRY!r}] = start_anew
''', {{'__name__': '__starter__'}})"""

_log = get_logger("agentforge.sandbox")


class ScienceTemplate:
    """The template of one process, or none until it is made.

    Args:
        runtime: What it is made with.
    """

    def __init__(self, runtime: PreparedRuntime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._leaving = threading.Event()
        self._template: Template | None = None

    def for_script(self, source: str) -> Template | None:
        """What a script is to begin with, if it imports what is in it and it is made.

        The first script that does has it made, and runs without it.
        """
        if os.environ.get(SCIENCE_VARIABLE) != "1" or not _WANTED.search(source):
            return None
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._make, name="sandbox-science", daemon=True
                )
                self._thread.start()
                # A thread in a guest must be out of it before this process's Python ends.
                atexit.register(self.close)
        return self._template

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is made, if it is being made; return whether it is."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._template is not None

    def close(self) -> None:
        """Give up making it."""
        self._leaving.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def _make(self) -> None:
        limits = TurnLimits(fuel=1 << 50, output_bytes=1 << 12, seconds=600, cancel=self._leaving)
        runtime = self._runtime
        try:
            machine = new_machine(runtime.program, runtime.library)
            try:
                prepare_machine(machine, _IMPORTS, limits)
                prepare_machine(machine, runtime.code.preparation(), limits)
                prepare_machine(machine, _SEEDED, limits)
                template = Template(machine.instance)
            finally:
                machine.close()
            # The first that begins with it proves it, which is not to be waited for later.
            new_machine(runtime.program, runtime.library, template).close()
        except (EngineUnavailable, OSError, SandboxError, Trapped) as error:
            if not self._leaving.is_set():
                _log.warning("template.science_failed", error=type(error).__name__)
            return
        self._template = template
