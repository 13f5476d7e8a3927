"""The WebAssembly engine, driven through its C API: a module, its imports, its instances.

No other module names the engine's bindings. Host functions are raw callbacks: the engine hands over
an array of numbers, and nothing else is made for a call. Nothing is ever raised through the engine:
what a host function raises ends the guest with a trap, and is raised again where the guest was
called.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import wasmtime
from wasmtime import _bindings as c_api

from ..releases import installed_version
from . import native
from .clock import Ticker, TurnClock, TurnEnded
from .guest_memory import GuestMemory

TESTED_MINOR: Final = "49.0"
WASM_STACK: Final = 4 << 20
"""The stack that compiled guest code may use, in bytes; it lies on the calling thread's own."""

HOST_ROOM: Final = 2 << 20
"""What must be left of a thread's stack besides, for the host functions a guest calls."""

MOST_FUEL: Final = (1 << 63) - 1

_PAGE: Final = 1 << 16
_SIZES: Final = {
    c_api.wasmtime_val_raw_t: 16,
    c_api.wasmtime_func_t: 16,
    c_api.wasmtime_memory_t: 24,
    c_api.wasmtime_instance_t: 16,
}

Module = wasmtime.Module
"""A compiled module."""

HostFunction = Callable[..., "int | None"]
"""Called with the guest and the unsigned numbers it passed; returns the number it gets back."""


class EngineUnavailable(Exception):
    """No guest can run in this process now.

    Attributes:
        reason: Why not.
        remedy: What to do.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason = reason
        self.remedy = remedy
        super().__init__(f"{reason}; {remedy}")


class Trapped(Exception):
    """The engine ended the guest; its instance must not be called again.

    Attributes:
        reason: Why: "out of fuel", "stack overflow", ...
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def check_release(release: str | None = None) -> None:
    """Make sure that the bindings are those that this module was written for.

    Args:
        release: The engine's; that which is installed by default.

    Raises:
        EngineUnavailable: They are not.
    """
    moved = [kind.__name__ for kind, size in _SIZES.items() if ctypes.sizeof(kind) != size]
    release = release or installed_version("wasmtime")
    if moved or not release.startswith(TESTED_MINOR + "."):
        raise EngineUnavailable(
            f"wasmtime {release} is not the release that the sandbox was tested with",
            f"install wasmtime {TESTED_MINOR}.*",
        )


class _Current(threading.local):
    """Which instance runs on this thread."""

    instance: Instance | None = None


_current: Final = _Current()


class Engine:
    """The engine of this process, and the timer that interrupts what runs in it."""

    def __init__(self) -> None:
        check_release()
        config = wasmtime.Config()
        config.consume_fuel = True
        config.epoch_interruption = True
        # First: the engine refuses a stack that is not below that of asynchronous calls.
        c_api.wasmtime_config_async_stack_size_set(config.ptr(), WASM_STACK + HOST_ROOM)
        config.max_wasm_stack = WASM_STACK
        self._engine = wasmtime.Engine(config)
        self._pid = os.getpid()
        self._library = native.library_of(
            ctypes.cast(c_api._wasm_engine_new_with_config, ctypes.c_void_p).value
        )
        self.ticker: Final = Ticker(self._engine.increment_epoch)

    def load(self, compiled: int) -> Module:
        """The module in a file of compiled code, which this process then maps and runs.

        Args:
            compiled: A descriptor of the file, whose owner and mode the caller has judged.

        Raises:
            EngineUnavailable: It is not what this engine compiles.
        """
        try:
            return wasmtime.Module.deserialize_file(self._engine, f"/proc/self/fd/{compiled}")
        except wasmtime.WasmtimeError as error:
            raise EngineUnavailable(
                f"the compiled interpreter cannot be loaded ({_first_line(str(error))})",
                "remove the compiled modules in its cache, and have it compiled again",
            ) from error

    def compile(self, source: bytes | str) -> Module:
        """The module of WebAssembly, binary or as text; takes minutes for a large one."""
        return wasmtime.Module(self._engine, source)

    def serialized(self, module: Module) -> bytearray:
        """What `load` reads from a file."""
        return module.serialize()

    def check_ready(self) -> None:
        """Make sure that a guest can be entered, and that its traps reach the engine.

        Raises:
            EngineUnavailable: This process was forked, or other code took the signals.
        """
        if os.getpid() != self._pid:
            raise EngineUnavailable(
                "this process was forked from one that had run guests",
                "start worker processes with spawn instead of fork",
            )
        for number in native.trap_signals():
            handler = native.signal_handler(number)
            if self._library is None or native.library_of(handler) != self._library:
                raise EngineUnavailable(
                    f"the engine's handler of {number.name} was replaced, so a fault in a guest "
                    "would end this process",
                    "install signal and fault handlers before the first execution, not after it",
                )

    @property
    def raw(self) -> wasmtime.Engine:
        """The engine itself, for this module."""
        return self._engine


class Program:
    """A module whose imports are defined, so that instances of it are made in no time.

    Args:
        engine: What runs it.
        module: What is run.
        functions: What answers each import, by its name.
        errno_of: Gives the number a guest gets for an error of the host.
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
        self._linker = wasmtime.Linker(engine.raw)
        self._callbacks: list[Any] = []
        for wanted in module.imports:
            kind = wanted.type
            if not isinstance(kind, wasmtime.FuncType) or wanted.name is None:
                raise EngineUnavailable(
                    f"the interpreter imports {wanted.name!r}, which is no function",
                    "install the release that the sandbox was tested with",
                )
            function = functions.get(wanted.name)
            if function is None:
                raise EngineUnavailable(
                    f"the interpreter imports {wanted.name!r}, which is not known",
                    "install the release that the sandbox was tested with",
                )
            callback = _callback(function, [str(each) for each in kind.params], errno_of)
            self._callbacks.append(callback)
            self._define(wanted.module.encode(), wanted.name.encode(), kind, callback)
        self._prepared = ctypes.POINTER(c_api.wasmtime_instance_pre_t)()
        _raise_error(
            c_api.wasmtime_linker_instantiate_pre(
                self._linker.ptr(), module.ptr(), ctypes.byref(self._prepared)
            )
        )

    def _define(
        self, module: bytes, name: bytes, kind: wasmtime.FuncType, callback: object
    ) -> None:
        _raise_error(
            c_api.wasmtime_linker_define_func_unchecked(
                self._linker.ptr(),
                ctypes.create_string_buffer(module),
                len(module),
                ctypes.create_string_buffer(name),
                len(name),
                kind.ptr(),
                ctypes.cast(callback, c_api.wasmtime_func_unchecked_callback_t),  # type: ignore[arg-type]
                None,
                _no_finalizer_of_function,
            )
        )

    def instance(self, *, memory_bytes: int) -> Instance:
        """A new instance, whose memory is as the module has it.

        Args:
            memory_bytes: The most memory it may have.

        Raises:
            EngineUnavailable: The engine is not ready, or has no room for it.
        """
        self.engine.check_ready()
        return Instance(self.engine, self._prepared, memory_bytes)


class Instance:
    """One instance of a program, called by one thread at a time, on that thread's stack.

    Attributes:
        guest: What its host functions are given first.
        clock: The time its turn has; every host function looks at it first.
        memory: Its memory.
    """

    def __init__(self, engine: Engine, prepared: Any, memory_bytes: int) -> None:
        self.guest: object = None
        self.clock: TurnClock = TurnClock(None)
        self.fault: BaseException | None = None
        self._engine = engine
        self._owed = 0
        self._store = wasmtime.Store(engine.raw)
        self._context = c_api.wasmtime_store_context(self._store.ptr())
        self._store.set_limits(memory_size=memory_bytes)
        c_api.wasmtime_store_epoch_deadline_callback(
            self._store.ptr(), _epoch_callback, None, _no_finalizer_of_callback
        )
        self._store.set_fuel(MOST_FUEL)
        self._store.set_epoch_deadline(1)
        self._instance = c_api.wasmtime_instance_t()
        trap = ctypes.POINTER(c_api.wasm_trap_t)()
        try:
            error = c_api.wasmtime_instance_pre_instantiate(
                prepared, self._context, ctypes.byref(self._instance), ctypes.byref(trap)
            )
            self._check(error, trap)
        except Trapped as error:
            self._store.close()
            raise EngineUnavailable(
                f"no instance of the interpreter can be made ({error.reason})",
                "give it more memory, or close sandboxes that are not needed",
            ) from error
        self._functions: dict[str, Any] = {}
        self._memory = c_api.wasmtime_memory_t.from_buffer_copy(self._export("memory").of.memory)
        base = ctypes.cast(
            c_api.wasmtime_memory_data(self._context, ctypes.byref(self._memory)), ctypes.c_void_p
        ).value
        self.memory: Final = GuestMemory(base or 0, self._memory_size)
        self._numbers = (ctypes.c_uint64 * 32)()
        self._raw = ctypes.cast(self._numbers, ctypes.POINTER(c_api.wasmtime_val_raw_t))

    def grow(self, size: int) -> None:
        """Have at least this many bytes of memory.

        Raises:
            Trapped: It may not have so many.
        """
        missing = size - self._memory_size()
        if missing > 0:
            before = ctypes.c_uint64()
            error = c_api.wasmtime_memory_grow(
                self._context,
                ctypes.byref(self._memory),
                -(-missing // _PAGE),
                ctypes.byref(before),
            )
            self._check(error, None)
            self.memory.refresh()

    @contextlib.contextmanager
    def turn(self, clock: TurnClock, fuel: int) -> Iterator[None]:
        """Let it be called within the block, until its clock or its fuel ends it."""
        self.clock, self.fault, self._owed = clock, None, 0
        self._store.set_fuel(fuel)
        self._store.set_epoch_deadline(1)
        self._engine.check_ready()
        outer, _current.instance = _current.instance, self
        self._engine.ticker.watch(clock)
        try:
            yield
        finally:
            clock.over = True
            _current.instance = outer

    def call(self, name: str, *numbers: int) -> int:
        """Call one of its functions, within a turn.

        Raises:
            Trapped: The engine ended it.
            BaseException: What a host function raised, which ended it.
        """
        function = self._functions.get(name)
        if function is None:
            function = c_api.wasmtime_func_t.from_buffer_copy(self._export(name).of.func)
            self._functions[name] = function
        for i, number in enumerate(numbers):
            self._numbers[2 * i] = number
        trap: Any = ctypes.POINTER(c_api.wasm_trap_t)()
        error = c_api._wasmtime_func_call_unchecked(
            self._context,
            ctypes.byref(function),
            self._raw,
            max(1, len(numbers)),
            ctypes.byref(trap),
        )
        if error or trap:
            self._check(error, trap)
        return self._numbers[0] & 0xFFFFFFFF

    def charge(self, units: int) -> None:
        """Have the guest pay fuel for work that the host does.

        Raises:
            TurnEnded: It has not so much left.
        """
        self._owed += units
        if self._owed >= _SETTLED_AT:
            self.settle()

    def settle(self) -> None:
        """Take what is owed of the guest's fuel.

        Raises:
            TurnEnded: It has not so much left.
        """
        left = self._store.get_fuel()
        owed, self._owed = self._owed, 0
        self._store.set_fuel(max(0, left - owed))
        if owed > left:
            raise TurnEnded(OUT_OF_FUEL)

    def fuel_left(self) -> int:
        """What is left of the turn's fuel, all that is owed taken off."""
        return max(0, self._store.get_fuel() - self._owed)

    def close(self) -> None:
        """Free its memory; no view of it may be used any more."""
        self.memory.release()
        self.guest = None
        self._store.close()

    def _export(self, name: str) -> Any:
        found, text = c_api.wasmtime_extern_t(), name.encode()
        if not c_api.wasmtime_instance_export_get(
            self._context,
            ctypes.byref(self._instance),
            ctypes.create_string_buffer(text),
            len(text),
            ctypes.byref(found),
        ):
            raise Trapped(f"it has no {name}")
        return found

    def _memory_size(self) -> int:
        return c_api.wasmtime_memory_data_size(self._context, ctypes.byref(self._memory))

    def _check(self, error: Any, trap: Any) -> None:
        """Raise what ended the guest, if anything did; what a host function raised comes first."""
        reason = None
        if error:
            reason = _taken_message(error)
        elif trap:
            reason = _taken_reason(trap)
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault
        if reason is not None:
            raise Trapped(reason)


OUT_OF_FUEL: Final = "out of fuel"
_SETTLED_AT: Final = 1 << 20


def _callback(
    function: HostFunction, kinds: list[str], errno_of: Callable[[OSError], int]
) -> object:
    """A host function as the engine calls it."""
    layout = struct.Struct("<" + "".join("I12x" if kind == "i32" else "Q8x" for kind in kinds))
    numbers_at = (ctypes.c_char * max(16, layout.size)).from_address
    unpack, pack = layout.unpack_from, struct.Struct("<I").pack_into

    def callback(_environment: int, _caller: int, numbers: int, _count: int) -> int:
        instance = _current.instance
        try:
            if instance is None:
                return _new_trap()
            instance.clock.check()
            array = numbers_at(numbers)
            try:
                answer = function(instance.guest, *unpack(array))
            except OSError as error:
                answer = errno_of(error)
            pack(array, 0, answer or 0)
        except BaseException as error:  # noqa: BLE001 (nothing is raised through the engine)
            if instance is not None:
                instance.fault = error
            return _new_trap()
        return 0

    return _RAW_CALLBACK(callback)


_RAW_CALLBACK: Final = ctypes.CFUNCTYPE(
    ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
)
_Finalizer: Final = c_api._wasmtime_linker_define_func_unchecked.argtypes[8]
_no_finalizer_of_function: Final = _Finalizer()
_EpochCallback: Final = c_api._wasmtime_store_epoch_deadline_callback.argtypes[1]
_no_finalizer_of_callback: Final = c_api._wasmtime_store_epoch_deadline_callback.argtypes[3]()


def _new_trap() -> int:
    """The address of a new trap, which is the engine's once it is returned to it."""
    trap = c_api.wasmtime_trap_new(ctypes.create_string_buffer(b"ended by the host"), 17)
    return ctypes.cast(trap, ctypes.c_void_p).value or 0


def _on_epoch(_context: Any, _data: Any, delta: Any, _kind: Any) -> int:
    """Whether what computes may go on: 0 for yes, or the address of an error."""
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
    error_made = c_api.wasmtime_error_new(ctypes.create_string_buffer(b"ended by the host"))
    return ctypes.cast(error_made, ctypes.c_void_p).value or 0


_epoch_callback: Final = _EpochCallback(_on_epoch)


def _taken_message(error: Any) -> str:
    """The first line of an error, which is freed."""
    text = c_api.wasm_byte_vec_t()
    c_api.wasmtime_error_message(error, ctypes.byref(text))
    c_api.wasmtime_error_delete(error)
    return _first_line(_taken_text(text))


def _taken_reason(trap: Any) -> str:
    """Why there was a trap, which is freed."""
    code = c_api.wasmtime_trap_code_t()
    text = c_api.wasm_byte_vec_t()
    has_code = c_api.wasmtime_trap_code(trap, ctypes.byref(code))
    c_api.wasm_trap_message(trap, ctypes.byref(text))
    c_api.wasm_trap_delete(trap)
    message = _taken_text(text)
    if not has_code:
        return _first_line(message)
    return wasmtime.TrapCode(code.value).name.lower().replace("_", " ")


def _taken_text(text: Any) -> str:
    found = ctypes.string_at(text.data, text.size) if text.size else b""
    c_api.wasm_byte_vec_delete(ctypes.byref(text))
    return found.rstrip(b"\0").decode("utf-8", "replace")


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _raise_error(error: Any) -> None:
    if error:
        raise EngineUnavailable(
            f"the interpreter cannot be linked ({_taken_message(error)})",
            "install the release that the sandbox was tested with",
        )


@functools.cache
def the_engine() -> Engine:
    """The engine of this process.

    Raises:
        EngineUnavailable: The bindings are not those that are known.
    """
    return Engine()
