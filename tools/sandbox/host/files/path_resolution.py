"""From a path of the guest to a directory of the host and a name in it: the one way there is.

Whatever links there are and whoever makes them meanwhile, no path leads out of the tree, and none
reaches the file that is hidden at its root. Where the kernel has `openat2` it walks the plain part
of a path in one step; links, `..` and names that look hidden are always walked here, a component at
a time, on descriptors of directories that were entered without following a link. A link that leads
out does not exist for the guest. It is one module, long as it is: whoever judges the way by which
paths are walked has to see all of it.
"""

# Annotations are evaluated here: each field's would be compiled if it were a text.

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
"""The most links on the way of one path, as the kernel has it."""

_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
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
"""Why a link that leads to nothing does so; anything else is a fault of the host."""


class LeadsOutError(FileNotFoundError):
    """A link on the way leads out of the tree, or to what is hidden."""

    def __init__(self) -> None:
        super().__init__(errno.ENOENT, os.strerror(errno.ENOENT))


class _AboveStartError(LeadsOutError):
    """A link on the way leads above where the path began, which may be in the tree."""


class Place:
    """Where a path leads: a name in a directory, which need not be there.

    Attributes:
        directory: A descriptor of the directory; for the use of names only.
        name: The name in it; `.` for the directory itself.
        path: The whole path from the root of the tree.
        must_be_directory: Whether the path said so, by a slash at its end.
        owned: Whether the descriptor is this place's, to be closed with it.
        calls: Looks there.
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
        """Whether it is the directory that the path began or went through, not a name in it."""
        return self.name == b"."

    def look(self) -> os.stat_result | None:
        """What was there when it was first looked at, links not followed; None for nothing."""
        if not self._looked:
            self._looked = True
            try:
                self._seen = self.calls.stat(self.name, dir_fd=self.directory)
            except FileNotFoundError:
                self._seen = None
        return self._seen


class Start(NamedTuple):
    """Where paths begin.

    Attributes:
        directory: A descriptor of a directory in the tree.
        path: Its path from the root of the tree; empty for the root.
    """

    directory: int
    path: bytes


class PathResolver:
    """Resolves the paths of one tree.

    Args:
        root: A descriptor of the tree's root; it stays the caller's.
        hides: Whether the host's own file at the root is hidden.
        calls: The system calls it walks with; where they have no `openat2`, by component.

    Attributes:
        upkeep: Has each component that is walked here paid, those of links too.
    """

    def __init__(self, root: int, *, hides: bool, calls: SystemCalls = LINUX) -> None:
        self.calls: Final = calls
        self._root = root
        self._identity = _identity(calls.fstat(root))
        self._hides = hides
        self._has_openat2 = True
        self.upkeep = Upkeep()

    def is_root(self, directory: int) -> bool:
        """Whether a descriptor is of the tree's root, however it was reached."""
        return _identity(self.calls.fstat(directory)) == self._identity

    def is_hidden_name(self, name: bytes) -> bool:
        """Whether a name is hidden, if it is one at the root."""
        return self._hides and _is_hidden(name)

    def hidden_file(self) -> os.stat_result | None:
        """The file that is hidden, to be known by its identity under other names.

        Raises:
            OSError: It cannot be looked at; then nothing that may be it is to be shown.
        """
        if not self._hides:
            return None
        try:
            return self.calls.stat(_HIDDEN, dir_fd=self._root)
        except FileNotFoundError:
            return None

    def locate(
        self, start: Start, path: bytes, *, follow: bool = False, making: bool = False
    ) -> Place:
        """Where a path leads.

        Args:
            start: Where it begins; it never leads above that.
            path: The path.
            follow: Whether a link at its end is followed.
            making: Whether something is to be made there.

        Raises:
            LeadsOutError: A link leads out, or to what is hidden.
            OSError: A directory on the way is none (ENOTDIR) or is missing (ENOENT), the path
                climbs out (EPERM), is too long or too deep (ENAMETOOLONG), or names what is hidden
                (ENOENT, or EPERM for making it).
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
            return Place(
                start.directory, name, whole, must_be_directory, owned=False, calls=self.calls
            )
        fd = self._enter(start, parts[:-1]) if self._has_openat2 else None
        if fd is None:
            return self._walk(start, parts, must_be_directory, follow=False, making=making)
        return Place(fd, parts[-1], whole, must_be_directory, owned=True, calls=self.calls)

    def _enter(self, start: Start, parts: list[bytes]) -> int | None:
        """The directory at a plain path, or None where it has to be walked by component."""
        try:
            return self.calls.openat2(
                start.directory, b"/".join(parts), os.O_PATH | os.O_DIRECTORY, _BENEATH
            )
        except OSError as error:
            if error.errno in (errno.ENOSYS, errno.EPERM):
                self._has_openat2 = False  # an old kernel, or a filter of system calls
            elif error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.EAGAIN):
                raise
            return None

    def leads_out(self, place: Place) -> bool:
        """Whether a link leads out of the tree, or to what is hidden.

        The way to the directory that it is in is walked only if it leads above that.

        Raises:
            OSError: That cannot be found out, for a reason that does not lie in the link.
        """
        start = Start(place.directory, place.path[: -len(place.name) - 1])
        try:
            return self._lead_out(start, [place.name], links=0)
        except _AboveStartError:
            return self._lead_out(Start(self._root, b""), place.path.split(b"/"), links=0)

    def would_lead_out(self, place: Place, target: bytes) -> bool:
        """Whether a link made at a place would, if it led to a target; raises as `leads_out`."""
        parts = [*place.path.split(b"/")[:-1], *target.split(b"/")]
        parts = [part for part in parts if part not in (b"", b".")]
        return self._lead_out(Start(self._root, b""), parts, links=1)

    def _lead_out(self, start: Start, parts: list[bytes], *, links: int) -> bool:
        try:
            with (
                _Walk(self, start, links) as walk,
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
    ) -> Place:
        with _Walk(self, start) as walk:
            return walk.run(parts, must_be_directory, follow=follow, making=making)


class _Walk:
    """One path, walked a component at a time."""

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
    ) -> Place:
        """Walk to the end, and return it."""
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
        """What a link leads to."""
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
            if error.errno in (errno.ELOOP, errno.ENOTDIR):  # another is in its place by now
                raise refusal(errno.ENOENT) from error
            raise
        self._opened.append(fd)
        self._names.append(part)

    def _end(self, name: bytes, must_be_directory: bool) -> Place:
        parts = self._names if name == b"." else [*self._names, name]
        path = _bounded(_join(self._start.path, parts))
        owned = bool(self._opened)
        directory = self._opened.pop() if owned else self._start.directory
        return Place(directory, name, path, must_be_directory, owned=owned, calls=self._calls)


@lru_cache(1 << 12)
def _is_hidden(name: bytes) -> bool:
    if len(name) < len(HIDDEN_NAME) and name.isascii():
        return False  # no spelling in ASCII is shorter
    return is_hidden(os.fsdecode(name))


def names_directory_itself(path: bytes) -> bool:
    """Return whether a path ends with `.`: what it names is a directory, not a name in one."""
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


def _identity(seen: os.stat_result) -> tuple[int, int]:
    return seen.st_dev, seen.st_ino
