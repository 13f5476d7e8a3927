"""Close the streams, and everything else."""

import os

print("CONTAINED", flush=True)
for fd in range(3, 64):
    try:
        os.close(fd)
    except OSError:
        continue
for fd in (0, 1, 2):
    os.close(fd)
