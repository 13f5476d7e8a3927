# expect: exit 1
"""Read and write memory that is not the program's."""

import ctypes

print("CONTAINED", flush=True)
found = ctypes.string_at(1 << 20, 1 << 20)
if b"root:x:" in found or b"VIRTUAL_ENV" in found:
    print("ESCAPED: memory of the host", flush=True)
ctypes.memset(1024, 0x41, 1 << 24)
ctypes.string_at(0xFFFFFF00, 1 << 12)
raise SystemExit(1)
