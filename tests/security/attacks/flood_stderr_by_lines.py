# long
# expect: truncated
# host memory: 200
"""Write a great many lines to the other stream."""

import sys
import warnings

print("CONTAINED", flush=True)
warnings.simplefilter("always")
for number in range(3000):
    print("y" * 20_000, file=sys.stderr)
    warnings.warn(f"{number}", stacklevel=1)
