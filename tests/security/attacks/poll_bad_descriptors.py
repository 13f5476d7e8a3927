# expect: trapped deadline
"""Poll everything, for ever."""

import select
import time

print("CONTAINED", flush=True)
while True:
    try:
        poller = select.poll()
        for fd in range(64):
            poller.register(fd, 0xFFFF)
        poller.poll(10**6)
    except (OSError, AttributeError, ValueError):
        time.sleep(0.001)
