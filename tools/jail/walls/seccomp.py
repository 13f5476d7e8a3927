"""The system call filter of a jail: built in advance for each processor, passed to bubblewrap."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from typing import Final

from ..bubblewrap import no_filter

_FILTERS: Final = Path(__file__).with_name("filters")
_NAMES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


@cache
def filter_program(machine: str | None = None) -> bytes:
    """Return the filter in the kernel's form, a sequence of `struct sock_filter`.

    Args:
        machine: The processor as `uname -m` names it; this one if None.

    Raises:
        JailUnavailable: There is none for this processor.
    """
    found = machine if machine is not None else platform.machine()
    name = _NAMES.get(found.lower())
    if name is None:
        raise no_filter(found)
    return (_FILTERS / f"{name}.bpf").read_bytes()


def in_memory(name: str, content: bytes) -> int:
    """Return a descriptor, at offset 0, of an anonymous file with this content."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
