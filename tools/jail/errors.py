"""The errors of the jail.

Each has its cause in the caller or the machine. A command's behaviour in the jail is never an error
here: it is in a `JailResult`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from ..base.errors import AgentForgeError, ErrorKind


class JailError(AgentForgeError, kind=ErrorKind.SANDBOX):
    """Base of the jail's errors."""


class Refusal(StrEnum):
    """What prevents this machine from making a jail."""

    NO_BUBBLEWRAP = "no bubblewrap"
    OLD_BUBBLEWRAP = "bubblewrap is too old"
    NAMESPACE_LIMIT = "limit on namespaces"
    USER_NAMESPACES_OFF = "user namespaces are off"
    APPARMOR = "AppArmor restricts user namespaces"
    NOT_PERMITTED = "namespaces are not permitted"
    PROC_READ_ONLY = "/proc is read-only"
    PROC_MASKED = "/proc can't be mounted"
    FOLDER_UNREADABLE = "a folder can't be read"
    FOLDER_MISSING = "a folder is not there"
    NO_SECCOMP = "the system call filter is refused"
    ARCHITECTURE = "no system call filter for this processor"
    SYSTEM = "not Linux"
    OTHER = "bubblewrap failed"


class JailUnavailable(JailError, RuntimeError):
    """No jail can be made here; no command ran."""

    message = """no jail can be made here, {refusal}: {reason}. No command ran; {remedy}. An agent's
    work also runs with --no-jail: its commands can then read, change and send all that you can"""
    refusal: Refusal
    reason: str
    """The system's answer."""
    remedy: str
    """The remedy."""


class InvalidJail(JailError, ValueError, kind=ErrorKind.USAGE):
    """A policy or a command can't be honoured; nothing ran."""

    message = "the jail was refused: {faults:;}. Nothing ran; correct the values"
    faults: Sequence[str]


class FolderForbidden(JailError, ValueError, kind=ErrorKind.USAGE):
    """A folder may not be shown to commands in a jail; nothing ran."""

    message = """{path!r}{leads} may not be shown to what runs in a jail: {reason}. Nothing ran;
    name the toolchain's own folder instead"""
    path: Path
    """The folder as given."""
    resolved: Path
    reason: str

    @property
    def leads(self) -> str:
        """Where the folder leads, if that is elsewhere."""
        return "" if self.path == self.resolved else f" (it leads to {str(self.resolved)!r})"


class CommandMissing(JailError, LookupError, kind=ErrorKind.NOT_FOUND):
    """A program is in no folder of the path; nothing ran."""

    message = """there is no program {name!r} in {path:or an empty PATH}. Nothing ran; install it,
    or name it by its whole path"""
    name: str
    path: str
    """The folders that were searched."""


class MountPointUnusable(JailError, kind=ErrorKind.REFUSED):
    """A folder of the workspace can't be a mount point; nothing ran."""

    message = """{path!r} in the workspace can't take a mount: {reason}. Nothing ran; remove it from
    the workspace, or mount elsewhere"""
    path: str
    """The intended mount point, relative to the workspace."""
    reason: str


class JailNotEnded(JailError, RuntimeError):
    """A killed command in a jail has not ended: the kernel holds it in a system call."""

    message = """the jail of process {pid} was killed and still lives after {waited_s:g} s, held by
    the kernel. Do not use its workspace; see what the process waits for"""
    pid: int
    waited_s: float
