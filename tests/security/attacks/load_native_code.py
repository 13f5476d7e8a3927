"""Load native code, or code for this machine."""

import importlib.machinery
import importlib.util

from attack_kit import attempt, verdict

with open("native.so", "wb") as file:
    file.write(b"\x7fELF" + bytes(200))
with open("native.cpython-315-wasm32-wasi.so", "wb") as file:
    file.write(b"\0asm\x01\0\0\0")


def native_import(path):
    loader = importlib.machinery.ExtensionFileLoader("native", path)
    return importlib.util.module_from_spec(importlib.util.spec_from_loader("native", loader))


def library(name):
    import ctypes

    return ctypes.CDLL(name)


for name in ["libc.so.6", "libc.so", "/app/native.so", "/lib/x86_64-linux-gnu/libc.so.6"]:
    attempt("library " + name, library, name)
for path in ["/app/native.so", "/app/native.cpython-315-wasm32-wasi.so"]:
    attempt("extension " + path, native_import, path)
attempt("import", __import__, "native")
verdict()
