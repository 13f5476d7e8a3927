# expect: trapped deadline
"""Wait in the host for a descriptor that never becomes ready."""

import select
import threading

print("CONTAINED", flush=True)
while True:
    try:
        select.select([], [], [], 10**6)
    except OSError:
        threading.Event().wait(10**6)
