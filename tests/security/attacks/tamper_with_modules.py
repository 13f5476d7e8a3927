"""Put other modules in the place of those that are loaded."""

import sys
import types

from attack_kit import verdict

verdict()
for name in list(sys.modules):
    if name not in ("sys", "builtins", "__main__"):
        sys.modules[name] = types.ModuleType(name)
sys.modules["late"] = None
sys.path[:] = ["/nowhere", "../outside"]
sys.meta_path.clear()
sys.path_hooks.clear()
