"""Hold more directories open than allowed."""

import os

from attack_kit import escaped, verdict

held = []
try:
    for _ in range(5000):
        held.append(os.open("/app", os.O_RDONLY))  # noqa: PERF401
except OSError as error:
    print("stopped at", len(held), error.errno)
else:
    escaped("no limit on open directories")
scans = []
try:
    for _ in range(5000):
        scans.append(os.scandir("."))  # noqa: PERF401
except OSError as error:
    print("stopped at", len(scans), error.errno)
verdict()
