# long
# expect: truncated
# host memory: 200
"""Write both streams byte by byte."""

import os

print("CONTAINED", flush=True)
for _ in range(3000):
    os.write(1, b"a" * 500)
    os.write(2, b"b" * 500)
