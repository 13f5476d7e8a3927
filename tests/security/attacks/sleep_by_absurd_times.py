# expect: trapped deadline
"""Sleep for times no clock has."""

import select
import time

print("CONTAINED", flush=True)
for seconds in (-1, float("nan"), float("inf"), 1e300, 2**63, 9.2e9):
    for wait in (time.sleep, lambda s: select.select([], [], [], s)):
        try:
            wait(seconds)
        except (ValueError, OverflowError, OSError) as error:
            print("refused", seconds, type(error).__name__)
while True:
    time.sleep(9e9)
