# expect: trapped deadline
"""Refuse to end: a handler that is called at the end never returns."""

import atexit
import time

print("CONTAINED", flush=True)


@atexit.register
def forever():
    while True:
        time.sleep(1)
