"""The errors of the jail.

Each is the caller's or the machine's doing. What a command does in the jail is never an error here:
it is in a `JailResult`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from ..base.errors import AgentForgeError, ErrorKind


class JailError(AgentForgeError):
    """The base of every error that the jail raises on purpose."""

    kind = ErrorKind.SANDBOX


class Refusal(StrEnum):
    """What keeps this machine from making a jail."""

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
    OTHER = "bubblewrap failed"


class JailUnavailable(JailError, RuntimeError):
    """No jail can be made here; no command ran.

    Attributes:
        refusal: Which refusal it was.
        reason: What the system answered.
        remedy: What to change.
    """

    def __init__(self, refusal: Refusal, reason: str, remedy: str) -> None:
        self.refusal = refusal
        self.reason = reason
        self.remedy = remedy
        super().__init__(
            f"no jail can be made here, {refusal.value}: {reason}. No command ran; {remedy}"
        )


class InvalidJail(JailError, ValueError):
    """A policy or a command can't be honoured; nothing ran.

    Attributes:
        faults: Every fault found, one sentence each.
    """

    kind = ErrorKind.USAGE

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(
            f"the jail was refused: {'; '.join(self.faults)}. Nothing ran; correct the values"
        )


class FolderForbidden(JailError, ValueError):
    """A folder may not be shown to what runs in a jail; nothing ran.

    Attributes:
        path: The folder as it was named.
        resolved: Where it leads.
        reason: Why it is refused.
    """

    kind = ErrorKind.USAGE

    def __init__(self, path: Path, resolved: Path, reason: str) -> None:
        self.path = path
        self.resolved = resolved
        self.reason = reason
        leads = "" if path == resolved else f" (it leads to {str(resolved)!r})"
        super().__init__(
            f"{str(path)!r}{leads} may not be shown to what runs in a jail: {reason}. "
            "Nothing ran; name the toolchain's own folder instead"
        )


class CommandMissing(JailError, LookupError):
    """A program is nowhere on the path; nothing ran.

    Attributes:
        name: The program.
        path: The folders that were searched.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        super().__init__(
            f"there is no program {name!r} in {path or 'an empty PATH'}. Nothing ran; install it, "
            "or name it by its whole path"
        )


class MountPointUnusable(JailError):
    """A folder of the workspace can't take a mount; nothing ran.

    Attributes:
        path: Where the mount was to be, relative to the workspace.
        reason: Why it can't be.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"{path!r} in the workspace can't take a mount: {reason}. Nothing ran; remove it from "
            "the workspace, or mount elsewhere"
        )


class JailNotEnded(JailError, RuntimeError):
    """What ran in a jail was killed and has not ended: the kernel holds it in a system call.

    Attributes:
        pid: The jail's first process.
        waited_s: How long its end was waited for, in seconds.
    """

    def __init__(self, pid: int, waited_s: float) -> None:
        self.pid = pid
        self.waited_s = waited_s
        super().__init__(
            f"the jail of process {pid} was killed and still lives after {waited_s:g} s, held by "
            "the kernel. Do not use its workspace; see what the process waits for"
        )
