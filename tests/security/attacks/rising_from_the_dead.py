# expect: exit 0, or trapped deadline
"""Objects that come back each time they are collected."""

import gc

print("CONTAINED", flush=True)
keep = []


class Undead:
    def __del__(self):
        keep.append(Undead())
        keep.append(self)


Undead()
for _ in range(100):
    keep.clear()
    gc.collect()
