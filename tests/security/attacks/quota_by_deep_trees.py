"""Make a tree deeper than the host can remove."""

import os

from attack_kit import escaped, verdict

depth = 0
try:
    for _ in range(1000):
        os.mkdir("d")
        os.chdir("d")
        depth += 1
except OSError as error:
    print("refused", error.errno)
os.chdir("/app")
if depth > 128:
    escaped(f"{depth} levels")
# Join two trees that are each allowed.
try:
    os.makedirs("/app/e/" + "/".join("e" * 100))
    os.rename("/app/e", "/app/" + "/".join("d" * min(depth, 100)) + "/e")
except OSError as error:
    print("refused", error.errno)
else:
    escaped("a tree of two hundred levels")
verdict()
