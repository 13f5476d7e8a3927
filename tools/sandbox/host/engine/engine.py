"""Instances of a WebAssembly module, driven through the engine's C API.

Host functions are raw callbacks: the engine passes an array of numbers and creates no other objects
for a call. No exception passes through the engine: one from a host function ends the guest with a
trap and is raised again where the guest was called. Creating, entering and ending an instance all
depend on which instance runs on this thread, so they are one module.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from . import c_api
from .clock import TurnClock, TurnEnded
from .guest_memory import GuestMemory
from .held_signals import SIGNALS
from .loaded_engine import (
    Engine,
    EngineUnavailable,
    Module,
    Owned,
    raise_error,
    taken_message,
    taken_reason,
)

MOST_FUEL: Final = (1 << 63) - 1

_PAGE: Final = 1 << 16
_SHAPES: Final = {c_api.WASM_I32: "I12x", c_api.WASM_I64: "Q8x"}
"""How a call's numbers are laid out in the array, by kind."""

HostFunction = Callable[..., "int | None"]
"""Called with the guest and the unsigned numbers it passed; returns a number for the guest."""


class CallJournal(Protocol):
    """Follows the calls of one turn, as they come."""

    def called(self, name: str, numbers: tuple[int, ...]) -> None:
        """Note that the guest calls a function with these numbers."""


class Trapped(Exception):
    """The engine ended the guest; its instance must not be called again.

    Attributes:
        reason: Why: "out of fuel", "stack overflow", ...
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class _Current(threading.local):
    """The instance running on this thread."""

    instance: Instance | None = None


_current: Final = _Current()


class Program:
    """A module with its imports defined, so that instances of it are created quickly.

    Args:
        engine: The engine.
        module: The module.
        functions: The host function for each import, by name.
        errno_of: Returns the guest's errno for a host error.

    Raises:
        EngineUnavailable: The module imports something unknown.
    """

    def __init__(
        self,
        engine: Engine,
        module: Module,
        functions: Mapping[str, HostFunction],
        errno_of: Callable[[OSError], int],
    ) -> None:
        self.engine: Final = engine
        self._module = module
        self._linker = Owned(c_api.linker_new(engine.address), c_api.linker_delete)
        self._callbacks: list[Any] = []
        defined: set[tuple[bytes, bytes]] = set()
        for place, name, kinds, function_type in module.imports():
            if (place, name) in defined:
                continue  # a duplicate import, or no instance will be created
            defined.add((place, name))
            wanted = name.decode("utf-8", "replace")
            function = functions.get(wanted)
            if function is None or kinds is None or not set(kinds) <= set(_SHAPES):
                raise EngineUnavailable(
                    f"the interpreter imports {wanted!r}, which is not known",
                    "install the release that the sandbox was tested with",
                )
            callback = _callback(wanted, function, kinds, errno_of)
            self._callbacks.append(callback)
            error = c_api.linker_define_func(
                self._linker.address,
                *(place, len(place), name, len(name)),
                *(function_type, callback, None, c_api.NO_FINALIZER),
            )
            raise_error(error, "linked")
        prepared = c_api.Address()
        error = c_api.linker_instantiate_pre(
            self._linker.address, module.address, ctypes.byref(prepared)
        )
        raise_error(error, "linked")
        self._prepared = Owned(prepared.value or 0, c_api.instance_pre_delete)

    def instance(self, *, memory_bytes: int) -> Instance:
        """Return a new instance with the module's initial memory.

        Args:
            memory_bytes: The most memory it may have.

        Raises:
            EngineUnavailable: The engine is not ready, or has no room for it.
        """
        self.engine.check_ready()
        return Instance(self.engine, self._prepared.address, memory_bytes)


class Instance:
    """One instance of a program, called by one thread at a time, on that thread's stack.

    Attributes:
        guest: The first argument of its host functions.
        clock: The turn's clock; every host function checks it first.
        journal: Follows the turn's calls, or None.
        memory: Its memory.
    """

    def __init__(self, engine: Engine, prepared: int, memory_bytes: int) -> None:
        self.guest: object = None
        self.clock: TurnClock = TurnClock(None)
        self.journal: CallJournal | None = None
        self.fault: BaseException | None = None
        self._engine = engine
        self._owed = 0
        self._unmetered_fuel = 0
        self._functions: dict[str, Any] = {}
        self._store: int | None = c_api.store_new(engine.address, None, c_api.NO_FINALIZER)
        self._context = c_api.store_context(self._store)
        c_api.store_limiter(self._store, memory_bytes, -1, -1, -1, -1)
        c_api.store_epoch_callback(self._store, _epoch_callback, None, c_api.NO_FINALIZER)
        self._handle = c_api.InstanceHandle()
        try:
            self._set_fuel(MOST_FUEL)
            c_api.context_set_epoch_deadline(self._context, 1)
            trap = c_api.Address()
            error = c_api.instance_pre_instantiate(
                prepared, self._context, ctypes.byref(self._handle), ctypes.byref(trap)
            )
            self._check(error, trap.value)
            self._memory = self._export("memory", c_api.EXTERN_MEMORY).of.memory
        except Trapped as error:
            self._delete()
            raise EngineUnavailable(
                f"no instance of the interpreter can be made ({error.reason})",
                "give it more memory, or close sandboxes that are not needed",
            ) from error
        base = c_api.memory_data(self._context, ctypes.byref(self._memory))
        self.memory: Final = GuestMemory(base or 0, self._memory_size)
        self._numbers = (ctypes.c_uint64 * 32)()

    def grow(self, size: int) -> None:
        """Grow the memory to at least this many bytes.

        Raises:
            Trapped: The limit does not allow that many.
        """
        missing = size - self._memory_size()
        if missing > 0:
            before = ctypes.c_uint64()
            error = c_api.memory_grow(
                self._open(),
                ctypes.byref(self._memory),
                -(-missing // _PAGE),
                ctypes.byref(before),
            )
            self._check(error, None)
            self.memory.refresh()

    @contextlib.contextmanager
    def turn(self, clock: TurnClock, fuel: int) -> Iterator[None]:
        """Allow calls within the block, until the clock or the fuel ends the turn.

        Raises:
            BaseException: What a signal's handler raised; the guest has ended.
        """
        self.clock, self.fault, self._owed = clock, None, 0
        self._set_fuel(fuel)
        c_api.context_set_epoch_deadline(self._open(), 1)
        self._engine.check_ready()
        outer, _current.instance = _current.instance, self
        try:
            with SIGNALS.held():
                self._engine.ticker.watch(clock)
                yield
        finally:
            clock.over = True
            _current.instance = outer

    def call(self, name: str, *numbers: int) -> int:
        """Call one of the guest's functions, within a turn.

        Raises:
            Trapped: The engine ended the guest.
            BaseException: What a host function raised; the guest has ended.
        """
        function = self._functions.get(name)
        if function is None:
            function = self._export(name, c_api.EXTERN_FUNC).of.func
            self._functions[name] = function
        for i, number in enumerate(numbers):
            self._numbers[2 * i] = number
        trap = c_api.Address()
        error = c_api.func_call(
            self._open(),
            ctypes.byref(function),
            self._numbers,
            max(1, len(numbers)),
            ctypes.byref(trap),
        )
        if error or trap.value:
            self._check(error, trap.value)
        return self._numbers[0] & 0xFFFFFFFF

    def charge(self, units: int) -> None:
        """Charge the guest fuel for work that the host does.

        Raises:
            TurnEnded: The guest has too little fuel left.
        """
        self._owed += units
        if self._owed >= _SETTLED_AT:
            self.settle()

    def settle(self) -> None:
        """Deduct the fuel that the guest owes.

        Raises:
            TurnEnded: The guest has too little fuel left.
        """
        left = self._get_fuel()
        owed, self._owed = self._owed, 0
        self._set_fuel(max(0, left - owed))
        if owed > left:
            raise TurnEnded(OUT_OF_FUEL)

    def fuel_left(self) -> int | None:
        """Return the turn's remaining fuel, all debts deducted; None if the engine counts none."""
        return max(0, self._get_fuel() - self._owed) if self._engine.metered else None

    def close(self) -> None:
        """Free the memory; no view of it may be used afterwards."""
        self.memory.release()
        self.guest = None
        self._delete()

    def _delete(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            c_api.store_delete(store)
        self._context = None

    def _open(self) -> int:
        """Return the context; a freed address is never returned.

        Raises:
            EngineUnavailable: The instance is closed.
        """
        if self._context is None:
            raise EngineUnavailable("the instance is closed", "open another one")
        return int(self._context)

    def _set_fuel(self, units: int) -> None:
        if not self._engine.metered:  # then only the host's work for the guest counts
            self._unmetered_fuel = units
            return
        error = c_api.context_set_fuel(self._open(), units)
        if error:
            self._check(error, None)

    def _get_fuel(self) -> int:
        if not self._engine.metered:
            return self._unmetered_fuel
        units = ctypes.c_uint64()
        error = c_api.context_get_fuel(self._open(), ctypes.byref(units))
        if error:
            self._check(error, None)
        return units.value

    def _export(self, name: str, kind: int) -> c_api.Extern:
        found, text = c_api.Extern(), name.encode()
        if (
            not c_api.instance_export_get(
                self._open(), ctypes.byref(self._handle), text, len(text), ctypes.byref(found)
            )
            or found.kind != kind
        ):
            raise Trapped(f"it has no {name}")
        return found

    def _memory_size(self) -> int:
        return int(c_api.memory_data_size(self._open(), ctypes.byref(self._memory)))

    def _check(self, error: Any, trap: Any) -> None:
        """Raise what ended the guest, if anything; a host function's exception comes first."""
        reason = None
        if error:
            reason = taken_message(error)
        elif trap:
            reason = taken_reason(trap)
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault
        if reason is not None:
            raise Trapped(reason)


OUT_OF_FUEL: Final = "out of fuel"
_SETTLED_AT: Final = 1 << 20


def _callback(
    name: str, function: HostFunction, kinds: list[int], errno_of: Callable[[OSError], int]
) -> object:
    """Wrap a host function in the form that the engine calls."""
    layout = struct.Struct("<" + "".join(_SHAPES[kind] for kind in kinds))
    numbers_at = (ctypes.c_char * max(16, layout.size)).from_address
    unpack, pack = layout.unpack_from, struct.Struct("<I").pack_into

    def callback(_environment: int, _caller: int, numbers: int, _count: int) -> int:
        instance = _current.instance
        try:
            if instance is None:
                return _new_trap()
            instance.clock.check()
            array = numbers_at(numbers)
            passed = unpack(array)
            if instance.journal is not None:
                instance.journal.called(name, passed)
            try:
                answer = function(instance.guest, *passed)
            except OSError as error:
                answer = errno_of(error)
            pack(array, 0, answer or 0)
        except BaseException as error:  # noqa: BLE001 (nothing is raised through the engine)
            if instance is not None:
                instance.fault = error
            return _new_trap()
        return 0

    return c_api.HostCallback(callback)


def _new_trap() -> int:
    """Return the address of a new trap; returning it to the engine transfers ownership."""
    return c_api.trap_new(_ENDED, len(_ENDED)) or 0


_ENDED: Final = b"ended by the host"


def _on_epoch(_context: Any, _data: Any, delta: Any, _kind: Any) -> int:
    """Decide whether a computing guest may go on: return 0, or the address of an error."""
    try:
        instance = _current.instance
        reason = None if instance is None else instance.clock.due()
        if instance is None or reason is None:
            delta[0] = 1
            return 0
        instance.fault = TurnEnded(reason)
    except BaseException as error:  # noqa: BLE001 (a signal's handler may raise here)
        if _current.instance is not None:
            _current.instance.fault = error
    return c_api.error_new(_ENDED) or 0


_epoch_callback: Final = c_api.EpochCallback(_on_epoch)
