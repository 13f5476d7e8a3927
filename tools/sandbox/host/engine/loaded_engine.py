"""The WebAssembly engine of this process: loaded once, checked, its errors translated.

Only this module, `engine` and `c_api` know which engine it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from ...installed.interpreter_files import installed_version
from . import c_api, native
from .clock import Ticker

TESTED_MINOR: Final = "49.0"
WASM_STACK: Final = 6 << 20
"""Stack for compiled guest code, in bytes, taken from the calling thread's own."""

HOST_ROOM: Final = 3 << 19
"""Stack that must remain for the host functions a guest calls, in bytes."""

_SIZES: Final = {c_api.Func: 16, c_api.Memory: 24, c_api.InstanceHandle: 16, c_api.Extern: 32}


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


def check_release(release: str | None = None) -> None:
    """Check that the engine's release is the one declared in `c_api`.

    Args:
        release: The engine's release; the installed one by default.

    Raises:
        EngineUnavailable: It is another.
    """
    moved = [kind.__name__ for kind, size in _SIZES.items() if ctypes.sizeof(kind) != size]
    release = release or installed_version("wasmtime")
    if moved or not release.startswith(TESTED_MINOR + "."):
        raise EngineUnavailable(
            f"wasmtime {release} is not the release that the sandbox was tested with",
            f"install wasmtime {TESTED_MINOR}.*",
        )


class Owned:
    """An engine object, deleted together with this one.

    Args:
        address: Its address.
        delete: Deletes it.
    """

    def __init__(self, address: int, delete: Callable[[int], None]) -> None:
        self.address: Final = address
        weakref.finalize(self, delete, address).atexit = False


class Module(Owned):
    """A compiled module."""

    def imports(self) -> list[tuple[bytes, bytes, list[int] | None, int]]:
        """Return the imports: module, name, a function's parameter kinds, and its type.

        The types are valid as long as the module exists; the kinds are None unless it is a
        function.
        """
        vector = c_api.Vector()
        c_api.module_imports(self.address, ctypes.byref(vector))
        weakref.finalize(self, c_api.importtype_vec_delete, ctypes.byref(vector)).atexit = False
        found = []
        for each in c_api.addresses_at(vector):
            kind = c_api.importtype_type(each)
            function, parameters = 0, None
            if c_api.externtype_kind(kind) == c_api.EXTERN_FUNC:
                function = c_api.externtype_as_functype(kind)
                types = c_api.Vector.from_address(c_api.functype_params(function))
                parameters = [c_api.valtype_kind(each) for each in c_api.addresses_at(types)]
            module, name = c_api.importtype_module(each), c_api.importtype_name(each)
            found.append((c_api.text_at(module), c_api.text_at(name), parameters, function))
        return found


class Engine:
    """An engine of this process, and the timer that interrupts its guests.

    Attributes:
        metered: Whether its guests use fuel; only the optimising compiler can count it.

    Args:
        baseline: Whether it compiles with the baseline compiler, in a quarter of the time to code
            that takes twice as long.
    """

    def __init__(self, *, baseline: bool = False) -> None:
        check_release()
        self.metered: Final = not baseline
        config = c_api.config_new()
        c_api.config_consume_fuel(config, self.metered)
        if baseline:
            c_api.config_strategy(config, c_api.STRATEGY_WINCH)
            c_api.config_native_unwind_info(config, False)  # for debuggers only
        c_api.config_epoch_interruption(config, True)
        # First: the engine requires a stack smaller than that of asynchronous calls.
        c_api.config_async_stack_size(config, WASM_STACK + HOST_ROOM)
        c_api.config_max_wasm_stack(config, WASM_STACK)
        self._engine = engine = Owned(c_api.engine_new(config), c_api.engine_delete)
        self._pid = os.getpid()
        self._library = native.library_of(c_api.address_of(c_api.engine_new))
        self._handlers: set[int | None] = set()
        self.ticker: Final = Ticker(lambda: c_api.engine_increment_epoch(engine.address))

    @property
    def address(self) -> int:
        """The engine's address."""
        return self._engine.address

    def load(self, compiled: int) -> Module:
        """Load the module from a file of compiled code, which this process maps and runs.

        Args:
            compiled: A descriptor of the file; the caller has checked its owner and mode.

        Raises:
            EngineUnavailable: This engine did not compile the file.
            OSError: The system lacks resources for loading; this says nothing about the file.
        """
        module = c_api.Address()
        path = f"/proc/self/fd/{compiled}".encode()
        error = c_api.module_deserialize_file(self.address, path, ctypes.byref(module))
        if error:
            raise_unloaded(_taken_text(error))
        return Module(module.value or 0, c_api.module_delete)

    def compile(self, binary: bytes) -> Module:
        """Compile WebAssembly; takes minutes for a large module.

        Raises:
            EngineUnavailable: The source is not WebAssembly.
        """
        module = c_api.Address()
        error = c_api.module_new(self.address, binary, len(binary), ctypes.byref(module))
        raise_error(error, "compiled")
        return Module(module.value or 0, c_api.module_delete)

    @contextlib.contextmanager
    def serialized(self, module: Module) -> Iterator[memoryview]:
        """Yield the compiled module's bytes, for a file that `load` reads; valid in the block."""
        vector = c_api.Vector()
        raise_error(c_api.module_serialize(module.address, ctypes.byref(vector)), "serialized")
        try:
            with memoryview((ctypes.c_char * vector.size).from_address(vector.data)) as view:
                yield view.cast("B")
        finally:
            c_api.byte_vec_delete(ctypes.byref(vector))

    def check_ready(self) -> None:
        """Check that guests can be entered and that their traps reach the engine.

        Raises:
            EngineUnavailable: This process was forked, or other code replaced the signal handlers.
        """
        if os.getpid() != self._pid:
            raise EngineUnavailable(
                "this process was forked from one that had run guests",
                "start worker processes with spawn instead of fork",
            )
        for number in native.trap_signals():
            handler = native.signal_handler(number)
            if handler in self._handlers:  # the library does not move
                continue
            if self._library is None or native.library_of(handler) != self._library:
                raise EngineUnavailable(
                    f"the engine's handler of {number.name} was replaced, so a fault in a guest "
                    "would end this process",
                    "install signal and fault handlers before the first execution, not after it",
                )
            self._handlers.add(handler)


def raise_error(error: int | None, what: str) -> None:
    """Raise the engine's error, if it returned one.

    Raises:
        EngineUnavailable: There is an error.
    """
    if error:
        raise EngineUnavailable(
            f"the interpreter cannot be {what} ({taken_message(error)})",
            "install the release that the sandbox was tested with",
        )


def taken_message(error: int) -> str:
    """Return the first line of an error and free it."""
    return _taken_text(error).partition("\n")[0]


def _taken_text(error: int) -> str:
    """Return all lines of an error and free it."""
    text = c_api.Vector()
    c_api.error_message(error, ctypes.byref(text))
    c_api.error_delete(error)
    return _decoded(text)


def raise_unloaded(text: str) -> NoReturn:
    """Raise the engine's error from loading compiled code.

    Raises:
        OSError: The system lacks resources for loading.
        EngineUnavailable: This engine did not compile the file.
    """
    found = re.search(r"\(os error (\d+)\)", text)
    if found is not None:
        raise OSError(int(found[1]), os.strerror(int(found[1])))
    raise EngineUnavailable(
        f"the compiled interpreter cannot be loaded ({' '.join(text.split())})",
        "remove the compiled modules in its cache, and have it compiled again",
    )


def taken_reason(trap: int) -> str:
    """Return the reason of a trap and free it."""
    code, text = ctypes.c_uint8(), c_api.Vector()
    has_code = c_api.trap_code(trap, ctypes.byref(code))
    c_api.trap_message(trap, ctypes.byref(text))
    c_api.trap_delete(trap)
    message = _decoded(text).partition("\n")[0]
    return c_api.TRAPS[code.value] if has_code and code.value < len(c_api.TRAPS) else message


def _decoded(text: c_api.Vector) -> str:
    """Return a text of the engine and free it."""
    return c_api.taken_bytes(text).rstrip(b"\0").decode("utf-8", "replace")


def has_baseline() -> bool:
    """Return whether the baseline compiler is used here; elsewhere it has been tried by nobody."""
    return platform.machine() == "x86_64"


@functools.cache
def the_engine() -> Engine:
    """Return the engine of this process that compiles with optimisation and counts fuel.

    Raises:
        EngineUnavailable: Its release is not the expected one.
    """
    return Engine()


@functools.cache
def the_baseline_engine() -> Engine:
    """Return the engine of this process for the baseline compiler's code.

    Raises:
        EngineUnavailable: Its release is not the expected one.
    """
    return Engine(baseline=True)
