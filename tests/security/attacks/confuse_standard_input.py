"""Read, close, replace and wrap the input."""

import io
import os
import sys

from attack_kit import escaped, verdict

sys.stdin = io.StringIO("import os\n")
os.close(0)
for fd in (0, 3, 4):
    try:
        if os.read(fd, 100):
            escaped("read something")
    except OSError as error:
        print("refused", error.errno)
try:
    os.dup2(1, 0)
except (OSError, AttributeError) as error:
    print("refused", type(error).__name__)
verdict()
