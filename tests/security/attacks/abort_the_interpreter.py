# expect: trapped crash, or exit 1
"""Have the interpreter give up."""

import os

print("CONTAINED", flush=True)
try:
    os.abort()
except AttributeError:
    raise SystemExit(1) from None
