"""What one execution may use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import field, frozen

from tools.sandbox.errors import InvalidPolicy

DEFAULT_FUEL: Final = 1_000_000_000_000
DEFAULT_DEADLINE_S: Final = 60.0
DEFAULT_MEMORY_BYTES: Final = 1 << 30
DEFAULT_OUTPUT_BYTES: Final = 4 << 20
DEFAULT_OPEN_FILES: Final = 256

MAX_FUEL: Final = (1 << 63) - 1
MAX_DEADLINE_S: Final = 86_400.0
MIN_MEMORY_BYTES: Final = 64 << 20
MAX_MEMORY_BYTES: Final = 4 << 30
MAX_OUTPUT_BYTES: Final = 1 << 30
MIN_OPEN_FILES: Final = 16
MAX_OPEN_FILES: Final = 65_536

DEFAULT_ENVIRONMENT: Final[Mapping[str, str]] = {"MPLBACKEND": "Agg"}


def is_integer(value: object) -> bool:
    """Whether a value is an int and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def shown(value: object) -> str:
    """A refused value for a message: short, whatever its size."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def text_fault(name: str, value: object) -> str | None:
    """Why a value cannot be handed to a guest as text, or None when it can."""
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
    """Why a value is not an integer from `low` to `high`, or None when it is."""
    if not is_integer(value):
        return f"{name} must be an integer number of {unit}, not {shown(value)}"
    assert isinstance(value, int)  # noqa: S101 (narrowed by is_integer)
    if not low <= value <= high:
        return f"{name} must be from {low} to {high} {unit}, not {shown(value)}"
    return None


def seconds_fault(name: str, value: object) -> str | None:
    """Why a value is no deadline in seconds, or None when it is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"{name} must be a number of seconds, not {shown(value)}"
    if isinstance(value, float) and not math.isfinite(value):
        return f"{name} must be finite, not {value!r}"
    if not 0 < value <= MAX_DEADLINE_S:
        return f"{name} must be above 0 and at most {MAX_DEADLINE_S:g} seconds, not {shown(value)}"
    return None


def _environment_faults(environment: object) -> Iterator[str]:
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
        # The value is never shown: environments carry secrets.
        fault = text_fault(f"the environment value of {shown(name)}", value)
        if fault is not None:
            yield fault


@frozen(kw_only=True)
class ExecutionPolicy:
    """The limits and the environment of an execution; every fault is reported at once.

    A policy is what `Sandbox.execute` applies when a call names no limit of its own. The host's
    own environment is never handed on: a guest sees `environment` and the few variables of the
    runtime (`HOME`, `TMPDIR`, `PYTHONTZPATH`).

    Attributes:
        fuel_budget: WebAssembly instructions the guest may execute, 1 to 2**63 - 1. The default
            is about what the default deadline allows; see `docs/sandbox.md` for measurements.
        deadline_s: Wall-clock seconds the guest may run, above 0 and at most 86400. Preparing the
            runtime and comparing the workspace are not counted.
        memory_bytes: The most linear memory the guest may hold, in bytes, 64 MiB to 4 GiB.
        output_bytes: The most bytes kept of each of stdout and stderr, up to 1 GiB; what is
            written past it is dropped, and the guest runs on.
        open_files: The most files and directories the guest may hold open at once, 16 to 65536.
        environment: Environment variables of the guest. The default makes matplotlib draw into
            files.

    Raises:
        InvalidPolicy: One or more values are refused; `.faults` names each of them.
    """

    fuel_budget: int = DEFAULT_FUEL
    deadline_s: float = DEFAULT_DEADLINE_S
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    output_bytes: int = DEFAULT_OUTPUT_BYTES
    open_files: int = DEFAULT_OPEN_FILES
    environment: Mapping[str, str] = field(default=DEFAULT_ENVIRONMENT, hash=False)

    def __attrs_post_init__(self) -> None:
        found = [
            integer_fault("fuel_budget", self.fuel_budget, 1, MAX_FUEL, "units of fuel"),
            seconds_fault("deadline_s", self.deadline_s),
            integer_fault(
                "memory_bytes", self.memory_bytes, MIN_MEMORY_BYTES, MAX_MEMORY_BYTES, "bytes"
            ),
            integer_fault("output_bytes", self.output_bytes, 0, MAX_OUTPUT_BYTES, "bytes"),
            integer_fault("open_files", self.open_files, MIN_OPEN_FILES, MAX_OPEN_FILES, "files"),
            *_environment_faults(self.environment),
        ]
        faults = [fault for fault in found if fault is not None]
        if faults:
            raise InvalidPolicy(faults)
        # A copy, so the caller's mapping cannot change the policy afterwards.
        object.__setattr__(self, "environment", dict(self.environment))
