"""Leave names that do something where they are shown."""

import os

from attack_kit import verdict

for name in (
    "\x1b[2J\x1b[Hcleared",
    "\x1b]52;c;cGxhbnRlZA==\x07",
    "\x1b]8;;http://x\x1b\\link",
    "\r\nfiles_created: none",
    "\x08" * 40,
    "\u202etxt.exe",
    "\u2066isolated",
    "\x9b31m",
    "{workspace}",
    "%(message)s",
    "\ufffe",
    "\U000e0001tag",
):
    try:
        with open(name, "w") as file:
            file.write("x")
        os.rename(name, name + "2")
    except OSError as error:
        print("refused", ascii(name), error.errno)
verdict()
