"""A template in which numpy and pandas are imported, made in the background when first wanted.

Importing them takes seconds in every execution; beginning with such a template takes nothing. Its
memory, some 50 MB, is shared by all that begin with it, and kept on disk for other processes.
Random generators are seeded anew at each start.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
from typing import Final

from ...base.event_log import get_logger
from ..compiled.cache_lock import making
from ..errors import SandboxError
from ..guest.guest_code import ENTRY
from ..host.engine.engine import EngineUnavailable, Trapped
from ..host.machine import TurnLimits
from ..host.template import Template, TemplateImage
from .prepared_guest import SCIENCE, is_science_wanted, template_name
from .prepared_runtime import PreparedRuntime, new_machine, prepare_machine
from .template_file import read_template, write_template

_WANTED: Final = (
    r"(?:^|;)[ \t]*(?:from[ \t]+|import[ \t]+(?:[\w.]+(?:[ \t]+as[ \t]+\w+)?[ \t]*,[ \t]*)*)"
    r"(?:numpy|pandas|scipy|sklearn|matplotlib)\b"
)
"""Imports what the template has, or what begins by importing that; compiled when it is wanted."""

_JOIN_SECONDS: Final = 5.0

_IMPORTS: Final = "exec('import numpy, pandas', {'__name__': '__starter__'})"
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
"""What ran before is quicker: some of what scripts do most."""

_SEEDED: Final = f"""exec('''
import os, random, sys
import numpy.random

names = vars(sys.modules['__main__'])
start = names[{ENTRY!r}]

def start_anew(*arguments):
    random.seed()
    # As much of the system's chance: without an argument it takes five times as long.
    numpy.random.seed([*os.urandom(32)])
    return start(*arguments)

names[{ENTRY!r}] = start_anew
''', {{'__name__': '__starter__'}})"""

_TURNS: Final = (_IMPORTS, _REHEARSED, _SEEDED)

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
        self._name: Final = template_name(SCIENCE, runtime.files.digests, _TURNS) or SCIENCE

    def for_script(self, source: str) -> Template | None:
        """What a script is to begin with, if it imports what is in it and it is made.

        The first script that does begins with what another process kept, or has it made and runs
        without it.
        """
        if not is_science_wanted() or not re.search(_WANTED, source, re.MULTILINE):
            return None
        return self._template or self._kept() or self._begin_making()

    def _kept(self) -> Template | None:
        """What is on disk, where that was checked already: reading all of it takes a while."""
        with self._lock:
            if self._template is None and self._thread is None:
                found = read_template(self._runtime.cache, self._name, unread=False)
                self._template = None if found is None else Template(found.image)
            return self._template

    def make(self) -> None:
        """Make it now, unless it is made already."""
        if self._kept() is None:
            self._begin_making()
            self.wait(None)

    def _begin_making(self) -> Template | None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._make, name="sandbox-science", daemon=True
                )
                self._thread.start()
                # A thread in a guest must be out of it before this process's Python ends.
                atexit.register(self.close)
        return self._template

    def wait(self, timeout_s: float | None) -> bool:
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
        try:
            # It takes a while, and no process that starts may have to wait for it.
            with making(self._runtime.cache, SCIENCE) as locked:
                image = self._image(locked=locked)
            template = Template(image)
            # The first that begins with it proves it, which is not to be waited for later.
            new_machine(self._runtime.program, self._runtime.library, template).close()
        except (EngineUnavailable, OSError, SandboxError, Trapped) as error:
            if not self._leaving.is_set():
                _log.warning("template.science_failed", error=type(error).__name__)
            return
        self._template = template

    def _image(self, *, locked: bool) -> TemplateImage:
        """What another process kept meanwhile, or what is made and kept here."""
        runtime = self._runtime
        found = read_template(runtime.cache, self._name)
        if found is not None:
            return found.image
        limits = TurnLimits(fuel=1 << 50, output_bytes=1 << 12, seconds=600, cancel=self._leaving)
        machine = new_machine(runtime.program, runtime.library)
        try:
            prepare_machine(machine, _IMPORTS, limits)
            prepare_machine(machine, _REHEARSED, limits)
            prepare_machine(machine, runtime.code.preparation(), limits)
            prepare_machine(machine, _SEEDED, limits)
            image = TemplateImage.of(machine.instance)
        finally:
            machine.close()
        cache = runtime.cache
        if not locked or cache is None or not write_template(cache, self._name, image, {}):
            return image
        found = read_template(cache, self._name)
        if found is None:
            return image
        os.close(image.fd)
        return found.image
