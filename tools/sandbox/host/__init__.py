"""The guest's machine: an own `wasi_snapshot_preview1` host for the interpreter's module.

A running instance asks its host for time, randomness and files through a few dozen functions. They
are answered here, on directory descriptors and on files in memory, call by call and coherently:
what one handle has written every other reads. `engine` drives the WebAssembly engine, and no other
module knows it; `preview1` decodes a call, has a node answer it and encodes the answer.
"""
