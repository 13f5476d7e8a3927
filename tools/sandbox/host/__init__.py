"""The guest's machine: our `wasi_snapshot_preview1` host for the interpreter's module.

A running instance asks its host for time, randomness and files through a few dozen functions. They
are implemented here, on directory descriptors and in-memory files, call by call and coherently:
every handle reads what any other has written. `engine` drives the WebAssembly engine, and no other
module knows it; `preview1` decodes a call, passes it to a node and encodes the answer.
"""
