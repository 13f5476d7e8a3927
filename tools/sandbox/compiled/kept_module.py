"""The compiled interpreter's file in the cache, whichever host loads it: judged, recorded, mended.

A file that has got a second name (a hard link) is not used: who can write to the other name could
change it. The digest that was recorded when it was compiled tells whether it is still what it was;
then it is copied, which takes a second, instead of compiled anew, which takes minutes.
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...base.event_log import get_logger
from ...base.files.filesystem import READ_FLAGS
from ..errors import SandboxUnavailable
from .private_cache import (
    has_other_names,
    is_checked,
    keep,
    note_checked,
    opened_private,
    recorded_digest,
    why_unusable,
)

if TYPE_CHECKING:
    from ...base.files import AtomicFileWriter

_BLOCK: Final = 1 << 20

_log = get_logger("agentforge.sandbox")


def say_why_unused(cache: Path, name: str) -> None:
    """Log why the compiled interpreter is not used, if there is one."""
    fault = why_unusable(cache / name)
    if fault is not None:
        _log.warning("runtime.compiled_not_right", cache=str(cache), reason=fault)


def unloadable(cache: Path | None, error: OSError) -> SandboxUnavailable:
    """What is raised where the compiled interpreter is there, and the system cannot load it."""
    return SandboxUnavailable(
        f"the compiled interpreter in {cache} cannot be loaded ({error.strerror}); it was kept",
        "close what is not needed, or raise this process's limits of memory and open files",
    )


def keep_digest(cache: Path, name: str, digest: str) -> None:
    """Record the digest of the compiled interpreter as it is now."""
    with opened_private(cache, name) as fd:
        if fd is not None:
            note_checked(cache, name, fd, digest)


def record_compiled(cache: Path, name: str) -> None:
    """Record the digest of a compiled interpreter that has none, by reading all of it."""
    with opened_private(cache, name) as fd:
        if fd is None:
            return
        known = recorded_digest(cache, name)
        if known is None or not is_checked(cache, name, fd, known):
            with open(fd, "rb", buffering=0, closefd=False) as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            note_checked(cache, name, fd, digest)


def mend_compiled(cache: Path, name: str) -> bool:
    """Have a file of its own in place of one that has other names, if it is what it was.

    Returns:
        Whether there is one. If not, nothing was changed.
    """
    digest = recorded_digest(cache, name)
    if digest is None or not has_other_names(cache / name):
        return False
    if not keep(cache, name, lambda writer: _copy(cache / name, digest, writer)):
        return False
    keep_digest(cache, name, digest)
    _log.info("runtime.compiled_mended", cache=str(cache))
    return True


def _copy(file: Path, digest: str, writer: AtomicFileWriter) -> None:
    read = hashlib.sha256()
    with open(os.open(file, READ_FLAGS), "rb", buffering=0) as source:
        while block := source.read(_BLOCK):
            read.update(block)
            writer.write_chunks([block])
    if read.hexdigest() != digest:
        raise OSError(errno.EIO, "it is not what was compiled")
