"""The limits of one execution."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from ..base.errors import shown
from .errors import InvalidPolicy

if TYPE_CHECKING:
    from .read_only_mount import ReadOnlyMount

MAX_FUEL: Final = (1 << 63) - 1
DEFAULT_FUEL: Final = 1_000_000_000_000
MAX_DEADLINE_S: Final = 86_400.0
MAX_MOUNTS: Final = 16

DEFAULT_ENVIRONMENT: Final[Mapping[str, str]] = {"MPLBACKEND": "Agg"}


def is_integer(value: object) -> bool:
    """Return whether a value is an int and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def text_fault(name: str, value: Any) -> str | None:
    """Return why a value cannot be passed to a guest as text, or None."""
    if not isinstance(value, str):
        return f"{name} must be a str, not {type(value).__name__}"
    if "\0" in value:
        return f"{name} contains a NUL character"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"{name} has a lone surrogate at index {error.start}, so it is not valid UTF-8"
    return None


def integer_fault(name: str, value: object, low: int, high: int, unit: str) -> str | None:
    """Return why a value is not an integer from `low` to `high`, or None."""
    if not is_integer(value):
        return f"{name} must be an integer number of {unit}, not {shown(value)}"
    assert isinstance(value, int)  # noqa: S101 (narrowed by is_integer)
    if not low <= value <= high:
        return f"{name} must be from {low} to {high} {unit}, not {shown(value)}"
    return None


def _integer(low: int, high: int, unit: str) -> Callable[[str, object], str | None]:
    return functools.partial(integer_fault, low=low, high=high, unit=unit)


def _choice_fault(name: str, value: object) -> str | None:
    return None if isinstance(value, bool) else f"{name} must be True or False, not {shown(value)}"


def seconds_fault(name: str, value: object) -> str | None:
    """Return why a value is not a deadline in seconds, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"{name} must be a number of seconds, not {shown(value)}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{name} must be finite, not {value!r}"
    if not 0 < value <= MAX_DEADLINE_S:
        return f"{name} must be above 0 and at most {MAX_DEADLINE_S:g} seconds, not {shown(value)}"
    return None


def _environment_faults(_: str, environment: object) -> Iterator[str]:
    if not isinstance(environment, Mapping):
        yield f"environment must be a mapping of str to str, not {type(environment).__name__}"
        return
    for name, value in environment.items():
        fault = text_fault("an environment name", name)
        if fault is not None:
            yield fault
            continue
        if not name or "=" in name:
            yield f"the environment name {shown(name)} is empty or contains '='"
            continue
        # Never show the value: environments contain secrets.
        fault = text_fault(f"the environment value of {shown(name)}", value)
        if fault is not None:
            yield fault


_TAKEN: Final = ("/app", "/usr", "/tmp", "/run/agentforge")  # noqa: S108 (the guest's)


def _target_fault(where: str, target: object) -> str | None:
    fault = text_fault(where, target)
    if fault is not None:
        return fault
    assert isinstance(target, str)  # noqa: S101 (narrowed by text_fault)
    parts = target.split("/")
    if parts[0] or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]):
        return f"{where} must be an absolute path in its simplest form, not {shown(target)}"
    if len(target.encode()) > 1024:
        return f"{where} is longer than 1024 bytes"
    for taken in _TAKEN:
        if overlap(target, taken):
            return f"{where} {shown(target)} and {taken}, which is the sandbox's own, overlap"
    return None


def overlap(one: str, other: str) -> bool:
    """Return whether one of two guest paths equals or contains the other."""
    return one == other or one.startswith(other + "/") or other.startswith(one + "/")


def _mounts_faults(_: str, mounts: Any) -> Iterator[str]:
    if not isinstance(mounts, tuple):
        yield f"mounts must be a tuple of ReadOnlyMount, not {type(mounts).__name__}"
        return
    if not mounts:
        return
    from .read_only_mount import ReadOnlyMount  # needed only with mounts

    if len(mounts) > MAX_MOUNTS:
        yield f"mounts may be at most {MAX_MOUNTS}, not {len(mounts)}"
    targets: list[str] = []
    given: tuple[Any, ...] = mounts
    for i, mount in enumerate(given):
        if not isinstance(mount, ReadOnlyMount):
            yield f"mounts[{i}] must be a ReadOnlyMount, not {type(mount).__name__}"
            continue
        source: Any = mount.source
        if not isinstance(source, Path):
            yield f"mounts[{i}].source must be a Path, not {type(source).__name__}"
        elif not source.is_absolute() or "\0" in str(source):
            yield f"mounts[{i}].source must be an absolute path, not {shown(str(source))}"
        fault = _target_fault(f"mounts[{i}].target", mount.target)
        if fault is not None:
            yield fault
            continue
        if any(overlap(mount.target, taken) for taken in targets):
            yield f"mounts[{i}].target {shown(mount.target)} overlaps another mount's target"
        targets.append(mount.target)


_FAULTS: Final[Mapping[str, Callable[[str, Any], str | Iterable[str] | None]]] = {
    "fuel_budget": _integer(1, MAX_FUEL, "units of fuel"),
    "deadline_s": seconds_fault,
    "memory_bytes": _integer(64 << 20, 4 << 30, "bytes"),
    "output_bytes": _integer(0, 1 << 30, "bytes"),
    "open_files": _integer(16, 65_536, "files"),
    "environment": _environment_faults,
    "workspace_bytes": _integer(1 << 20, 1 << 50, "bytes"),
    "workspace_files": _integer(1, 1_000_000, "files"),
    "file_bytes": _integer(1 << 10, 4 << 30, "bytes"),
    "temporary_bytes": _integer(1 << 20, 4 << 30, "bytes"),
    "file_calls": _integer(1, 1_000_000_000, "calls"),
    "host_bytes": _integer(4 << 20, 4 << 30, "bytes"),
    "mounts": _mounts_faults,
    "sync_files": _choice_fault,
}
"""The functions that check each field of a policy and return its faults."""


@frozen(kw_only=True)
class ExecutionPolicy:
    """The limits and the environment of an execution; every fault is reported at once.

    `Sandbox.execute` applies the policy unless a call sets its own limits. The host's environment
    is never passed on: a guest sees `environment` and a few variables of the runtime (`HOME`,
    `TMPDIR`, `PYTHONTZPATH`).

    Attributes:
        fuel_budget: WebAssembly instructions the guest may execute, 1 to 2**63 - 1. The default
            is about what the default deadline allows; see `docs/sandbox.md` for measurements. Any
            other value waits for the optimised interpreter: the baseline compiler's code counts
            nothing, so that only deadlines end it.
        deadline_s: Wall-clock seconds the guest may run, above 0 and at most 86400. Preparing the
            runtime and comparing the workspace are not counted.
        memory_bytes: The most linear memory the guest may hold, in bytes, 64 MiB to 4 GiB.
        output_bytes: The most bytes stored of each of stdout and stderr, up to 1 GiB; the excess is
            dropped, and the guest runs on.
        open_files: The most files and directories the guest may hold open at once, 16 to 65536.
        environment: Environment variables of the guest. The default makes matplotlib draw to files.
        workspace_bytes: The most bytes the files of the workspace may hold together, 1 MiB to
            1 PiB; the guest gets `OSError` (`ENOSPC`) past it.
        workspace_files: The most files and directories the workspace may hold, 1 to 1,000,000;
            the guest gets `OSError` (`ENOSPC`) past it.
        file_bytes: The largest file the guest may open or write, 1 KiB to 4 GiB; the guest gets
            `OSError` (`EFBIG`) past it.
        temporary_bytes: The most bytes the files in `/tmp` and the home may hold together, in the
            host's memory, 1 MiB to 4 GiB, and never more than `memory_bytes`; the guest gets
            `OSError` (`ENOSPC`) past it.
        file_calls: The most calls on files of the workspace and the mounts, 1 to 1,000,000,000;
            past it the guest is ended.
        host_bytes: The most bytes of host memory for records about the guest's files, besides their
            content, 4 MiB to 4 GiB: open descriptors and listings (past it the guest gets `OSError`
            with `ENOMEM`), names in `/tmp` (`ENOSPC`), and the paths of changed files (past it
            `changes_complete` is false).
        mounts: Host directories the guest may read beside its workspace, at most 16.
        sync_files: Whether the guest's `fsync` waits until the workspace's data is on disk;
            otherwise it returns at once.

    Raises:
        InvalidPolicy: One or more values are refused; `.faults` names each of them.
    """

    fuel_budget: int = DEFAULT_FUEL
    deadline_s: float = 60.0
    memory_bytes: int = 1 << 30
    output_bytes: int = 4 << 20
    open_files: int = 256
    environment: Mapping[str, str] = field(default=DEFAULT_ENVIRONMENT, hash=False)
    workspace_bytes: int = 1 << 30
    workspace_files: int = 20_000
    file_bytes: int = 256 << 20
    temporary_bytes: int = 1 << 30
    file_calls: int = 1_000_000
    host_bytes: int = 64 << 20
    mounts: tuple[ReadOnlyMount, ...] = ()
    sync_files: bool = False

    def __attrs_post_init__(self) -> None:
        faults: list[str] = []
        for name, looked_for in _FAULTS.items():
            found = looked_for(name, getattr(self, name))
            faults += [found] if isinstance(found, str) else found or ()
        if faults:
            raise InvalidPolicy(faults)
        # A copy, so the caller's mapping cannot change the policy afterwards.
        object.__setattr__(self, "environment", dict(self.environment))
