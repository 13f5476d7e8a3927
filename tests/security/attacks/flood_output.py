# long
# expect: truncated
# host memory: 200
"""Write far more than is kept."""

import os
import sys

print("CONTAINED", flush=True)
block = b"x" * (1 << 20)
for _ in range(64):
    os.write(1, block)
    os.write(2, block)
sys.exit(0)
