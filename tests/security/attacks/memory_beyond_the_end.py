# expect: trapped crash, or exit 1
"""Read past the end of all memory there is."""

import ctypes

print("CONTAINED", flush=True)
for address in range(0, 2**32, 2**24):
    found = ctypes.string_at(address, 64)
    if b"root:x:" in found or b"VIRTUAL_ENV=" in found:
        print("ESCAPED: memory of the host", flush=True)
raise SystemExit(1)
