# expect: trapped crash, or exit 1
"""Write over the interpreter's own objects."""

import ctypes
import sys

print("CONTAINED", flush=True)
for thing in (1, (), "", None, True, int, sys, print, type):
    ctypes.memset(id(thing), 0xFF, 64)
    print(thing)
raise SystemExit(1)
