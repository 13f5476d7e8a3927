# host memory: 900
# expect: exit 0, or trapped memory, or exit 1
"""Hold many large files open at once, none of them written yet."""

import os

from attack_kit import verdict

held = []
try:
    for number in range(40):
        fd = os.open(f"o{number}", os.O_RDWR | os.O_CREAT)
        held.append(fd)
        for _ in range(15):
            os.write(fd, b"x" * (1 << 20))
except (OSError, MemoryError) as error:
    print("refused", type(error).__name__)
print("closing", len(held), flush=True)
verdict()
for fd in held:
    try:
        os.close(fd)
    except OSError as error:
        print("refused", error.errno)
