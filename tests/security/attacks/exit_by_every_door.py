# expect: exit 9
"""End at once, past everything that comes after."""

import atexit
import os

from attack_kit import verdict

atexit.register(print, "ESCAPED: this must not be said")
verdict()
os.sys.stdout.flush()
os._exit(9)
