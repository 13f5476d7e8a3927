"""Look through everything that is to be seen for something of the host's."""

import os

from attack_kit import BASE, escaped, verdict

known = {"canary.txt", "secret.txt", "deep.txt", "theirs.txt", "neighbour", ".metadata.json"}
top = BASE.split("/")[1]
seen = 0
for directory, names, files in os.walk("/"):
    for name in names + files:
        seen += 1
        if name in known:
            escaped("sees " + os.path.join(directory, name))
    if directory == "/" and top in names and top not in ("tmp", "usr", "run"):
        escaped("sees the host's " + top)
    if seen > 20_000:
        break
print(seen, "entries")
verdict()
