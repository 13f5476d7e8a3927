"""Ending a process in which code has run in the sandbox.

The engine frees what a guest has written to on threads of its own, which call Python for it.
Before Python 3.14 a thread that asks for the interpreter while it is being finalized is ended by
force, and an engine's thread that is ended so aborts the process: SIGABRT in place of the exit
code. That takes a thread that was held up until then, as on a busy machine.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, NoReturn

REST_SECONDS: Final = 2.0
"""How long the end of a process waits for the engine's threads."""

_THREADS: Final = "/proc/self/task"
_ENGINES: Final = b"tokio"
_BETWEEN_LOOKS_S: Final = 0.001
_QUIET_LOOKS: Final = 3


def let_engine_rest(
    limit_s: float = REST_SECONDS,
    *,
    threads: str = _THREADS,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until no thread of the engine computes or waits for a core.

    `atexit` calls it after all that closes interpreters, so that what the engine still frees is
    freed before Python is finalized. It makes an abort there rare, not impossible: a thread that
    something else holds up is not seen.

    Args:
        limit_s: The longest wait, in seconds.
        threads: Where the system lists them (proc_pid_task(5)); elsewhere nothing is waited for.
        monotonic: Gives the time in seconds.
        sleep: Waits that many seconds, and lets other threads have the interpreter meanwhile.

    Returns:
        Whether they rest.
    """
    until = monotonic() + limit_s
    quiet = 0
    while quiet < _QUIET_LOOKS:
        if monotonic() >= until:
            return False
        sleep(_BETWEEN_LOOKS_S)
        quiet = 0 if _engine_runs(threads) else quiet + 1
    return True


def _engine_runs(threads: str) -> bool:
    try:
        tasks = os.listdir(threads)
    except OSError:
        return False
    for task in tasks:
        try:
            with open(f"{threads}/{task}/stat", "rb") as about:  # 12 (name) S ...
                name, _, rest = about.read().partition(b"(")[2].rpartition(b")")
        except OSError:
            continue  # it has ended
        if name.startswith(_ENGINES) and rest.split(None, 1)[0] != b"S":
            return True
    return False


def _at_exit() -> None:
    if "wasmtime" in sys.modules:
        let_engine_rest()


# Before the runner is imported, and so called after its own: the last registered comes first.
atexit.register(_at_exit)


def end_process(code: int) -> NoReturn:
    """End this process with an exit code; to be called in the main thread, as the last thing.

    As at the end of a script all threads but daemons are waited for, `atexit`'s functions are
    called and the standard streams are written out. The interpreter is not finalized: what waits
    for its objects' destructors, as a file that was not closed, is lost.

    Args:
        code: The exit code, 0 to 255.
    """
    atexit.unregister(_at_exit)  # nothing is finalized, so there is nothing to wait for
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # broken, closed, none
            stream.flush()
    os._exit(code)
