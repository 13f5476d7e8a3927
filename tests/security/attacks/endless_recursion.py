# expect: trapped crash, or exit 1
"""Use up the stack, past the interpreter's own guard."""

import sys

print("CONTAINED", flush=True)
sys.setrecursionlimit(10**9)


class Deep:
    def __repr__(self):
        return repr(Deep())


repr(Deep())
