# expect: exit 0, or exit 1
"""Replace what every program uses."""

import builtins

from attack_kit import verdict

verdict()
builtins.left = "a mark"
for name in ("open", "exec", "compile", "print", "isinstance", "vars", "list", "getattr", "str"):
    setattr(builtins, name, lambda *args, **kwargs: None)
