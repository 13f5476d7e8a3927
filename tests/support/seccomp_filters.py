"""Assembles the jail's system call filters, and plays them.

    python -m tests.support.seccomp_filters      writes tools/jail/filters/*.bpf

A filter is a program for the kernel's classic BPF machine over `struct seccomp_data` (number,
architecture, instruction pointer, six arguments; seccomp(2)). Only little-endian machines are
served. System call numbers: arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h of Linux.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

FILTERS: Final = Path(__file__).resolve().parents[2] / "tools" / "jail" / "filters"

# The instructions that are used: include/uapi/linux/bpf_common.h.
LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
EQUALS: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
RETURN: Final = 0x06  # BPF_RET | BPF_K

ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000  # the whole process
ERRNO: Final = 0x00050000
EPERM: Final = 1
ENOSYS: Final = 38
EAFNOSUPPORT: Final = 97

_SCANNED: Final = 4
"""So many numbers are compared one after the other."""
NUMBER_AT: Final = 0
ARCHITECTURE_AT: Final = 4
X32_BIT: Final = 0x40000000


def argument_at(index: int) -> int:
    """Return where the low half of an argument is."""
    return 16 + 8 * index


FAMILIES: Final = (1, 2, 10)
"""AF_UNIX, AF_INET, AF_INET6: the only sockets there are. No netlink, vsock, packet, alg, …"""
TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX, which put words into a terminal."""

# fmt: off
REFUSED: Final[dict[str, tuple[int, int]]] = {
    # name: (x86_64, aarch64); -1 where there is none
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "memfd_secret": (447, 447), "fanotify_init": (300, 262), "open_by_handle_at": (304, 265),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "setns": (308, 268), "unshare": (272, 97),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "sethostname": (170, 161), "setdomainname": (171, 162),
    "syslog": (103, 116), "lookup_dcookie": (212, 18), "vhangup": (153, 58),
    "iopl": (172, -1), "ioperm": (173, -1), "uselib": (134, -1), "_sysctl": (156, -1),
    "modify_ldt": (154, -1), "nfsservctl": (180, 42),
}
# fmt: on


@frozen(kw_only=True)
class Machine:
    """A processor: its place in `REFUSED`, and what the filter has to know of it."""

    name: str
    column: int
    architecture: int
    socket: int
    socketpair: int
    ioctl: int
    has_x32: bool


MACHINES: Final = (
    Machine(
        name="x86_64", column=0, architecture=0xC000003E, socket=41, socketpair=53, ioctl=16,
        has_x32=True,
    ),
    Machine(
        name="aarch64", column=1, architecture=0xC00000B7, socket=198, socketpair=199, ioctl=29,
        has_x32=False,
    ),
)  # fmt: skip


@frozen
class Instruction:
    """One instruction; jumps count the instructions that are passed over."""

    code: int
    value: int
    when_true: int = 0
    when_false: int = 0

    def encoded(self) -> bytes:
        """Return it as `struct sock_filter` has it."""
        return struct.pack("<HBBI", self.code, self.when_true, self.when_false, self.value)


def program(machine: Machine) -> list[Instruction]:
    """Return the filter of a processor.

    Another architecture's calls (32-bit programs) end the process; calls of x32 do not exist.
    """
    code = [
        Instruction(LOAD, ARCHITECTURE_AT),
        Instruction(EQUALS, machine.architecture, 1, 0),
        Instruction(RETURN, KILL),
        Instruction(LOAD, NUMBER_AT),
    ]
    if machine.has_x32:
        code += [Instruction(AT_LEAST, X32_BIT, 0, 1), Instruction(RETURN, ERRNO | ENOSYS)]
    for number in (machine.socket, machine.socketpair):
        code += _only_when_equal(number, list(_only_families()))
    code += _only_when_equal(machine.ioctl, list(_no_terminal_input()))
    refused = {numbers[machine.column] for numbers in REFUSED.values()} - {-1}
    return [*code, *_refusing(sorted(refused))]


def _refusing(numbers: Sequence[int]) -> list[Instruction]:
    """Return what refuses calls and allows all others, in few steps: numbers are halved first.

    When a filter is set the kernel plays it for each number that there is, and remembers what is
    always allowed.
    """
    if len(numbers) > _SCANNED:
        middle = len(numbers) // 2
        below, above = _refusing(numbers[:middle]), _refusing(numbers[middle:])
        return [Instruction(AT_LEAST, numbers[middle], len(below), 0), *below, *above]
    left = len(numbers)
    return [
        *(Instruction(EQUALS, one, left - at, 0) for at, one in enumerate(numbers)),
        Instruction(RETURN, ALLOW),
        Instruction(RETURN, ERRNO | EPERM),
    ]


def _only_when_equal(number: int, block: Sequence[Instruction]) -> list[Instruction]:
    """Return a block that is passed over for all calls but one; it must end with a return."""
    return [Instruction(EQUALS, number, 0, len(block)), *block]


def _only_families() -> Iterator[Instruction]:
    yield Instruction(LOAD, argument_at(0))
    for index, family in enumerate(FAMILIES):
        yield Instruction(EQUALS, family, len(FAMILIES) - index, 0)
    yield Instruction(RETURN, ERRNO | EAFNOSUPPORT)
    yield Instruction(RETURN, ALLOW)


def _no_terminal_input() -> Iterator[Instruction]:
    yield Instruction(LOAD, argument_at(1))
    for request in TERMINAL_INPUT:
        yield Instruction(EQUALS, request, 0, 1)
        yield Instruction(RETURN, ERRNO | EPERM)
    yield Instruction(RETURN, ALLOW)


def assembled(machine: Machine) -> bytes:
    """Return the filter of a processor as the kernel takes it."""
    return b"".join(one.encoded() for one in program(machine))


def parsed(data: bytes) -> list[Instruction]:
    """Return the instructions of an assembled filter."""
    return [
        Instruction(code, value, when_true, when_false)
        for code, when_true, when_false, value in struct.iter_unpack("<HBBI", data)
    ]


def _nothing(_: Instruction) -> None:
    return


def played(
    code: Sequence[Instruction],
    number: int,
    architecture: int,
    arguments: Sequence[int] = (),
    *,
    steps: Callable[[Instruction], None] = _nothing,
) -> int:
    """Return what a filter decides of a call, as the kernel's machine runs it; report each step."""
    full = [*arguments, *([0] * (6 - len(arguments)))]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *full)
    accumulator = at = 0
    while True:
        one = code[at]
        at += 1
        steps(one)
        if one.code == LOAD:
            (accumulator,) = struct.unpack_from("<I", data, one.value)
        elif one.code == EQUALS:
            at += one.when_true if accumulator == one.value else one.when_false
        elif one.code == AT_LEAST:
            at += one.when_true if accumulator >= one.value else one.when_false
        elif one.code == RETURN:
            return one.value
        else:
            raise AssertionError(f"no such instruction: {one.code:#x}")


if __name__ == "__main__":
    for each in MACHINES:
        (FILTERS / f"{each.name}.bpf").write_bytes(assembled(each))
