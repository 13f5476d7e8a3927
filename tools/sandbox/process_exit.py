"""Ending a process in which code has run in the sandbox."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from typing import NoReturn


def end_process(code: int) -> NoReturn:
    """End this process with an exit code; to be called in the main thread, as the last thing.

    As at the end of a script all threads but daemons are waited for, `atexit`'s functions are
    called and the standard streams are written out. The interpreter is not finalized, which takes
    longer than a short command: what waits for its objects' destructors, as a file that was not
    closed, is lost.

    Args:
        code: The exit code, 0 to 255.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # broken, closed, none
            stream.flush()
    os._exit(code)
