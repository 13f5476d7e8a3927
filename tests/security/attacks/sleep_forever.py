# expect: trapped deadline
"""Wait in the host."""

import time

print("CONTAINED", flush=True)
while True:
    time.sleep(10**6)
