# host memory: 300
"""Write a byte at the far end of a file."""

import os

from attack_kit import escaped, verdict

for offset in (1 << 25, 1 << 31, 1 << 40, 1 << 62):
    try:
        fd = os.open("far", os.O_RDWR | os.O_CREAT)
        try:
            os.lseek(fd, offset, 0)
            os.write(fd, b"x")
            os.fsync(fd)
        finally:
            os.close(fd)
    except (OSError, OverflowError) as error:
        print("refused", type(error).__name__)
if os.path.exists("far") and os.path.getsize("far") > 16 << 20:
    escaped("a file that is too long")
verdict()
