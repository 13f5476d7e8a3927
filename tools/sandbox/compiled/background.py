"""The optimised interpreter, compiled in the background by a process of its own.

A process that has only the baseline compiler's code starts it. It outlives that process, has the
lowest priority, and is the first to be ended where memory runs short. The lock of the cache allows
one at a time. Each attempt is recorded beside the compiled file, so that an attempt that died is
repeated by the next process, and one that keeps failing ever more rarely.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ...base.clock import Clock, utc_now
from ...base.event_log import get_logger
from ..errors import SandboxError
from ..host.engine.loaded_engine import EngineUnavailable, the_engine
from ..installed.interpreter_files import InterpreterFiles, compiled_name
from ..installed.own_program import own_environment, own_program
from .compiled_module import COMPILING, compile_module, load_compiled, maker_of, making
from .private_cache import is_usable, keep_json, kept_json

BACKGROUND_VARIABLE: Final = "AGENTFORGE_SANDBOX_OPTIMISE"
"""The environment variable that, set to 0, turns this off."""

_PAUSES_S: Final = (0.0, 0.0, 600.0, 3600.0, 86_400.0)
"""How long no attempt is made after so many that failed, and after any more."""

_LEAST_DISK: Final = 1 << 30
_LEAST_MEMORY: Final = 4 << 30
_MOST_REASON: Final = 500
_RECORD: Final = "{}.attempts"
_FIRST: Final = "os.nice(19)\nif os.fork(): os._exit(0)"
_DIED: Final = "it ended before it was done"

_log = get_logger("agentforge.sandbox")


class Attempts(NamedTuple):
    """The attempts since the last success.

    Attributes:
        made: How many were made.
        last: When the last one started, in seconds since the epoch.
        reason: Why it failed.
    """

    made: int = 0
    last: float = 0.0
    reason: str = ""

    def is_due(self, now: float) -> bool:
        """Return whether another attempt may be made."""
        pause = _PAUSES_S[min(self.made, len(_PAUSES_S) - 1)]
        return not 0 <= now - self.last < pause


def attempts(cache: Path, name: str) -> Attempts:
    """Return the attempts to make a compiled file."""
    try:
        made, last, reason = kept_json(cache, _RECORD.format(name))
        return Attempts(int(made), float(last), str(reason))
    except (TypeError, ValueError):
        return Attempts()


def optimise_later(cache: Path, files: InterpreterFiles, *, now: Clock = utc_now) -> bool:
    """Start the process unless one is at work, or another attempt is not due; return whether.

    Never raises for a failure: the baseline compiler's code serves, too.

    Args:
        cache: The cache directory.
        files: The interpreter's files.
        now: Returns the present moment.
    """
    name = compiled_name(files.digests)
    if name is None or os.environ.get(BACKGROUND_VARIABLE) == "0":
        return False
    if getattr(sys, "frozen", False) or not sys.executable:
        return False  # this program is no Python that could run it
    if not os.access(cache, os.W_OK) or not attempts(cache, name).is_due(now().timestamp()):
        return False
    if maker_of(cache, COMPILING) is not None:
        return False
    try:
        # The command ends at once: the process that it forks belongs to nobody.
        subprocess.run(  # noqa: S603 (this interpreter, this package)
            [*own_program(__name__, _FIRST), str(cache)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=own_environment(),
            cwd="/",
            start_new_session=True,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        _log.debug("runtime.not_optimised", reason=str(error))
        return False
    return True


def optimise(
    cache: Path,
    *,
    now: Clock = utc_now,
    shortage: Callable[[Path], str | None] | None = None,
) -> None:
    """Compile the optimised interpreter into the cache, unless it is there or a process does that.

    Args:
        cache: The cache directory.
        now: Returns the present moment.
        shortage: Returns why the machine has no room for it, or None; it is asked by default.
    """
    files, engine = InterpreterFiles.found(), the_engine()
    name = compiled_name(files.digests) or ""
    with making(cache, waits=False) as locked:
        if not locked or load_compiled(engine, files, cache) is not None:
            return
        attempt = Attempts(attempts(cache, name).made + 1, now().timestamp(), _DIED)
        if not keep_json(cache, _RECORD.format(name), attempt):
            return
        reason = (shortage or _shortage)(cache)
        if reason is None:
            try:
                compile_module(engine, files, cache, locked=locked)
            except (EngineUnavailable, SandboxError, MemoryError) as error:
                reason = str(error) or "no memory is left"
            else:
                reason = None if is_usable(cache / name) else "the result could not be written"
        if reason is None:
            (cache / _RECORD.format(name)).unlink(missing_ok=True)
        else:
            attempt = attempt._replace(reason=reason[:_MOST_REASON])
            keep_json(cache, _RECORD.format(name), attempt)


def _shortage(cache: Path) -> str | None:
    disk = os.statvfs(cache)
    if disk.f_bavail * disk.f_frsize < _LEAST_DISK:
        return f"less than {_LEAST_DISK >> 30} GiB of the disk is free"
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:") and int(line.split()[1]) << 10 < _LEAST_MEMORY:
                return f"less than {_LEAST_MEMORY >> 30} GiB of memory is free"
    return None


def optimising(cache: Path | None, digests: Mapping[str, str]) -> tuple[int | None, str | None]:
    """Return about how many percent a process has compiled, and why the last attempt failed.

    Both are None if there is none.
    """
    name = compiled_name(digests)
    if cache is None or name is None:
        return None, None
    maker = maker_of(cache, COMPILING)
    if maker is not None:
        return maker.percent(COMPILING) or 0, None
    failed = attempts(cache, name)
    if not failed.made:
        return None, None
    times = "once" if failed.made == 1 else f"{failed.made} times"
    return None, f"{times}: {failed.reason}"


def main() -> None:
    """Compile into the cache directory that is the first argument."""
    with contextlib.suppress(OSError):  # ended first where memory runs short
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    optimise(Path(sys.argv[1]))
