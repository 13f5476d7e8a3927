"""The interpreter's module as native code: loaded from the cache, or compiled and kept there.

The file is the runner's as well, which compiles with the same settings: whoever comes first makes
it. It is native code that runs as it is found, so it has to be this user's alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..event_log import get_logger
from .host.engine import Engine, EngineUnavailable
from .interpreter_files import InterpreterFiles, compiled_name
from .private_cache import keep, open_private

if TYPE_CHECKING:
    from .host.engine import Module

_log = get_logger("agentforge.sandbox")


def load_compiled(engine: Engine, files: InterpreterFiles, cache: Path | None) -> Module | None:
    """The module from the cache, or None where there is none that may be used there."""
    name = compiled_name(files.digests)
    fd = None if cache is None or name is None else open_private(cache, name)
    if fd is None:
        return None
    try:
        return engine.load(fd)
    except EngineUnavailable as error:
        _log.warning("runtime.compiled_not_right", cache=str(cache), reason=error.reason)
        return None
    finally:
        os.close(fd)


def compile_module(
    engine: Engine, files: InterpreterFiles, cache: Path | None, *, locked: bool
) -> Module:
    """Compile the module, which takes minutes, and keep it where that is possible.

    Args:
        engine: Compiles and runs it.
        files: The interpreter's.
        cache: Where it is kept, or None.
        locked: Whether `private_cache.making` holds that.

    Raises:
        SandboxUnavailable: The module is missing, or not what it should be.
    """
    module = engine.compile(files.module())
    name = compiled_name(files.digests)
    if cache is not None and name is not None:
        compiled = engine.serialized(module)
        keep(cache, name, lambda writer: writer.write_chunks([compiled]), locked=locked)
    return module
