"""Leave names that are as long as they can be."""

import os

from attack_kit import verdict

for length in (200, 255, 256, 1000, 4096):
    for letter in ("n", "\u00e9", "\U0001f4a3"):
        for number in range(20):
            try:
                os.mkdir(f"{number}" + letter * length)
            except OSError:
                continue
long = "/".join(["p" * 100] * 40)
try:
    os.makedirs(long)
    os.makedirs(long + "/" + long)
except OSError as error:
    print("refused", error.errno)
verdict()
