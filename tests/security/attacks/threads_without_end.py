"""Start threads until something gives."""

import threading
import time

from attack_kit import escaped, verdict

started = 0
try:
    for _ in range(10_000):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
        started += 1
except RuntimeError:
    pass
if started:
    escaped(f"{started} threads")
verdict()
