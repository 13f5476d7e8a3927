"""The templates of durable programs: asyncio and the driver are loaded in them, and rehearsed.

The first durable program of a machine builds one, which takes a second (with numpy and pandas half
a minute); the cache has it for all others. A template is the same bytes wherever it is built, so a
program can be continued on any machine: `template_of` finds the memory that it started from.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

from ..compiled.compiled_module import making
from ..guest.live_code import LIVE_PREPARATION
from ..guest.tool_frames import decoded_request, encoded_value, request_id
from ..host.template import Template
from ..installed.interpreter_files import MODULE
from .prepared_guest import LIVE, LIVE_SCIENCE, template_name
from .prepared_runtime import PREPARATION_LIMITS, PreparedRuntime, build_template
from .science_template import SCIENCE_LIMITS, SCIENCE_TURNS
from .template_file import read_template, template_digests

_lock: Final = threading.RLock()
_found: Final[dict[tuple[object, str], Template]] = {}


class _Rehearsal:
    """Answers what the rehearsed programs ask: each of them with nothing."""

    def admit(self, length: int) -> bytes | None:
        """Accept a request of any length."""

    def __call__(self, request: bytes) -> bytes:
        """Answer a request."""
        return encoded_value(request_id(decoded_request(request, lambda: None)), None)


def live_template(runtime: PreparedRuntime, *, science: bool = False) -> Template:
    """Return the template that durable programs of this release start from; build it if needed.

    Args:
        runtime: What it is built with.
        science: Whether numpy and pandas are loaded in it.

    Raises:
        SandboxUnavailable: It cannot be built.
    """
    kind, before = (LIVE_SCIENCE, SCIENCE_TURNS) if science else (LIVE, ())
    limits = SCIENCE_LIMITS if science else PREPARATION_LIMITS
    turns = (*before, runtime.code.preparation(), LIVE_PREPARATION)
    name = template_name(kind, runtime.files.digests, turns) or kind
    with _lock:
        found = _read(runtime, name)
        if found is None:
            with making(runtime.cache, kind):
                found = _read(runtime, name)
                if found is None:
                    image = build_template(runtime, name, turns, limits, _Rehearsal())
                    found = _found[runtime.cache, name] = Template(image)
        return found


def template_of(runtime: PreparedRuntime, digest: str) -> Template | None:
    """Return the template whose memory has this digest, or None if this release has none.

    One that an earlier release left in the cache is found as well, if it is of the same
    interpreter; one of this release is built if it is missing.
    """
    with _lock:
        for template in _candidates(runtime, digest):
            if template is not None and template.digest == digest:
                return template
    return None


def _candidates(runtime: PreparedRuntime, digest: str) -> Iterator[Template | None]:
    yield from [template for (cache, _), template in _found.items() if cache == runtime.cache]
    module = runtime.files.digests[MODULE]
    for name, of_memory in template_digests(runtime.cache):
        if of_memory == digest and module.startswith(name.partition("-")[0]):
            yield _read(runtime, name)
    for science in (False, True):
        yield live_template(runtime, science=science)


def _read(runtime: PreparedRuntime, name: str) -> Template | None:
    """Return a template of the cache; the same object each time."""
    found = _found.get((runtime.cache, name))
    if found is None and (file := read_template(runtime.cache, name)) is not None:
        found = _found[runtime.cache, name] = Template(file.image)
    return found
