"""What a test starts in the place of Python: see `warm_python`, which forks what this stands for.

Run as `python -I -S warm_launcher.py SOCKET ARGUMENT...`, and nothing is imported that takes time.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Have the process started, pass signals on to it, and end as it does."""
    # What comes before there is a process to pass it on to waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    _, path, *arguments = sys.argv
    ignored = [one for one in PASSED_ON if signal.getsignal(one) is signal.SIG_IGN]
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(path)
        asked = json.dumps([arguments, os.getcwd(), dict(os.environ), ignored]).encode()
        socket.send_fds(wire, [len(asked).to_bytes(8, "big")], [0, 1, 2])
        wire.sendall(asked)
        told = wire.makefile("r")
        pid = int(told.readline())
        let_go()
        for one in PASSED_ON:
            if one not in ignored:
                signal.signal(one, lambda number, _: pass_on(pid, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        line = told.readline()
    end(int(line or "1"))  # none: what forks was ended, and all that it had forked


def pass_on(pid: int, number: int) -> None:
    """Send a signal to the process, unless it has ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def let_go() -> None:
    """Keep no end of a pipe open that is the other process's."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)


def end(code: int) -> None:
    """End with an exit code, or by the signal that is less than 0."""
    if code < 0:
        if -code in PASSED_ON:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
