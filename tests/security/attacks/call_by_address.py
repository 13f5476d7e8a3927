# expect: trapped crash, or exit 1
"""Call functions by addresses nobody gave out."""

import ctypes

print("CONTAINED", flush=True)
for address in (0, 1, 100, 5000, 2**31, 2**32 - 1):
    try:
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)(0)
    except Exception as error:
        print("refused", type(error).__name__, flush=True)
raise SystemExit(1)
