"""The preview1 functions on the process: arguments, time, randomness, its end.

The work of one call is bounded, and charged in fuel.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from functools import partial
from typing import Final

from ..engine.held_signals import SIGNALS
from .guest import ERRNOS, Guest, GuestExit, require

NO_HOST: Final = 0xFFFFFFFF
"""Returned by `host.call` if the host offers nothing: -1."""

HOST_FAULT: Final = 0xFFFFFFFE
"""Returned by `host.call` if a request or answer does not fit in memory: -2."""

MOST_SUBSCRIPTIONS: Final = 4096

_SUBSCRIPTION: Final = struct.Struct("<QB7xIxxxxQQH6x")
_EVENT: Final = struct.Struct("<QHB5xQH6x")
_REALTIME, _MONOTONIC = 0, 1
_ABSOLUTE: Final = 1


# ---------------------------------------------------------------- the process


def _put_texts(guest: Guest, texts: Sequence[bytes], table: int, data: int) -> int:
    for text in texts:
        guest.memory.write_u32(table, data)
        guest.memory.write(data, text + b"\0")
        table += 4
        data += len(text) + 1
    return 0


def _put_sizes(guest: Guest, texts: Sequence[bytes], count: int, size: int) -> int:
    guest.memory.write_u32(count, len(texts))
    guest.memory.write_u32(size, sum(len(text) + 1 for text in texts))
    return 0


def args_get(guest: Guest, table: int, data: int) -> int:
    return _put_texts(guest, guest.arguments, table, data)


def args_sizes_get(guest: Guest, count: int, size: int) -> int:
    return _put_sizes(guest, guest.arguments, count, size)


def environ_get(guest: Guest, table: int, data: int) -> int:
    return _put_texts(guest, guest.environment, table, data)


def environ_sizes_get(guest: Guest, count: int, size: int) -> int:
    return _put_sizes(guest, guest.environment, count, size)


def clock_res_get(guest: Guest, clock: int, out: int) -> int:
    require(clock in (_REALTIME, _MONOTONIC), errno.EINVAL)
    guest.memory.write_u64(out, 1)
    return 0


def clock_time_get(guest: Guest, clock: int, _precision: int, out: int) -> int:
    require(clock in (_REALTIME, _MONOTONIC), errno.EINVAL)
    guest.memory.write_u64(out, guest.wall_ns() if clock == _REALTIME else guest.monotonic_ns())
    return 0


def random_get(guest: Guest, address: int, length: int) -> int:
    guest.memory.view(address, length)
    step = 1 << 16
    for at in range(0, length, step):
        count = min(step, length - at)
        guest.machine.clock.check()
        guest.machine.charge(count)
        guest.memory.write(address + at, guest.moment.chance(count))
    return 0


def sched_yield(_guest: Guest) -> int:
    return 0


def proc_exit(_guest: Guest, code: int) -> int:
    raise GuestExit(code)


def host_call(guest: Guest, address: int, length: int, out: int, out_length: int) -> int:
    """Call a host function; return 0, `NO_HOST` or `HOST_FAULT`."""
    if guest.door is None:
        return NO_HOST
    memory = guest.memory
    try:
        request = memory.view(address, length)
        memory.view(out, 4)
        memory.view(out_length, 4)
    except OSError:
        return HOST_FAULT
    answer = guest.door.admit(length)
    if answer is None:
        answer = SIGNALS.interruptible(partial(guest.door, bytes(request)))
    guest.machine.clock.check()
    guest.transferred(length + len(answer))
    place = guest.machine.call("host_alloc", len(answer))
    try:
        require(place != 0, errno.ENOMEM)
        memory.write(place, answer)
    except OSError:
        return HOST_FAULT
    memory.write_u32(out, place)
    memory.write_u32(out_length, len(answer))
    return 0


# ---------------------------------------------------------------- waiting


def poll_oneoff(guest: Guest, subscriptions: int, events: int, count: int, out: int) -> int:
    """Report descriptors as ready at once; without any, wait for the shortest timeout."""
    require(0 < count <= MOST_SUBSCRIPTIONS, errno.EINVAL)
    raw = bytes(guest.memory.view(subscriptions, count * _SUBSCRIPTION.size))
    guest.memory.view(events, count * _EVENT.size)
    guest.memory.view(out, 4)
    ready: list[bytes] = []
    waits: list[tuple[int, int]] = []
    for user, tag, which, timeout, _precision, flags in _SUBSCRIPTION.iter_unpack(raw):
        if tag == 0:
            require(which in (_REALTIME, _MONOTONIC), errno.EINVAL)
            since = guest.wall_ns() if which == _REALTIME else guest.monotonic_ns()
            waits.append((max(0, timeout - since * (flags & _ABSOLUTE)), user))
        else:
            require(tag in (1, 2), errno.EINVAL)
            number = 0 if which in guest.descriptors else ERRNOS[errno.EBADF]
            ready.append(_EVENT.pack(user, number, tag, 1 if number == 0 else 0, 0))
    if not ready:
        shortest = min(waits)[0]
        guest.moment.wait(guest.machine.clock, shortest / 1e9)
        ready = [_EVENT.pack(user, 0, 0, 0, 0) for wait, user in waits if wait <= shortest]
    guest.transferred(count * _EVENT.size)
    guest.memory.write(events, b"".join(ready))
    guest.memory.write_u32(out, len(ready))
    return 0


# ---------------------------------------------------------------- sockets


def no_socket(guest: Guest, number: int, *_: int) -> int:
    guest.descriptors.get(number)
    return ERRNOS[errno.ENOTSOCK]
