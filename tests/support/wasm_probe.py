"""A guest that is no interpreter: a WebAssembly module that passes every call on to its host."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from wasmtime import wat2wasm

from agentforge_sessions.sandbox.host.engine.clock import TurnClock
from agentforge_sessions.sandbox.host.engine.engine import MOST_FUEL, Program
from agentforge_sessions.sandbox.host.engine.loaded_engine import the_engine
from agentforge_sessions.sandbox.host.files.files import Descriptor, Descriptors, Directory
from agentforge_sessions.sandbox.host.files.host_directory import HostTree
from agentforge_sessions.sandbox.host.files.memory_files import MemoryTree
from agentforge_sessions.sandbox.host.preview1.guest import Guest, errno_of
from agentforge_sessions.sandbox.host.preview1.preview1 import FUNCTIONS
from agentforge_sessions.sandbox.host.preview1.streams import InputFile, OutputStream

SIGNATURES: Final[Mapping[str, str]] = {
    "args_get": "ii",
    "args_sizes_get": "ii",
    "environ_get": "ii",
    "environ_sizes_get": "ii",
    "clock_res_get": "ii",
    "clock_time_get": "iIi",
    "fd_advise": "iIIi",
    "fd_allocate": "iII",
    "fd_close": "i",
    "fd_datasync": "i",
    "fd_fdstat_get": "ii",
    "fd_fdstat_set_flags": "ii",
    "fd_fdstat_set_rights": "iII",
    "fd_filestat_get": "ii",
    "fd_filestat_set_size": "iI",
    "fd_filestat_set_times": "iIIi",
    "fd_pread": "iiiIi",
    "fd_prestat_get": "ii",
    "fd_prestat_dir_name": "iii",
    "fd_pwrite": "iiiIi",
    "fd_read": "iiii",
    "fd_readdir": "iiiIi",
    "fd_renumber": "ii",
    "fd_seek": "iIii",
    "fd_sync": "i",
    "fd_tell": "ii",
    "fd_write": "iiii",
    "path_create_directory": "iii",
    "path_filestat_get": "iiiii",
    "path_filestat_set_times": "iiiiIIi",
    "path_link": "iiiiiii",
    "path_open": "iiiiiIIii",
    "path_readlink": "iiiiii",
    "path_remove_directory": "iii",
    "path_rename": "iiiiii",
    "path_symlink": "iiiii",
    "path_unlink_file": "iii",
    "poll_oneoff": "iiii",
    "random_get": "ii",
    "sched_yield": "",
    "sock_accept": "iii",
    "sock_recv": "iiiiii",
    "sock_send": "iiiii",
    "sock_shutdown": "ii",
}
"""Every import but `proc_exit` and `host.call`; `i` for 32 bits, `I` for 64."""

PAGE: Final = 1 << 16


def _loop(name: str, shape: str) -> str:
    """A function that calls another without end, with another name at an address each time."""
    kinds = " ".join({"i": "i32", "I": "i64"}[each] for each in shape)
    passed = " ".join(f"(local.get {i + 1})" for i in range(len(shape)))
    return f"""(func (export "loop_{name}") (param i32 {kinds}) (result i32) (local $n i64)
      (loop
        (call $stamp (local.get 0) (local.get $n))
        (local.set $n (i64.add (local.get $n) (i64.const 1)))
        (drop (call ${name} {passed}))
        (br 0))
      (i32.const 0))"""


def _text() -> str:
    kinds = {"i": "i32", "I": "i64"}
    imports, exports = [], []
    for name, shape in SIGNATURES.items():
        params = f"(param {' '.join(kinds[each] for each in shape)})" if shape else ""
        imports.append(
            f'(import "wasi_snapshot_preview1" "{name}" (func ${name} {params} (result i32)))'
        )
        passed = " ".join(f"(local.get {i})" for i in range(len(shape)))
        exports.append(f'(func (export "{name}") {params} (result i32) (call ${name} {passed}))')
        exports.append(_loop(name, shape))
    exports.append(_loop("call", "iiii"))
    return f"""(module {" ".join(imports)}
      (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
      (import "host" "call" (func $call (param i32 i32 i32 i32) (result i32)))
      (memory (export "memory") 32)
      (global $free (mut i32) (i32.const 1048576))
      (func (export "host_alloc") (param i32) (result i32) (local i32)
        (local.set 1 (global.get $free))
        (global.set $free (i32.add (local.get 1) (local.get 0)))
        (local.get 1))
      (func (export "proc_exit") (param i32) (call $proc_exit (local.get 0)))
      (func (export "host_call") (param i32 i32 i32 i32) (result i32)
        (call $call (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
      (func $deep (export "deep") (param i32) (result i32)
        (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 0))
          (else (i32.add (i32.const 1) (call $deep (i32.sub (local.get 0) (i32.const 1)))))))
      (func $stamp (param i32 i64) (local $end i32)
        (if (i32.eqz (local.get 0)) (then (return)))
        (local.set $end (i32.add (local.get 0) (i32.const 8)))
        (loop
          (i32.store8 (local.get 0)
            (i32.add (i32.const 65) (i32.wrap_i64 (i64.and (local.get 1) (i64.const 31)))))
          (local.set 1 (i64.shr_u (local.get 1) (i64.const 5)))
          (local.set 0 (i32.add (local.get 0) (i32.const 1)))
          (br_if 0 (i32.lt_u (local.get 0) (local.get $end)))))
      (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
      (func (export "spin") (param i32) (result i32) (loop (br 0)) (i32.const 0))
      {" ".join(exports)})"""


_programs: list[Program] = []


def probe_program() -> Program:
    """The module, compiled once for the process."""
    if not _programs:
        engine = the_engine()
        _programs.append(
            Program(engine, engine.compile(bytes(wat2wasm(_text()))), FUNCTIONS, errno_of)
        )
    return _programs[0]


class Probe:
    """An instance of it, with calls for what tests ask often.

    Args:
        mounted: The directories it has open, from number 3 on.
        limit: How many files it may have open.
        stdin: What descriptor 0 holds.
        file_calls: The most calls on names.
    """

    def __init__(
        self,
        mounted: Sequence[tuple[str, Directory]] = (),
        *,
        limit: int = 64,
        stdin: bytes = b"",
        file_calls: int | None = None,
    ) -> None:
        self.instance = probe_program().instance(memory_bytes=64 << 20)
        self.descriptors = Descriptors(limit)
        self.guest = Guest(
            self.instance,
            self.descriptors,
            environment=[b"A=1"],
            arguments=[b"probe", b"x"],
            file_calls=file_calls,
        )
        self.instance.guest = self.guest
        self.out = OutputStream(1 << 16)
        self.descriptors.start_with(
            [
                Descriptor(InputFile(stdin)),
                Descriptor(self.out, readable=False, writable=True),
                Descriptor(OutputStream(1 << 16), readable=False, writable=True),
                *(Descriptor(node, preopened=path.encode()) for path, node in mounted),
            ]
        )

    def call(
        self, name: str, *numbers: int, seconds: float | None = None, fuel: int = MOST_FUEL
    ) -> int:
        """Call one of its functions, in a turn of its own."""
        with self.instance.turn(TurnClock(seconds), fuel):
            return self.instance.call(name, *numbers)

    def serve(self, *trees: HostTree | MemoryTree) -> None:
        """Have it pay for trees, as an interpreter's guest pays for its own."""
        for tree in trees:
            if isinstance(tree, HostTree):
                tree.serve_for(self.guest.upkeep)
            else:
                tree.upkeep = self.guest.upkeep

    def put(self, data: bytes, at: int = 4096) -> tuple[int, int]:
        """Put bytes into its memory; their address and length."""
        self.instance.memory.write(at, data)
        return at, len(data)

    def u32(self, at: int) -> int:
        """The number at an address."""
        return int(struct.unpack("<I", self.instance.memory.view(at, 4))[0])

    def open(
        self, path: bytes, *, how: int = 0, write: bool = False, flags: int = 0, at: int = 3
    ) -> tuple[int, int]:
        """Open a path; the errno, and the number."""
        rights = 1 << 1 | (1 << 6 if write else 0)
        answer = self.call("path_open", at, 1, *self.put(path), how, rights, 0, flags, 64)
        return answer, self.u32(64)

    def write(self, number: int, data: bytes) -> tuple[int, int]:
        """Write bytes; the errno, and how many were written."""
        where, length = self.put(data, 8192)
        self.instance.memory.write(128, struct.pack("<II", where, length))
        return self.call("fd_write", number, 128, 1, 64), self.u32(64)

    def read(self, number: int, count: int) -> tuple[int, bytes]:
        """Read bytes; the errno, and what was read."""
        self.instance.memory.write(128, struct.pack("<II", PAGE, count))
        answer = self.call("fd_read", number, 128, 1, 64)
        return answer, bytes(self.instance.memory.view(PAGE, self.u32(64))) if not answer else b""

    def close(self) -> None:
        """Close all that it has open, and end it."""
        self.descriptors.close_all()
        self.instance.close()


def snapshot(directory: Path) -> dict[str, tuple[int, bytes]]:
    """What a directory of the host holds: mode and content of each entry below it."""
    return {
        str(path.relative_to(directory)): (
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in sorted(directory.rglob("*"))
    }
