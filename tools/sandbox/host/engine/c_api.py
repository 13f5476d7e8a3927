"""The part of wasmtime's public C API that the sandbox uses, declared for `ctypes`.

Source: the headers of the pinned release (wasm.h, wasmtime/*.h). The engine's own Python package
declares the full API, which takes longer than an execution, so only the package's shared library is
used. Opaque types are plain addresses here.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from typing import Any, Final

from ...installed.interpreter_files import package_directory

Address = ctypes.c_void_p
_size = ctypes.c_size_t
_u8, _u64, _i64, _bool = ctypes.c_uint8, ctypes.c_uint64, ctypes.c_int64, ctypes.c_bool
_text = ctypes.c_char_p

WASM_I32: Final = 0
WASM_I64: Final = 1
STRATEGY_WINCH: Final = 2
EXTERN_FUNC: Final = 0
EXTERN_MEMORY: Final = 3


class Vector(ctypes.Structure):
    """A `wasm_byte_vec_t` or another vector: a size and an address."""

    _fields_ = (("size", _size), ("data", Address))


class Func(ctypes.Structure):
    """A `wasmtime_func_t`."""

    _fields_ = (("store", _u64), ("private", Address))


class Memory(ctypes.Structure):
    """A `wasmtime_memory_t`."""

    _fields_ = (("store", _u64), ("private", ctypes.c_uint32), ("private2", ctypes.c_uint32 * 3))


class InstanceHandle(ctypes.Structure):
    """A `wasmtime_instance_t`."""

    _fields_ = (("store", _u64), ("private", _size))


class _Of(ctypes.Union):
    _fields_ = (("func", Func), ("memory", Memory))


class Extern(ctypes.Structure):
    """A `wasmtime_extern_t`: a kind and its value."""

    _fields_ = (("kind", _u8), ("of", _Of))


VALUE_BYTES: Final = 16
"""The size of a `wasmtime_val_raw_t`."""

HostCallback = ctypes.CFUNCTYPE(_size, Address, Address, Address, _size)
"""A `wasmtime_func_unchecked_callback_t`; returns the address of a trap, or 0."""

EpochCallback = ctypes.CFUNCTYPE(_size, Address, Address, ctypes.POINTER(_u64), Address)
"""Called when an epoch's deadline passes; returns the address of an error, or 0."""

_Finalizer = ctypes.CFUNCTYPE(None, Address)
NO_FINALIZER: Final = _Finalizer()


def _library_path() -> str:
    """Return the path of the shared library in the engine's package for this machine."""
    package = package_directory("wasmtime")
    if package is None:
        raise ImportError("wasmtime is not installed")
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    name = "_libwasmtime.dylib" if sys.platform == "darwin" else "_libwasmtime.so"
    return os.path.join(package, f"{sys.platform}-{machine}", name)


def _loaded(kind: type[ctypes.CDLL]) -> ctypes.CDLL:
    path = _library_path()
    try:
        return kind(path)
    except OSError as error:
        raise ImportError(f"{path} cannot be loaded ({error})") from error


_library: Final = _loaded(ctypes.CDLL)
_quick_library: Final = _loaded(ctypes.PyDLL)


def _function(name: str, result: Any, *arguments: Any, library: ctypes.CDLL = _library) -> Any:
    found = getattr(library, name)
    found.restype, found.argtypes = result, arguments
    return found


def _quick(name: str, result: Any, *arguments: Any) -> Any:
    """Declare a quick function that makes no callbacks; calls to it do not release the GIL.

    After a release another thread takes the lock, and this one has to wait for it.
    """
    return _function(name, result, *arguments, library=_quick_library)


config_new = _function("wasm_config_new", Address)
config_strategy = _function("wasmtime_config_strategy_set", None, Address, _u8)
config_native_unwind_info = _function(
    "wasmtime_config_native_unwind_info_set", None, Address, _bool
)
config_consume_fuel = _function("wasmtime_config_consume_fuel_set", None, Address, _bool)
config_epoch_interruption = _function(
    "wasmtime_config_epoch_interruption_set", None, Address, _bool
)
config_max_wasm_stack = _function("wasmtime_config_max_wasm_stack_set", None, Address, _size)
config_async_stack_size = _function("wasmtime_config_async_stack_size_set", None, Address, _size)
engine_new = _function("wasm_engine_new_with_config", Address, Address)
engine_delete = _function("wasm_engine_delete", None, Address)
engine_increment_epoch = _function("wasmtime_engine_increment_epoch", None, Address)

module_new = _function("wasmtime_module_new", Address, Address, _text, _size, Address)
module_delete = _function("wasmtime_module_delete", None, Address)
module_serialize = _function("wasmtime_module_serialize", Address, Address, Address)
module_deserialize_file = _function(
    "wasmtime_module_deserialize_file", Address, Address, _text, Address
)
module_imports = _function("wasmtime_module_imports", None, Address, Address)
importtype_module = _function("wasm_importtype_module", Address, Address)
importtype_name = _function("wasm_importtype_name", Address, Address)
importtype_type = _function("wasm_importtype_type", Address, Address)
importtype_vec_delete = _function("wasm_importtype_vec_delete", None, Address)
externtype_kind = _function("wasm_externtype_kind", _u8, Address)
externtype_as_functype = _function("wasm_externtype_as_functype_const", Address, Address)
functype_params = _function("wasm_functype_params", Address, Address)
valtype_kind = _function("wasm_valtype_kind", _u8, Address)

linker_new = _function("wasmtime_linker_new", Address, Address)
linker_delete = _function("wasmtime_linker_delete", None, Address)
linker_define_func = _function(
    "wasmtime_linker_define_func_unchecked",
    Address,
    *(Address, _text, _size, _text, _size, Address, HostCallback, Address, _Finalizer),
)
linker_instantiate_pre = _function(
    "wasmtime_linker_instantiate_pre", Address, Address, Address, Address
)
instance_pre_delete = _function("wasmtime_instance_pre_delete", None, Address)
instance_pre_instantiate = _function(
    "wasmtime_instance_pre_instantiate", Address, Address, Address, Address, Address
)
instance_export_get = _quick(
    "wasmtime_instance_export_get", _bool, Address, Address, _text, _size, Address
)

store_new = _function("wasmtime_store_new", Address, Address, Address, _Finalizer)
store_delete = _function("wasmtime_store_delete", None, Address)
store_context = _function("wasmtime_store_context", Address, Address)
store_limiter = _function("wasmtime_store_limiter", None, Address, *([_i64] * 5))
store_epoch_callback = _function(
    "wasmtime_store_epoch_deadline_callback", None, Address, EpochCallback, Address, _Finalizer
)
context_set_fuel = _quick("wasmtime_context_set_fuel", Address, Address, _u64)
context_get_fuel = _quick("wasmtime_context_get_fuel", Address, Address, Address)
context_set_epoch_deadline = _quick("wasmtime_context_set_epoch_deadline", None, Address, _u64)
memory_data = _quick("wasmtime_memory_data", Address, Address, Address)
memory_data_size = _quick("wasmtime_memory_data_size", _size, Address, Address)
memory_grow = _function("wasmtime_memory_grow", Address, Address, Address, _u64, Address)
func_call = _function(
    "wasmtime_func_call_unchecked", Address, Address, Address, Address, _size, Address
)

trap_new = _function("wasmtime_trap_new", Address, _text, _size)
trap_code = _function("wasmtime_trap_code", _bool, Address, Address)
trap_message = _function("wasm_trap_message", None, Address, Address)
trap_delete = _function("wasm_trap_delete", None, Address)
error_new = _function("wasmtime_error_new", Address, _text)
error_message = _function("wasmtime_error_message", None, Address, Address)
error_delete = _function("wasmtime_error_delete", None, Address)
byte_vec_delete = _function("wasm_byte_vec_delete", None, Address)

TRAPS: Final = (
    "stack overflow",
    "memory out of bounds",
    "heap misaligned",
    "table out of bounds",
    "indirect call to null",
    "bad signature",
    "integer overflow",
    "integer division by zero",
    "bad conversion to integer",
    "unreachable",
    "interrupt",
    "out of fuel",
)
"""Trap reasons that such a module can cause, by trap code."""


def address_of(function: Any) -> int | None:
    """Return the address of a function of the library."""
    return ctypes.cast(function, Address).value


def taken_bytes(vector: Vector) -> bytes:
    """Return a vector's bytes and free the vector."""
    found = ctypes.string_at(vector.data, vector.size) if vector.size else b""
    byte_vec_delete(ctypes.byref(vector))
    return found


def text_at(vector: int) -> bytes:
    """Return the bytes of the vector at an address; do not free it."""
    seen = Vector.from_address(vector)
    return ctypes.string_at(seen.data, seen.size)


def addresses_at(vector: Vector) -> list[int]:
    """Return the addresses in a vector."""
    if not vector.size:
        return []
    return list((ctypes.c_size_t * vector.size).from_address(vector.data))
