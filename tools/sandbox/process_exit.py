"""End a process in which code has run in the sandbox."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """End this process with an exit code; call it last, on the main thread.

    As at a script's end, non-daemon threads are waited for, `atexit` functions run and the standard
    streams are flushed. The interpreter is not finalized, which would take longer than a short
    command: anything left to destructors, such as flushing an unclosed file, is lost.

    Args:
        code: The exit code, 0 to 255.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # broken, closed, none
            stream.flush()
    os._exit(code)
