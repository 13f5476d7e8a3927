"""A guest as seen by the preview1 functions: machine, descriptors, costs."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ..engine.clock import TurnClock
from ..files.files import NOT_CAPABLE, Descriptors, refusal
from ..files.upkeep import Upkeep

if TYPE_CHECKING:
    from ..engine.engine import Instance

ERRNOS: Final = {
    errno.E2BIG: 1,
    errno.EACCES: 2,
    errno.EAGAIN: 6,
    errno.EBADF: 8,
    errno.EBUSY: 10,
    errno.EDQUOT: 19,
    errno.EEXIST: 20,
    errno.EFAULT: 21,
    errno.EFBIG: 22,
    errno.EILSEQ: 25,
    errno.EINTR: 27,
    errno.EINVAL: 28,
    errno.EIO: 29,
    errno.EISDIR: 31,
    errno.ELOOP: 32,
    errno.EMFILE: 33,
    errno.EMLINK: 34,
    errno.ENAMETOOLONG: 37,
    errno.ENFILE: 41,
    errno.ENODEV: 43,
    errno.ENOENT: 44,
    errno.ENOLCK: 46,
    errno.ENOMEM: 48,
    errno.ENOSPC: 51,
    errno.ENOSYS: 52,
    errno.ENOTDIR: 54,
    errno.ENOTEMPTY: 55,
    errno.ENOTSOCK: 57,
    errno.ENOTSUP: 58,
    errno.ENOTTY: 59,
    errno.ENXIO: 60,
    errno.EOVERFLOW: 61,
    errno.EPERM: 63,
    errno.EPIPE: 64,
    errno.ERANGE: 68,
    errno.EROFS: 69,
    errno.ESPIPE: 70,
    errno.ESTALE: 72,
    errno.ETIMEDOUT: 73,
    errno.ETXTBSY: 74,
    errno.EXDEV: 75,
    NOT_CAPABLE: 76,
}
"""Preview1's number for each host errno."""

_EIO: Final = ERRNOS[errno.EIO]

FUEL_OF_A_CALL: Final = 200
_BYTES_FOR_A_UNIT: Final = 8


class GuestExit(BaseException):
    """The guest ended its process.

    Attributes:
        code: The exit code.
    """

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(code)


class TimeAndChance(NamedTuple):
    """What a guest learns of the moment that it runs in.

    Attributes:
        wall_ns: Returns the time since 1970, in nanoseconds.
        monotonic_ns: Returns a time that never goes back, in nanoseconds.
        chance: Returns this many random bytes.
        wait: Waits a number of seconds, at most until the turn ends.
    """

    wall_ns: Callable[[], int] = time.time_ns
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    chance: Callable[[int], bytes] = os.urandom
    wait: Callable[[TurnClock, float], None] = TurnClock.wait


REAL: Final = TimeAndChance()
FIXED_NS: Final = 1_000_000_000_123_456_789
FIXED: Final = TimeAndChance(wall_ns=lambda: FIXED_NS, monotonic_ns=lambda: 0, chance=bytes)
"""The same at every moment: a memory prepared with it is the same bytes on every machine."""


class Door(Protocol):
    """Answers a guest's calls of host functions; requests and answers are bytes."""

    def admit(self, length: int) -> bytes | None:
        """Return an answer that refuses a request by its length; None to accept it."""

    def __call__(self, request: bytes) -> bytes:
        """Answer a request."""


class Guest:
    """What the functions act on: one guest's machine, descriptors and environment.

    Args:
        machine: The instance it runs in.
        descriptors: Its open descriptors.
        environment: Its environment, sorted.
        arguments: Its arguments.
        file_calls: The most calls on names of files.
        moment: Its time and chance.
    """

    def __init__(
        self,
        machine: Instance,
        descriptors: Descriptors,
        *,
        environment: Sequence[bytes] = (),
        arguments: Sequence[bytes] = (),
        file_calls: int | None = None,
        moment: TimeAndChance = REAL,
    ) -> None:
        self.machine: Final = machine
        self.memory: Final = machine.memory
        self.descriptors: Final = descriptors
        self.environment = environment
        self.arguments = arguments
        self.door: Door | None = None
        self.upkeep: Final = Upkeep(machine, file_calls)
        descriptors.upkeep = self.upkeep
        self.moment = moment
        self.started_ns = moment.monotonic_ns()

    def wall_ns(self) -> int:
        """The time since 1970."""
        return self.moment.wall_ns()

    def monotonic_ns(self) -> int:
        """The time since it started; the host's own clock value is not revealed."""
        return self.moment.monotonic_ns() - self.started_ns

    def go_on_at(self, monotonic_ns: int) -> None:
        """Set the time since it started."""
        self.started_ns = self.moment.monotonic_ns() - monotonic_ns

    def path(self, address: int, length: int) -> bytes:
        """Return the path argument of a call, and count the call."""
        self.upkeep.count_file_call()
        return self.memory.path(address, length)

    def transferred(self, count: int) -> None:
        """Charge for bytes that the host read, wrote or created."""
        self.machine.charge(FUEL_OF_A_CALL + count // _BYTES_FOR_A_UNIT)


def errno_of(error: OSError) -> int:
    """Return the guest's number for a host error."""
    return ERRNOS.get(error.errno or errno.EIO, _EIO)


def require(condition: object, number: int) -> None:
    """Refuse a call with an errno unless the condition holds."""
    if not condition:
        raise refusal(number)
