# expect: trapped deadline
"""Refuse to end: what shows the error never returns."""

import sys

print("CONTAINED", flush=True)


def forever(*_):
    while True:
        pass


sys.excepthook = forever
raise ValueError("shown for ever")
