"""Runs guests, as another user or refused some system calls; prints what they said."""

from __future__ import annotations

import ctypes
import errno
import importlib
import json
import os
import struct
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from agentforge_sessions.sandbox import ExecutionPolicy, ReadOnlyMount, create_sandbox
from agentforge_sessions.sandbox.host.engine import native
from tests.support.seccomp_filters import (
    ALLOW,
    EQUALS,
    ERRNO,
    LOAD,
    NUMBER_AT,
    RETURN,
    Instruction,
    argument_at,
)

IOCTL: Final = 16
PAGEMAP_SCAN: Final = 0xC0606610
NUMBERS: Final = {"openat2": 437, "process_madvise": 440}
NO_NEW_PRIVS: Final = 38
SET_SECCOMP: Final = 22
SET_DUMPABLE: Final = 4
OF_A_PREPARATION: Final = ("zipfile", "encodings.cp437", "agentforge_sessions.base.files")
"""What making a template loads, and nothing else does."""

libc = ctypes.CDLL(None, use_errno=True)


def program(refused: set[str]) -> bytes:
    """Return the filter that refuses these calls, for x86_64."""
    code = [Instruction(LOAD, NUMBER_AT)]
    for name in sorted(refused & NUMBERS.keys()):
        code += [Instruction(EQUALS, NUMBERS[name], 0, 1), Instruction(RETURN, ERRNO | errno.EPERM)]
    if "pagemap_scan" in refused:
        code += [
            Instruction(EQUALS, IOCTL, 0, 3),
            Instruction(LOAD, argument_at(1)),
            Instruction(EQUALS, PAGEMAP_SCAN, 0, 1),
            Instruction(RETURN, ERRNO | errno.ENOTTY),
        ]
    return b"".join(each.encoded() for each in [*code, Instruction(RETURN, ALLOW)])


def refuse(refused: set[str]) -> None:
    """Have the kernel refuse this process the calls, for good."""
    data = program(refused)
    held = ctypes.create_string_buffer(data)
    asked = struct.pack("HxxxxxxP", len(data) // 8, ctypes.addressof(held))
    for arguments in ((NO_NEW_PRIVS, 1, 0, 0, 0), (SET_SECCOMP, 2, asked, 0, 0)):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl")


def become(user: int, workspace: Path) -> None:
    """Be another user for good, with all loaded that Python's own directories may not show him."""
    reading, writing = os.pipe()
    if os.fork() == 0:  # this process runs no guest before it is that user
        main(workspace.with_name("before"), set())
        os.write(writing, json.dumps(list(sys.modules)).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as modules:
        for name in (*json.load(modules), *OF_A_PREPARATION):
            importlib.import_module(name)
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    libc.prctl(SET_DUMPABLE, 1, 0, 0, 0)  # as any process that this user starts


def found_refused() -> list[str]:
    """Return the calls that this process finds refused."""
    found = []
    try:
        os.close(native.openat2(os.open(".", os.O_RDONLY), b".", os.O_RDONLY, 0))
    except OSError:
        found.append("openat2")
    if (
        libc.syscall(NUMBERS["process_madvise"], -1, None, 0, 0, 0)
        and ctypes.get_errno() == errno.EPERM
    ):
        found.append("process_madvise")
    page = native.address_of(native.mmap.mmap(-1, native.mmap.PAGESIZE))
    if native.scan_own(page, native.mmap.PAGESIZE) is None:
        found.append("pagemap_scan")
    return sorted(found)


def main(workspace: Path, refused: set[str]) -> dict[str, object]:
    """Try files, streams, mounts, state, and interpreters that are used again."""
    shown = workspace.with_name(f"{workspace.name}-shown")
    shown.mkdir()
    (shown / "a").write_text("shown")
    refuse(refused)
    streamed: list[str] = []
    plain = create_sandbox(workspace=workspace)
    given = plain.execute("print(open('in/a').read(), end='')", files={"in/a": "given"}).stdout
    plain.execute("print('one'); print('two')", on_stdout=streamed.append)
    turns = [
        plain.execute("import json; print(hasattr(json, 'left')); json.left = bytes(1 << 20)")
        for _ in range(4)
    ]
    policy = ExecutionPolicy(mounts=(ReadOnlyMount(shown, "/data"),))
    mounted = create_sandbox(workspace=workspace, policy=policy).execute(
        "print(open('/data/a').read(), end=' ')\n"
        "try: open('/data/a', 'w')\n"
        "except OSError: print('refused', end='')"
    )
    with create_sandbox(workspace=workspace, stateful=True) as kept:
        kept.execute("x = 42")
        state = kept.execute("print(x, end='')").stdout
    return {
        "refused": found_refused(),
        "user": os.geteuid(),
        "given": given,
        "streamed": "".join(streamed),
        "mounted": mounted.stdout,
        "kept": state,
        "carried": [turn.stdout.strip() for turn in turns],
        "interpreters": [turn.metadata["interpreter"] for turn in turns],
    }


if __name__ == "__main__":
    where, calls = Path(sys.argv[1]), set(sys.argv[2:])
    if "root" in calls:
        become(65534, where)
    print(json.dumps(main(where, calls - {"root"})))
