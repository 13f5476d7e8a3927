"""The interpreter's module as native code: loaded from the cache, or compiled into it once.

Two compilers make it. The baseline one is four times quicker, so it is the first to run; what the
optimising one makes runs twice as fast and counts fuel, and is preferred. The native code runs
without further checks, so its file must belong to this user alone. Only a missing or invalid file
is recompiled, and the log says why. If the system cannot load the file now, that is an error.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ...base.event_log import get_logger
from ...base.files.filesystem import OsFileSystem
from ..errors import SandboxUnavailable
from ..host.engine.loaded_engine import (
    Engine,
    EngineUnavailable,
    has_baseline,
    the_baseline_engine,
    the_engine,
)
from ..installed.interpreter_files import InterpreterFiles, compiled_name
from .private_cache import keep, open_if_private, why_unusable

if TYPE_CHECKING:
    from ..host.engine.loaded_engine import Module

_log = get_logger("agentforge.sandbox")


class _Ahead:
    """A module loading on its own thread while the calling thread imports Python modules."""

    def __init__(self, engine: Engine, files: InterpreterFiles, cache: Path | None) -> None:
        self._module: Module | None = None
        self._given = (engine, files, cache)
        self._thread = threading.Thread(target=self._load, name="sandbox-loading", daemon=True)
        self._thread.start()

    def _load(self) -> None:
        with contextlib.suppress(SandboxUnavailable):  # the next load reports why
            self._module = load_compiled(*self._given)

    def module(self) -> Module | None:
        """Wait for the load to end; return the module, or None."""
        self._thread.join()
        return self._module


_ahead: Final[dict[tuple[int, Path | None], _Ahead]] = {}


def load_ahead(cache: Path | None) -> None:
    """Start loading the optimised module from the cache, for the next `ready_module`.

    A failure is reported by that call, not by this one.
    """
    with contextlib.suppress(EngineUnavailable, SandboxUnavailable):
        _ahead[os.getpid(), cache] = _Ahead(the_engine(), InterpreterFiles.found(), cache)


def ready_module(
    files: InterpreterFiles, cache: Path | None, *, metered: bool
) -> tuple[Engine, Module]:
    """Return the module and its engine: the optimised one if it is in the cache.

    Else, the baseline compiler's, which is compiled if it is missing; with `metered`, the optimised
    one is compiled. Of several processes one compiles, the others wait.

    Raises:
        EngineUnavailable: The module cannot be compiled.
        SandboxUnavailable: A file is missing or wrong, or the system cannot load one now.
    """
    ahead = _ahead.pop((os.getpid(), cache), None)
    engine = the_engine()
    module = (None if ahead is None else ahead.module()) or load_compiled(engine, files, cache)
    if module is not None:
        return engine, module
    if not metered and has_baseline():
        baseline = the_baseline_engine()
        module = load_compiled(baseline, files, cache)
        if module is not None:
            return baseline, module
        try:
            return _made(baseline, files, cache)
        except EngineUnavailable as error:  # a processor that it does not know
            _log.warning("runtime.no_baseline", reason=error.reason)
    return _made(engine, files, cache)


def _made(engine: Engine, files: InterpreterFiles, cache: Path | None) -> tuple[Engine, Module]:
    """Compile the module, unless another process has done so meanwhile, even with optimisation."""
    with making(cache, COMPILING if engine.metered else BASELINE) as locked:
        for each in dict.fromkeys((the_engine(), engine)):
            module = load_compiled(each, files, cache)
            if module is not None:
                return each, module
        return engine, compile_module(engine, files, cache, locked=locked)


def load_compiled(engine: Engine, files: InterpreterFiles, cache: Path | None) -> Module | None:
    """Return this engine's module from the cache, or None if there is no usable one.

    Raises:
        SandboxUnavailable: The file is usable, but the system cannot load it now.
    """
    name = compiled_name(files.digests, baseline=not engine.metered)
    if cache is None or name is None:
        return None
    try:
        fd = open_if_private(cache, name)
        if fd is not None:
            return _loaded(engine, fd)
        fault = why_unusable(cache / name)
        if fault is not None:
            _log.warning("runtime.compiled_not_right", cache=str(cache), reason=fault)
    except EngineUnavailable as error:
        _log.warning("runtime.compiled_not_right", cache=str(cache), reason=error.reason)
    except OSError as error:
        raise SandboxUnavailable(
            f"the compiled interpreter in {cache} cannot be loaded ({error.strerror}); it was kept",
            "close what is not needed, or raise this process's limits of memory and open files",
        ) from error
    return None


def _loaded(engine: Engine, fd: int) -> Module:
    try:
        return engine.load(fd)
    finally:
        os.close(fd)


def compile_module(
    engine: Engine, files: InterpreterFiles, cache: Path | None, *, locked: bool
) -> Module:
    """Compile the module and cache it if possible; the optimised one replaces the baseline's.

    Args:
        engine: Compiles and runs it.
        files: The interpreter's files.
        cache: The cache directory, or None.
        locked: Whether `making` holds the cache directory.

    Raises:
        SandboxUnavailable: The module is missing, or does not match its digest.
    """
    name = compiled_name(files.digests, baseline=not engine.metered)
    module = engine.compile(files.module())
    if cache is not None and name is not None:
        with engine.serialized(module) as code:
            done = keep(cache, name, lambda writer: writer.write_chunks([code]), locked=locked)
        if done and engine.metered:
            other = compiled_name(files.digests, baseline=True) or name
            with contextlib.suppress(OSError):  # it takes disk only; who has it mapped keeps it
                (cache / other).unlink(missing_ok=True)
    return module


COMPILING: Final = "compile"
"""The optimising compiler's work, and the name of its lock."""

BASELINE: Final = "baseline"
TEMPLATE: Final = "template"
_NOT_METERED: Final = (BASELINE, TEMPLATE)

_PROCESSOR_SECONDS: Final = {COMPILING: 200.0, BASELINE: 28.0}
"""What each compiler needs for the interpreter, about; for estimates of progress."""

SAID_AFTER_SECONDS: Final = 2.0
"""Seconds after which a wait is logged."""

_LOCK: Final = ".agentforge-{}.lock"
_MOST_BYTES: Final = 64


class Maker(NamedTuple):
    """Who holds a lock.

    Attributes:
        pid: Its process id; 0 if it is unknown.
        since_s: The processor time that it had used before, in seconds.
    """

    pid: int = 0
    since_s: float = 0.0

    def percent(self, what: str) -> int | None:
        """Estimate how much of a compilation it has done, from its processor time; None if unknown.

        Args:
            what: What it makes.
        """
        used, needed = used_s(self.pid) - self.since_s, _PROCESSOR_SECONDS.get(what)
        return None if needed is None or used < 0 else min(99, int(100 * used / needed))


def used_s(pid: int) -> float:
    """Return the processor time that a process has used, in seconds; -1 if it is unknown."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return -1.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def maker_of(cache: Path, what: str) -> Maker | None:
    """Return who makes something now, or None; creates nothing."""
    try:
        fd = os.open(cache / _LOCK.format(what), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _locked(fd, cache, what, None) else _holder(fd)
    finally:
        os.close(fd)


def doing(cache: Path | None, *, metered: bool) -> str:
    """Say what a process that waits for the interpreter waits for, and about how much is done."""
    if cache is None:
        return "working"
    for what in (BASELINE, TEMPLATE, COMPILING) if metered or not has_baseline() else _NOT_METERED:
        maker = maker_of(cache, what)
        if maker is not None:
            percent = maker.percent(what)
            said = "" if percent is None else f", about {percent} %"
            own = "compiling" if said else "preparing"
            who = f"process {maker.pid}" if maker.pid else "another process"
            return own + said if maker.pid == os.getpid() else f"waiting for {who}{said}"
    return "working"


@contextlib.contextmanager
def making(
    directory: Path | None,
    what: str = COMPILING,
    *,
    waits: bool = True,
    said_after_s: float = SAID_AFTER_SECONDS,
) -> Iterator[bool]:
    """Hold the lock while this process builds what is missing; by default, wait for it.

    The lock is the kernel's, on a file that is never removed. While it is held, the file contains
    the holder's process id, so that a waiting process can report it.

    Yields whether the lock is held. It is not if there is no directory, or the directory takes no
    lock file.

    Args:
        directory: The directory, created if missing.
        what: What is built; builds of different things do not wait for each other.
        waits: Whether to wait for another holder; without waiting, yield False.
        said_after_s: Seconds after which a wait is logged.
    """
    with _opened(directory, what) as fd:
        locked = fd is not None and _locked(fd, directory, what, said_after_s if waits else None)
        with _named(fd if locked else None):
            yield locked


@contextlib.contextmanager
def _opened(directory: Path | None, what: str) -> Iterator[int | None]:
    if directory is None:
        yield None
        return
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(directory / _LOCK.format(what), flags, 0o600)
    except OSError as error:
        # A warm read-only cache needs no lock; with a cold one, each process compiles for itself.
        _log.debug("runtime.compile_lock_unavailable", cache=str(directory), reason=str(error))
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _locked(fd: int, directory: Path | None, what: str, said_after_s: float | None) -> bool:
    """Lock the file; return False if it takes no locks, or if it is taken and None was given."""
    from ...base.files.file_lock import Patience, try_lock, wait_lock

    fs, patience = OsFileSystem(), Patience(said_after_s or 0.0)
    try:
        while not try_lock(fs, fd):
            if said_after_s is None:
                return False
            if not patience.pause():
                pid = _holder(fd).pid
                _log.warning("runtime.waiting", cache=str(directory), made=what, holder=pid)
                wait_lock(fs, fd)
                break
    except OSError as error:
        _log.debug("runtime.compile_lock_unavailable", cache=str(directory), reason=str(error))
        return False
    return True


@contextlib.contextmanager
def _named(fd: int | None) -> Iterator[None]:
    """Write who holds it into the file for the block; a full disk leaves it empty."""
    if fd is None:
        yield
        return
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()} {used_s(os.getpid())}".encode("ascii"), 0)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)


def _holder(fd: int) -> Maker:
    with contextlib.suppress(OSError, ValueError):
        pid, since_s = os.pread(fd, _MOST_BYTES, 0).split()
        return Maker(int(pid), float(since_s))
    return Maker()
