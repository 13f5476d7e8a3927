"""The interpreter's module as native code: loaded from the cache, or compiled into it.

The native code runs without further checks, so its file must belong to this user alone. Compiling
takes minutes, so only a missing or invalid file is recompiled, and the log says why. If the system
cannot load the file now, that is an error.
"""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...base.event_log import get_logger
from ..errors import SandboxUnavailable
from ..host.engine.loaded_engine import Engine, EngineUnavailable, the_engine
from ..installed.interpreter_files import InterpreterFiles, compiled_name
from .private_cache import keep, open_if_private, why_unusable

if TYPE_CHECKING:
    from ..host.engine.loaded_engine import Module

_log = get_logger("agentforge.sandbox")


class _Ahead:
    """A module loading on its own thread while the calling thread imports Python modules."""

    def __init__(self, engine: Engine, files: InterpreterFiles, cache: Path | None) -> None:
        self._module: Module | None = None
        self._given = (engine, files, cache)
        self._thread = threading.Thread(target=self._load, name="sandbox-loading", daemon=True)
        self._thread.start()

    def _load(self) -> None:
        with contextlib.suppress(SandboxUnavailable):  # the next load reports why
            self._module = _load(*self._given)

    def module(self) -> Module | None:
        """Wait for the load to end; return the module, or None."""
        self._thread.join()
        return self._module


_ahead: Final[dict[tuple[int, Path | None], _Ahead]] = {}


def load_ahead(cache: Path | None) -> None:
    """Start loading the module from the cache, for the next `load_compiled`.

    A failure is reported by that call, not by this one.
    """
    with contextlib.suppress(EngineUnavailable, SandboxUnavailable):
        _ahead[os.getpid(), cache] = _Ahead(the_engine(), InterpreterFiles.found(), cache)


def load_compiled(engine: Engine, files: InterpreterFiles, cache: Path | None) -> Module | None:
    """Return the module from the cache, or None if there is no usable one.

    Raises:
        SandboxUnavailable: The file is usable, but the system cannot load it now.
    """
    ahead = _ahead.pop((os.getpid(), cache), None)
    return (None if ahead is None else ahead.module()) or _load(engine, files, cache)


def _load(engine: Engine, files: InterpreterFiles, cache: Path | None) -> Module | None:
    name = compiled_name(files.digests)
    if cache is None or name is None:
        return None
    try:
        fd = open_if_private(cache, name)
        if fd is not None:
            return _loaded(engine, fd)
        fault = why_unusable(cache / name)
        if fault is not None:
            _log.warning("runtime.compiled_not_right", cache=str(cache), reason=fault)
    except EngineUnavailable as error:
        _log.warning("runtime.compiled_not_right", cache=str(cache), reason=error.reason)
    except OSError as error:
        raise SandboxUnavailable(
            f"the compiled interpreter in {cache} cannot be loaded ({error.strerror}); it was kept",
            "close what is not needed, or raise this process's limits of memory and open files",
        ) from error
    return None


def _loaded(engine: Engine, fd: int) -> Module:
    try:
        return engine.load(fd)
    finally:
        os.close(fd)


def compile_module(
    engine: Engine, files: InterpreterFiles, cache: Path | None, *, locked: bool
) -> Module:
    """Compile the module, which takes minutes, and cache it if possible.

    Args:
        engine: Compiles and runs it.
        files: The interpreter's files.
        cache: The cache directory, or None.
        locked: Whether `cache_lock.making` holds the cache directory.

    Raises:
        SandboxUnavailable: The module is missing, or does not match its digest.
    """
    name = compiled_name(files.digests)
    module = engine.compile(files.module())
    if cache is not None and name is not None:
        compiled = engine.serialized(module)
        keep(cache, name, lambda writer: writer.write_chunks([compiled]), locked=locked)
    return module
