"""End in ways that are no exit."""

import sys

from attack_kit import verdict


class Liar:
    def __int__(self):
        raise MemoryError

    def __str__(self):
        raise SystemExit(3)

    def __bool__(self):
        raise ValueError

    def __eq__(self, other):
        return True

    __hash__ = None


for value in (None, 0, -1, 2**70, "text", b"bytes", Liar(), [1], float("nan"), True):
    try:
        sys.exit(value)
    except SystemExit as error:
        print(type(error.code).__name__)
verdict()
raise SystemExit(False)
