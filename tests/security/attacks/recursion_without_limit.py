# expect: trapped crash, or exit 1
"""Lift the interpreter's own limit, then call itself."""

import sys

print("CONTAINED", flush=True)
sys.setrecursionlimit(2**31 - 1)


class Deep:  # noqa: PLW1641
    def __getattr__(self, name):
        return getattr(self, name + "x")

    def __repr__(self):
        return repr(self)

    def __eq__(self, other):
        return sorted([self, other], key=lambda thing: repr(thing)) == 1  # noqa: PLW0108


try:
    print(Deep() == Deep())
except RecursionError:
    raise SystemExit(1) from None
raise SystemExit(1)
