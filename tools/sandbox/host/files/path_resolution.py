"""Resolution of guest paths to a host directory and a name in it; there is no other way.

Whatever links exist or are created meanwhile, no path leads out of the tree, and none reaches the
hidden file at its root. If the kernel has `openat2`, it walks the plain part of a path in one step.
Links, `..` and names that look hidden are always walked here, one component at a time, on
descriptors of directories entered without following a link. A link that leads out does not exist
for the guest. The module is long because a review of the walk needs all of it in one place.
"""

# No deferred annotations here: as strings, each field's would have to be compiled.

import errno
import os
import stat
from functools import lru_cache
from typing import Final, NamedTuple, Self

from ....base.files.filesystem import close_reader
from ...guest_paths import HIDDEN_NAME, MAX_DEPTH, MAX_GUEST_PATH_BYTES, is_hidden
from ..engine import native
from .files import refusal
from .system_calls import LINUX, SystemCalls
from .upkeep import Upkeep

MAX_LINKS: Final = 40
"""The most links followed on one path; the kernel's limit."""

_DIRECTORY: Final = native.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BENEATH: Final = native.RESOLVE_BENEATH | native.RESOLVE_NO_SYMLINKS | native.RESOLVE_NO_MAGICLINKS
_HIDDEN: Final = HIDDEN_NAME.encode()
_OF_THE_LINK: Final = frozenset(
    {
        errno.EACCES,
        errno.EINVAL,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
    }
)
"""Errors that mean a link leads nowhere; any other is a fault of the host."""


class LeadsOutError(FileNotFoundError):
    """A link on the way leads out of the tree, or to the hidden file."""

    def __init__(self) -> None:
        super().__init__(errno.ENOENT, os.strerror(errno.ENOENT))


class _AboveStartError(LeadsOutError):
    """A link on the way leads above the path's start, which may still be in the tree."""


class ResolvedPath:
    """Where a path leads: a name in a directory; it need not exist.

    Attributes:
        directory: A descriptor of the directory; for operations on names only.
        name: The name in it; `.` for the directory itself.
        path: The full path from the root of the tree.
        must_be_directory: Whether the path ends with a slash.
        owned: Whether this place owns the descriptor and closes it.
        calls: The system calls to use.
    """

    __slots__ = (
        "_looked",
        "_seen",
        "calls",
        "directory",
        "must_be_directory",
        "name",
        "owned",
        "path",
    )

    def __init__(
        self,
        directory: int,
        name: bytes,
        path: bytes,
        must_be_directory: bool,
        owned: bool,
        calls: SystemCalls,
    ) -> None:
        self.directory = directory
        self.name = name
        self.path = path
        self.must_be_directory = must_be_directory
        self.owned = owned
        self.calls = calls
        self._looked = False
        self._seen: os.stat_result | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.owned:
            close_reader(self.calls, self.directory)

    @property
    def is_directory_itself(self) -> bool:
        """Whether it is the directory the path began at or went through, not a name in it."""
        return self.name == b"."

    def look(self) -> os.stat_result | None:
        """Return the status from the first look, links not followed; None if nothing is there."""
        if not self._looked:
            self._looked = True
            try:
                self._seen = self.calls.stat(self.name, dir_fd=self.directory)
            except FileNotFoundError:
                self._seen = None
        return self._seen


class Start(NamedTuple):
    """The start of a path.

    Attributes:
        directory: A descriptor of a directory in the tree.
        path: Its path from the root of the tree; empty for the root.
    """

    directory: int
    path: bytes


class PathResolver:
    """Resolves the paths of one tree.

    Args:
        root: A descriptor of the tree's root; the caller owns it.
        hides: Whether the host's own file at the root is hidden.
        calls: The system calls to use; without `openat2`, paths are walked by component.

    Attributes:
        upkeep: Charges the guest for each component walked here, including those of links.
    """

    def __init__(self, root: int, *, hides: bool, calls: SystemCalls = LINUX) -> None:
        self.calls: Final = calls
        self._root = root
        self._hides = hides
        self._has_openat2 = True
        self.upkeep = Upkeep()

    def is_root(self, directory: int) -> bool:
        """Return whether a descriptor refers to the tree's root, however it was reached."""
        return os.path.samestat(self.calls.fstat(directory), self.calls.fstat(self._root))

    def is_hidden_name(self, name: bytes) -> bool:
        """Return whether a name at the root would be hidden."""
        return self._hides and _is_hidden(name)

    def hidden_file(self) -> os.stat_result | None:
        """Return the hidden file's status, to recognize it under other names.

        Raises:
            OSError: It cannot be read; then nothing that may be it must be shown.
        """
        if not self._hides:
            return None
        try:
            return self.calls.stat(_HIDDEN, dir_fd=self._root)
        except FileNotFoundError:
            return None

    def locate(
        self, start: Start, path: bytes, *, follow: bool = False, making: bool = False
    ) -> ResolvedPath:
        """Return where a path leads.

        Args:
            start: Where the path begins; it never leads above that.
            path: The path.
            follow: Whether a link at its end is followed.
            making: Whether something is to be created there.

        Raises:
            LeadsOutError: A link leads out, or to the hidden file.
            OSError: A directory on the way is not one (ENOTDIR) or is missing (ENOENT), the path
                climbs out (EPERM), is too long or too deep (ENAMETOOLONG), or names the hidden file
                (ENOENT, or EPERM for creating it).
        """
        if not path:
            raise refusal(errno.ENOENT)
        parts = [part for part in path.split(b"/") if part not in (b"", b".")]
        if len(path) > MAX_GUEST_PATH_BYTES or len(parts) > MAX_DEPTH:
            raise refusal(errno.ENAMETOOLONG)
        must_be_directory = path.endswith(b"/")
        if names_directory_itself(path):
            parts.append(b".")
        plain = not (follow or b".." in parts or (self._hides and any(map(_is_hidden, parts))))
        if path.startswith(b"/"):
            raise refusal(errno.EPERM)
        if not plain:
            return self._walk(start, parts, must_be_directory, follow=follow, making=making)
        whole = _bounded(_join(start.path, parts))
        if len(parts) <= 1:
            name = parts[0] if parts else b"."
            return ResolvedPath(
                start.directory, name, whole, must_be_directory, owned=False, calls=self.calls
            )
        fd = self._enter(start, parts[:-1]) if self._has_openat2 else None
        if fd is None:
            return self._walk(start, parts, must_be_directory, follow=False, making=making)
        return ResolvedPath(fd, parts[-1], whole, must_be_directory, owned=True, calls=self.calls)

    def _enter(self, start: Start, parts: list[bytes]) -> int | None:
        """Open the directory at a plain path; return None if it must be walked by component."""
        try:
            return self.calls.openat2(
                start.directory, b"/".join(parts), native.O_PATH | os.O_DIRECTORY, _BENEATH
            )
        except OSError as error:
            if error.errno in (errno.ENOSYS, errno.EPERM):
                self._has_openat2 = False  # an old kernel, or a system call filter
            elif error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.EAGAIN):
                raise
            return None

    def leads_out(self, place: ResolvedPath) -> bool:
        """Return whether a link leads out of the tree, or to the hidden file.

        The path to the link's directory is walked only if the link leads above that directory.

        Raises:
            OSError: It cannot be determined, for a reason outside the link.
        """
        start = Start(place.directory, place.path[: -len(place.name) - 1])
        try:
            return self._lead_out(start, [place.name], links=0)
        except _AboveStartError:
            return self._lead_out(Start(self._root, b""), place.path.split(b"/"), links=0)

    def would_lead_out(self, place: ResolvedPath, target: bytes) -> bool:
        """Return whether a link made at a place with this target would; raise as `leads_out`."""
        parts = [*place.path.split(b"/")[:-1], *target.split(b"/")]
        parts = [part for part in parts if part not in (b"", b".")]
        return self._lead_out(Start(self._root, b""), parts, links=1)

    def _lead_out(self, start: Start, parts: list[bytes], *, links: int) -> bool:
        try:
            with (
                _PathWalk(self, start, links) as walk,
                walk.run(parts, must_be_directory=False, follow=True, making=False),
            ):
                return False
        except LeadsOutError as error:
            if isinstance(error, _AboveStartError) and start.path:
                raise
            return True
        except OSError as error:
            if error.errno in _OF_THE_LINK:
                return False
            raise

    def _walk(
        self,
        start: Start,
        parts: list[bytes],
        must_be_directory: bool,
        *,
        follow: bool,
        making: bool,
    ) -> ResolvedPath:
        with _PathWalk(self, start) as walk:
            return walk.run(parts, must_be_directory, follow=follow, making=making)


class _PathWalk:
    """The walk of one path, one component at a time."""

    def __init__(self, resolver: PathResolver, start: Start, links: int = 0) -> None:
        self._resolver = resolver
        self._calls = resolver.calls
        self._names: list[bytes] = []
        self._opened: list[int] = []
        self._start = start
        self._links = links

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the directories on the way."""
        for fd in self._opened:
            close_reader(self._calls, fd)

    def run(
        self, parts: list[bytes], must_be_directory: bool, *, follow: bool, making: bool
    ) -> ResolvedPath:
        """Walk to the end, and return the place there."""
        left, work = parts[::-1], self._resolver.upkeep.work
        while left:
            work()
            part = left.pop()
            if part == b".":
                continue
            if part == b"..":
                self._climb()
                continue
            last = not left
            self._refuse_hidden(part, making=making and last)
            seen = self._look(part)
            if seen is not None and stat.S_ISLNK(seen.st_mode) and (follow or not last):
                left += self._target(part)[::-1]
            elif last:
                return self._end(part, must_be_directory)
            else:
                self._enter(part, seen)
        return self._end(b".", must_be_directory)

    @property
    def _here(self) -> int:
        return self._opened[-1] if self._opened else self._start.directory

    def _climb(self) -> None:
        if not self._opened:
            raise _AboveStartError if self._links else refusal(errno.EPERM)
        close_reader(self._calls, self._opened.pop())
        self._names.pop()

    def _refuse_hidden(self, part: bytes, *, making: bool) -> None:
        if self._resolver.is_hidden_name(part) and self._resolver.is_root(self._here):
            if self._links:
                raise LeadsOutError
            raise refusal(errno.EPERM if making else errno.ENOENT)

    def _look(self, part: bytes) -> os.stat_result | None:
        try:
            return self._calls.stat(part, dir_fd=self._here)
        except FileNotFoundError:
            return None

    def _target(self, part: bytes) -> list[bytes]:
        """Return the components of a link's target."""
        self._links += 1
        if self._links > MAX_LINKS:
            raise refusal(errno.ELOOP)
        target = self._calls.readlink(part, dir_fd=self._here)
        if target.startswith(b"/"):
            raise LeadsOutError
        return [part for part in target.split(b"/") if part not in (b"", b".")]

    def _enter(self, part: bytes, seen: os.stat_result | None) -> None:
        if seen is None:
            raise refusal(errno.ENOENT)
        if not stat.S_ISDIR(seen.st_mode):
            raise refusal(errno.ENOTDIR if stat.S_ISREG(seen.st_mode) else errno.ENOENT)
        if len(self._names) >= MAX_DEPTH:
            raise refusal(errno.ENAMETOOLONG)
        try:
            fd = self._calls.open(part, _DIRECTORY, dir_fd=self._here)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):  # it has been replaced meanwhile
                raise refusal(errno.ENOENT) from error
            raise
        self._opened.append(fd)
        self._names.append(part)

    def _end(self, name: bytes, must_be_directory: bool) -> ResolvedPath:
        parts = self._names if name == b"." else [*self._names, name]
        path = _bounded(_join(self._start.path, parts))
        owned = bool(self._opened)
        directory = self._opened.pop() if owned else self._start.directory
        return ResolvedPath(
            directory, name, path, must_be_directory, owned=owned, calls=self._calls
        )


@lru_cache(1 << 12)
def _is_hidden(name: bytes) -> bool:
    if len(name) < len(HIDDEN_NAME) and name.isascii():
        return False  # no ASCII spelling is shorter
    return is_hidden(os.fsdecode(name))


def names_directory_itself(path: bytes) -> bool:
    """Return whether a path ends with `.`: it names a directory, not a name in one."""
    if path[-1:] not in (b".", b"/"):
        return False
    path = path.rstrip(b"/")
    return path == b"." or path.endswith(b"/.")


def _join(start: bytes, parts: list[bytes]) -> bytes:
    parts = [part for part in parts if part != b"."]
    return b"/".join([start, *parts] if start else parts)


def _bounded(path: bytes) -> bytes:
    if len(path) > MAX_GUEST_PATH_BYTES or path.count(b"/") >= MAX_DEPTH:
        raise refusal(errno.ENAMETOOLONG)
    return path
