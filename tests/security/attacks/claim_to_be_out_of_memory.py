# expect: trapped memory, or exit 1
"""Say the words of a limit that was not reached."""

import os
import sys

print("CONTAINED", flush=True)
os.write(2, b"Traceback (most recent call last):\nMemoryError\n")
sys.exit(1)
