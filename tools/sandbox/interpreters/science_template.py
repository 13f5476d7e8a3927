"""A template with numpy and pandas imported, built once scripts import them repeatedly.

Importing them takes seconds in every execution; starting from such a template takes no time. The
second script of a process that imports them triggers the build, in the background, on a thread of
the lowest priority and in one process at a time. Its memory, some 50 MB, is shared by all
interpreters that start from it, and is cached on disk for other processes. Random generators are
seeded at each start.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import threading
from typing import Final

from ...base.event_log import get_logger
from ..compiled.compiled_module import making
from ..errors import SandboxError
from ..guest.guest_code import BEFORE, ENTRY
from ..host.engine.engine import Trapped
from ..host.engine.loaded_engine import EngineUnavailable
from ..host.machine import TurnLimits
from ..host.template import Template, TemplateImage
from .prepared_guest import SCIENCE, SCIENCE_MODULES, template_name
from .prepared_runtime import PreparedRuntime, build_template, new_machine
from .template_file import read_template

_WANTED: Final = (
    r"(?:^|;)[ \t]*(?:from[ \t]+|import[ \t]+(?:[\w.]+(?:[ \t]+as[ \t]+\w+)?[ \t]*,[ \t]*)*)"
    rf"(?:{'|'.join(SCIENCE_MODULES)})\b"
)
"""Matches imports of the template's modules, or of ones based on them; compiled on first use."""

_MADE_AT: Final = 2
"""How many scripts of a process must import its modules before it is built."""

_LOWEST_PRIORITY: Final = 19
_JOIN_SECONDS: Final = 5.0

_IMPORTS: Final = f"""exec('''
import sys

vars(sys.modules['__main__'])[{BEFORE!r}] = frozenset(sys.modules)
import numpy, pandas
''', {{'__name__': '__starter__'}})"""
_REHEARSED: Final = """exec('''
import io
import numpy, pandas

def rehearse():
    frame = pandas.DataFrame({'name': list('abab'), 'value': [1, 2, 3, 4], 'part': [.5, 1, 2, 4]})
    for column in (frame.groupby('name').value, frame.groupby('name')['part'], frame['value']):
        for found in (column.sum(), column.mean(), column.agg(['min', 'max'])):
            str(found)
    frame.groupby('name').value.sum().tolist()
    frame['sum'] = frame.value + 2 * frame.part
    frame[frame.value > 1].sort_values('part', ascending=False).reset_index(drop=True).head(2)
    frame.merge(frame.rename(columns={'value': 'other'})[['name', 'other']], on='name')
    pandas.concat([frame, frame]).drop_duplicates().value_counts('name').to_dict()
    frame.describe(), frame.isna().sum(), frame.dtypes, frame.loc[0, 'name'], frame.iloc[-1]
    frame.value.apply(str).str.upper().map(len)
    str(frame), repr(frame.value), pandas.read_csv(io.StringIO(frame.to_csv(index=False)))
    values = numpy.arange(12.).reshape(3, 4)
    str(values), values.mean(axis=0), values.std(), values.sum(), values * 2
    numpy.array([1, 2, 3]).tolist(), numpy.linspace(0, 1, 5), numpy.sqrt(values), values[values > 3]
    numpy.where(values > 3, 1, 0), numpy.concatenate([values, values]), numpy.sort(values.ravel())
    numpy.random.default_rng().normal(size=3), numpy.random.rand(3)

for _ in range(3):
    rehearse()
''', {'__name__': '__starter__'})"""
"""Rehearses what scripts do most: code that has run before is faster."""

_SEEDED: Final = f"""exec('''
import os, random, sys
import numpy.random

names = vars(sys.modules['__main__'])
start = names[{ENTRY!r}]
added = {{name for name in frozenset(sys.modules) - names.pop({BEFORE!r}) if '.' not in name}}

def start_anew(*arguments):
    start.__globals__['forget_own'](added)
    random.seed()
    # As much of the system's chance: without an argument it takes five times as long.
    numpy.random.seed([*os.urandom(32)])
    return start(*arguments)

names[{ENTRY!r}] = start_anew
''', {{'__name__': '__starter__'}})"""

SCIENCE_TURNS: Final = (_IMPORTS, _REHEARSED)
"""Import the modules in a new interpreter, and use them."""

SCIENCE_LIMITS: Final = TurnLimits(fuel=1 << 50, output_bytes=1 << 12, seconds=600)

_log = get_logger("agentforge.sandbox")


class ScienceTemplate:
    """The template of one process, or none until it is built.

    Args:
        runtime: The runtime it is built with.
    """

    def __init__(self, runtime: PreparedRuntime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._imports = 0
        self._thread: threading.Thread | None = None
        self._leaving = threading.Event()
        self._template: Template | None = None
        self._name: Final = (
            template_name(SCIENCE, runtime.files.digests, (*SCIENCE_TURNS, _SEEDED)) or SCIENCE
        )

    def made(self) -> Template | None:
        """Return it if this or another process has built it, else None; never wait for a build."""
        with self._lock:
            if self._template is None and self._thread is None:
                # Only a file that was checked before: reading all of it takes a while.
                found = read_template(self._runtime.cache, self._name, unread=False)
                self._template = None if found is None else Template(found.image)
            return self._template

    def imported(self) -> None:
        """Count a script that had to import its modules; the second one starts the build."""
        with self._lock:
            self._imports += 1
            if self._imports < _MADE_AT or self._template is not None or self._thread is not None:
                return
            thread = threading.Thread(target=self._make, name="sandbox-science", daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads, or the process is ending
                thread.start()
                self._thread = thread
                # The thread must have left the guest before this process's Python ends.
                atexit.register(self._leave)

    def _leave(self) -> None:
        """Abandon the build."""
        self._leaving.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def _make(self) -> None:
        runtime = self._runtime
        with contextlib.suppress(OSError):  # a system call filter may forbid that
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
        try:
            with making(runtime.cache, SCIENCE, waits=False) as locked:
                if not locked:  # another process builds it: a later script looks again
                    self._thread = None
                    return
                found = read_template(runtime.cache, self._name)
                image = self._built() if found is None else found.image
            template = Template(image)
            # The first guest started from it verifies it; no execution should wait for that.
            new_machine(runtime.program, runtime.library, template).close()
        except (EngineUnavailable, OSError, SandboxError, Trapped) as error:
            if not self._leaving.is_set():
                _log.warning("template.science_failed", error=type(error).__name__)
            return
        self._template = template

    def _built(self) -> TemplateImage:
        limits = SCIENCE_LIMITS._replace(cancel=self._leaving)
        turns = (*SCIENCE_TURNS, self._runtime.code.preparation(), _SEEDED)
        return build_template(self._runtime, self._name, turns, limits)


def imports_science(source: str) -> bool:
    """Return whether a script imports modules of the template."""
    return re.search(_WANTED, source, re.MULTILINE) is not None
