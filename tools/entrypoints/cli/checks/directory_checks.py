"""Check the sessions' directory for `agentforge doctor`.

No check changes a session; a check removes what it writes.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .... import harness
from ..output.text import counted_of, some_of
from .findings import Finding, fail, ok, warn

if TYPE_CHECKING:
    from ....harness.session_ports import SessionRepository

_LITTLE_SPACE: Final = 1024**3
_NO_SPACE: Final = 64 * 1024**2
_FEW_FILES: Final = 1000
_VOLATILE: Final = frozenset({"tmpfs", "ramfs"})
_REMOTE: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})


def _nearest(path: Path) -> Path:
    """Return `path`, or the nearest directory above it that exists."""
    whole = path.absolute()
    while not os.path.lexists(whole):
        whole = whole.parent
    return whole


def check_base(base: Path) -> Finding:
    """Check that sessions can be written at the base."""
    if not os.path.lexists(base):
        above = _nearest(base)
        if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
            return ok(f"{base} is not there yet; the first session makes it")
        return fail(
            f"{base} is not there and {above} is not writable",
            "Choose another with --base, or make it writable.",
        )
    if not base.is_dir():
        return fail(f"{base} is no directory", "Move it away, or choose another: --base.")
    if not os.access(base, os.R_OK | os.W_OK | os.X_OK):
        return fail(f"{base} is not readable and writable", f"chmod u+rwx {base}")
    mode = stat.S_IMODE(os.stat(base).st_mode)
    if mode & 0o002:
        return warn(f"{base} is writable by everybody", f"chmod o-w {base}")
    return ok(f"{base.absolute()} is readable and writable")


def check_durability(base: Path) -> Finding:
    """Check that a file can be written, synced, renamed and removed at the base."""
    if not base.is_dir():
        return ok("not tried: the base is not there yet")
    from ....base.files import OsFileSystem

    name = f".doctor-{secrets.token_hex(6)}"
    step = "open the directory"
    try:
        directory = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            step = "create a file"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            fd = os.open(name, flags, 0o600, dir_fd=directory)
            try:
                step = "write"
                os.write(fd, b"doctor\n")
                step = "fsync the file"
                OsFileSystem.fsync(fd)
                step = "rename"
                os.rename(name, f"{name}-2", src_dir_fd=directory, dst_dir_fd=directory)
                step = "fsync the directory"
                OsFileSystem.fsync(directory)
            finally:
                os.close(fd)
                for left in (name, f"{name}-2"):
                    with suppress(OSError):
                        os.unlink(left, dir_fd=directory)
        finally:
            os.close(directory)
    except OSError as error:
        return fail(
            f"could not {step} in {base}: {error.strerror}",
            "Free the disk, fix its permissions, or choose another place with --base.",
        )
    return ok("a file was written, synced, renamed and removed")


def check_lock(base: Path) -> Finding:
    """Check that the base can be locked."""
    from ....base.files import DirectoryLock, LockTimeout, OsFileSystem, WriteError

    if not base.is_dir():
        return ok("not tried: the base is not there yet")
    try:
        with DirectoryLock(OsFileSystem(), base, timeout_s=2.0, follow=True):
            return ok("the base can be locked")
    except LockTimeout:
        return warn(
            "another process has held the lock of the base for 2 s",
            f"See who it is: fuser -v {base}",
        )
    except WriteError as error:
        return fail(str(error), "Choose a local file system with --base.")


def check_digests(store: SessionRepository) -> Finding:
    """Check that each session's file has the digest of its content; read every file."""
    from ....harness.format.session_digest import differs

    names = store.list_sessions()
    changed = []
    for name in names:
        with suppress(harness.HarnessError):  # the check of the sessions reports what can't be read
            if differs(store.read_document(name) or b""):
                changed.append(name)
    if changed:
        return warn(
            f"the digest of {len(changed)} of {counted_of(len(names), 'file')} is not that of its "
            "content: "
            f"{some_of(changed)}",
            "They were edited by hand, or damaged on the disk. See that each says what it should, "
            "or restore a copy; the next save writes a new digest.",
        )
    return ok("each file is as it was written" if names else "none yet")


def check_file_system(base: Path, mounts: str | None = None) -> Finding:
    """Check that the base's file system preserves synced data."""
    where = _nearest(base)
    if mounts is None:
        table = Path("/proc/self/mountinfo")  # macOS has none: the kind is unknown there
        mounts = table.read_text(encoding="utf-8", errors="replace") if table.exists() else ""
    kind = _kind_of(where, mounts)
    if kind in _VOLATILE:
        return warn(f"{kind}: sessions are lost after a restart", "Choose a disk: --base.")
    if kind in _REMOTE:
        return warn(
            f"{kind}: locks hold between processes of one machine only",
            "Work on a session from one machine at a time, or choose a local disk: --base.",
        )
    return ok(kind or "unknown")


def _kind_of(path: Path, mounts: str) -> str | None:
    """Return the file system type of `path`: that of the deepest mount above it."""
    whole = os.path.realpath(path)
    best = -1
    kind = None
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        parts = fields.split()
        if len(parts) < 5 or not rest:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), parts[4])
        inside = point in {"/", whole} or whole.startswith(f"{point}/")
        if inside and len(point) >= best:
            best = len(point)
            kind = rest.split()[0]
    return kind


def check_space(base: Path, status: os.statvfs_result | None = None) -> Finding:
    """Check that the disk has free space."""
    found = status if status is not None else os.statvfs(_nearest(base))
    free = found.f_bavail * found.f_frsize
    shown = f"{free / 1024**3:.1f} GiB free"
    few_files = found.f_files > 0 and found.f_favail < _FEW_FILES
    if free < _NO_SPACE:
        return fail(shown, "Free the disk: agentforge prune --kind agent, or remove other files.")
    if few_files:
        return fail(f"{shown}, but only {found.f_favail} more files fit", "Remove files.")
    if free < _LITTLE_SPACE:
        return warn(shown, "Free the disk soon: agentforge prune --kind agent.")
    return ok(shown)
