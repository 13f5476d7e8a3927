"""A terminal of their own for programs that need one, which answers what they ask of it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

_ANSWERS: Final = {
    b"\x1b[6n": b"\x1b[1;1R",  # where the cursor is
    b"\x1b[c": b"\x1b[?62;22c",  # what the terminal can do
    b"\x1b[?u": b"\x1b[?0u",
    b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}
_CONTROLLED: Final = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
_SIZE: Final = struct.pack("HHHH", 40, 120, 0, 0)


def run_in_terminal(
    command: Sequence[str | Path],
    *,
    folder: Path,
    environment: Mapping[str, str],
    until: Callable[[], bool],
    patience_s: float,
    typed: bytes = b"",
) -> str:
    """Run a program in a terminal until a fact holds or it ends, and kill what runs of it then.

    What the person types is there before it is asked for. Returns what it showed.
    """
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, _SIZE)
    process = subprocess.Popen(
        [sys.executable, "-c", _CONTROLLED, *map(str, command)],
        cwd=folder,
        env={**environment, "TERM": "xterm-256color"},
        stdin=side,
        stdout=side,
        stderr=side,
        start_new_session=True,
    )
    os.close(side)
    os.write(main, typed)
    shown, end = b"", monotonic() + patience_s
    try:
        while process.poll() is None and not until() and monotonic() < end:
            if select.select([main], [], [], 0.1)[0]:
                shown += _read_and_answer(main)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(main)
    return shown.decode("utf-8", "replace")


def _read_and_answer(main: int) -> bytes:
    try:
        data = os.read(main, 65536)
    except OSError:  # its last process has closed it
        return b""
    for asked, answer in _ANSWERS.items():
        for _ in range(data.count(asked)):
            os.write(main, answer)
    return data
