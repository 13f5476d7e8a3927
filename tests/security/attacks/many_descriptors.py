"""Hold more files open than allowed."""

import os

from attack_kit import escaped, verdict

held = []
try:
    for number in range(5000):
        held.append(os.open(f"f{number}", os.O_CREAT | os.O_WRONLY))  # noqa: PERF401
except OSError as error:
    print("stopped at", len(held), error.errno)
else:
    escaped("no limit on open files")
for fd in held:
    os.close(fd)
verdict()
