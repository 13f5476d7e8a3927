# long
# expect: trapped memory
# policy: memory_bytes=134217728
"""Take all memory by arrays."""

import numpy

print("CONTAINED", flush=True)
keep = []
while True:
    keep.append(numpy.ones(1 << 20))
