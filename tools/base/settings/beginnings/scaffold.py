"""Set up a project: its configuration, a specification, a workflow, lines in .gitignore.

Each file is written completely, atomically and durably, and the configuration last, so that it
names no missing file; the next run completes a killed one. Existing files are not changed without
`force`, except for lines added to .gitignore. No link is followed below the folder.

The examples, workflows of scripts in a folder each, are the repository's `examples/workflows`:
`example_workflows` is a link to it; the wheel contains the files in its place.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import Final

from attrs import frozen

from ...data_folder import NAME, find_data_folder, is_repository
from ...errors import AgentForgeError, ErrorKind
from ...files import (
    AtomicFileWriter,
    DirectoryLock,
    FileSystem,
    OsFileSystem,
    ReadError,
    WriteError,
    read_regular_file,
)
from ...files.filesystem import DIRECTORY_FLAGS, close_reader
from ...files.safe_path import Missing, directory_beneath
from ..configuration_file import FILE_NAME
from .beginnings import Beginning, beginning_of
from .detection import Detected, OpenFolder, detect_project
from .scaffold_content import IGNORED, configuration_text, with_ignored

_FOLDER: Final = Path(__file__).with_name("example_workflows")
_WORKFLOW: Final = "workflow.yaml"


class ScaffoldRefused(AgentForgeError, kind=ErrorKind.REFUSED):
    """A project's files can't be written to their places; none was written."""

    message = "{path}: {reason}. Nothing was written."
    path: Path
    reason: str


class UnknownExample(AgentForgeError, kind=ErrorKind.USAGE):
    """There is no example of this name."""

    message = "there is no example {name!r}; there are {known:,}. Nothing was started."
    name: str
    known: Sequence[str]


@frozen
class Example:
    """A workflow that comes with the package.

    Attributes:
        name: Its name.
        workflow: Its workflow file; the files that it names are beside it.
    """

    name: str
    workflow: Path

    def files(self) -> dict[str, bytes]:
        """Return the contents of all its files, by name."""
        return {
            one.name: one.read_bytes()
            for one in sorted(self.workflow.parent.iterdir())
            if one.is_file()
        }


def examples() -> tuple[Example, ...]:
    """Return the examples, by name."""
    found = sorted(_FOLDER.glob(f"*/{_WORKFLOW}"))
    return tuple(Example(path.parent.name, path) for path in found)


def find_example(name: str) -> Example:
    """Return an example.

    Raises:
        UnknownExample: There is none of this name.
    """
    known = {one.name: one for one in examples()}
    if name not in known:
        raise UnknownExample(name, list(known))
    return known[name]


SPECIFICATION: Final = f"{NAME}/specs/greeting.yaml"
WORKFLOW: Final = f"{NAME}/workflows/hello/workflow.yaml"
CHECKS: Final = f"{NAME}/workflows/checks/workflow.yaml"
"""The workflow of a project whose tests the sandbox can't run."""
_TEMPLATES: Final = Path(__file__).resolve().parent / "templates"
_IGNORE: Final = ".gitignore"
_MAX_BYTES: Final = 4 << 20
_MODE: Final = 0o644


class ScaffoldAction(StrEnum):
    """What a scaffold does with a file."""

    WRITTEN = "written"
    REPLACED = "replaced"
    EXTENDED = "extended"
    KEPT = "kept"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@frozen(kw_only=True)
class PlannedFile:
    """One file of a scaffold.

    Attributes:
        path: Its path, relative to the folder.
        change: What happens to it: KEPT is one that exists and differs, UNCHANGED one that has this
            content already, REFUSED one that can't be changed.
        content: Its new content.
        mode: Its mode.
        reason: Why it is refused, or None.
    """

    path: str
    change: ScaffoldAction
    content: bytes = b""
    mode: int = _MODE
    reason: str | None = None

    @property
    def is_written(self) -> bool:
        """Whether the file is written."""
        return self.change in {
            ScaffoldAction.WRITTEN,
            ScaffoldAction.REPLACED,
            ScaffoldAction.EXTENDED,
        }


@frozen(kw_only=True)
class Scaffold:
    """What setting up a project does, or did.

    Attributes:
        folder: The folder, absolute.
        detected: The detected kind of project.
        beginning: The project's setup.
        in_repository: Whether it is in a repository.
        files: Its files, in the order in which they are written.
        hides: The data folder above that this one hides for the folder, or None.
    """

    folder: Path
    detected: Detected
    beginning: Beginning
    in_repository: bool
    files: tuple[PlannedFile, ...]
    hides: Path | None = None

    @property
    def changes_something(self) -> bool:
        """Whether any file is written."""
        return any(one.is_written for one in self.files)


def begin_project(
    folder: Path | str = ".",
    *,
    force: bool = False,
    dry_run: bool = False,
    fs: FileSystem | None = None,
) -> Scaffold:
    """Write the first files of a project.

    Args:
        folder: The project; it must exist.
        force: Whether to replace existing files.
        dry_run: Whether to write nothing.
        fs: The file system.

    Returns:
        What was written (or, for a dry run, would be), and what was left unchanged.

    Raises:
        ScaffoldRefused: The folder does not exist, or a link or another kind of entry is where a
            folder or file belongs; nothing was written.
        WriteError: The system refused; files written before are complete, and the next run writes
            the rest.
    """
    system: FileSystem = fs if fs is not None else OsFileSystem()
    path = Path(os.path.realpath(folder))
    try:
        with _held(system, path, locked=not dry_run) as fd:
            plan = _plan(system, fd, path, force=force)
            if not dry_run:
                for one in plan.files:
                    if one.is_written:
                        _write(system, fd, path, one)
            return plan
    except FileNotFoundError as error:
        raise ScaffoldRefused(path, "there is no such folder") from error
    except NotADirectoryError as error:
        raise ScaffoldRefused(path, "it is no folder") from error


@contextmanager
def _held(fs: FileSystem, path: Path, *, locked: bool) -> Iterator[int]:
    """Hold the folder open, and locked against other runs if files are written."""
    fd = fs.open(str(path), DIRECTORY_FLAGS)
    try:
        if not locked:
            yield fd
            return
        with DirectoryLock(fs, path) as lock:
            yield lock.fd
    finally:
        close_reader(fs, fd)


# ------------------------------------------------------------------------------------------ plan


def _plan(fs: FileSystem, fd: int, path: Path, *, force: bool) -> Scaffold:
    opened = OpenFolder(fs, fd, path)
    detected = detect_project(opened)
    beginning = beginning_of(opened, detected.facts)
    shared = _in_repository(path)
    own: dict[str, bytes] = {}
    if beginning.template is not None:
        own[SPECIFICATION] = _filled(beginning.template, beginning.values)
    workflow = WORKFLOW
    if beginning.checks is not None and shared:
        workflow = CHECKS
        own[CHECKS] = _filled("checks.yaml", {"command": beginning.checks})
    else:
        beside = WORKFLOW.rpartition("/")[0]
        own |= {f"{beside}/{name}": data for name, data in find_example("hello").files().items()}
    own[f"{NAME}/{FILE_NAME}"] = configuration_text(
        detected, beginning, workflow=workflow, in_repository=shared
    ).encode()
    files = [_planned(fs, fd, path, name, content, force) for name, content in own.items()]
    ignore = _ignore(fs, fd, path)
    above = find_data_folder(path)
    return Scaffold(
        folder=path,
        detected=detected,
        beginning=beginning,
        in_repository=shared,
        files=(*([ignore] if ignore is not None else []), *files),
        hides=above if above is not None and above.parent != path else None,
    )


def _filled(name: str, values: Mapping[str, str]) -> bytes:
    """Return a template filled with values."""
    return Template((_TEMPLATES / name).read_text()).substitute(values).encode()


def _planned(
    fs: FileSystem, fd: int, path: Path, name: str, content: bytes, force: bool
) -> PlannedFile:
    *folders, last = name.split("/")
    try:
        with directory_beneath(fs, fd, folders) as directory_fd:
            status = fs.stat(last, dir_fd=directory_fd)
            if not stat.S_ISREG(status.st_mode):
                raise ScaffoldRefused(path / name, "a link or another thing stands there")
            present = _content(fs, directory_fd, path / name)
    except FileNotFoundError:
        return PlannedFile(path=name, change=ScaffoldAction.WRITTEN, content=content)
    except OSError as error:
        raise ScaffoldRefused(path / name, _words(error)) from error
    if present == content:
        return PlannedFile(path=name, change=ScaffoldAction.UNCHANGED)
    if not force:
        return PlannedFile(path=name, change=ScaffoldAction.KEPT)
    mode = stat.S_IMODE(status.st_mode) & 0o777
    return PlannedFile(path=name, change=ScaffoldAction.REPLACED, content=content, mode=mode)


def _content(fs: FileSystem, directory_fd: int, path: Path) -> bytes | None:
    """Return a file's content; None if it can't be read, which counts as a difference."""
    try:
        return read_regular_file(
            fs, path.name, path=path, max_bytes=_MAX_BYTES, directory_fd=directory_fd
        )
    except ReadError:
        return None


def _ignore(fs: FileSystem, fd: int, path: Path) -> PlannedFile | None:
    """Plan .gitignore; None if there is neither such a file nor a repository."""
    try:
        status = fs.stat(_IGNORE, dir_fd=fd)
    except FileNotFoundError:
        if not _in_repository(path):
            return None
        return PlannedFile(path=_IGNORE, change=ScaffoldAction.WRITTEN, content=with_ignored(b""))
    if not stat.S_ISREG(status.st_mode):
        return _ignore_refused("it is a link or another thing, which is not changed")
    content = _content(fs, fd, path / _IGNORE)
    if content is None or b"\0" in content:
        return _ignore_refused("it is no text of a usual size")
    wanted = with_ignored(content)
    if wanted == content:
        return PlannedFile(path=_IGNORE, change=ScaffoldAction.UNCHANGED)
    mode = stat.S_IMODE(status.st_mode) & 0o777
    return PlannedFile(path=_IGNORE, change=ScaffoldAction.EXTENDED, content=wanted, mode=mode)


def _ignore_refused(reason: str) -> PlannedFile:
    lines = " and ".join(IGNORED)
    return PlannedFile(
        path=_IGNORE, change=ScaffoldAction.REFUSED, reason=f"{reason}; have git ignore {lines}"
    )


def _in_repository(path: Path) -> bool:
    home = os.path.realpath(os.path.expanduser("~"))
    for directory in (path, *path.parents):
        if is_repository(directory):
            return True
        if str(directory) == home:
            return False
    return False


# ----------------------------------------------------------------------------------------- write


def _write(fs: FileSystem, fd: int, path: Path, one: PlannedFile) -> None:
    *folders, _ = one.path.split("/")
    target = path / one.path
    try:
        with (
            directory_beneath(fs, fd, folders, missing=Missing.MADE_DURABLY) as directory_fd,
            AtomicFileWriter(target, fs=fs, directory_fd=directory_fd, mode=one.mode) as file,
        ):
            file.write(one.content)
    except OSError as error:
        raise WriteError(path=target, operation="open its directory", cause=error) from error


def _words(error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "a symbolic link is on the way, which is not followed"
    if error.errno == errno.ENOTDIR:
        return "something that is no folder is on the way"
    return os.strerror(error.errno or 0)
