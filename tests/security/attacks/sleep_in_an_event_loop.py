# expect: trapped deadline
"""Wait in an event loop."""

import asyncio
import time

print("CONTAINED", flush=True)
try:
    asyncio.run(asyncio.sleep(10**6))
except OSError as error:
    print("no loop", error.errno)
while True:
    time.sleep(3600)
