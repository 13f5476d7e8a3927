# expect: exit 0, or exit 1
"""Replace what runs after the script."""

import atexit
import gc
import sys

from attack_kit import verdict

for module in (atexit, gc, sys):
    for name in ("_run_exitfuncs", "collect", "get_objects", "excepthook", "modules"):
        if hasattr(module, name):
            setattr(module, name, lambda *_: 1 / 0)
main = sys.modules.get("__main__") if isinstance(sys.modules, dict) else None
print(main)
verdict()
