# expect: trapped deadline
"""Catch or ignore every signal that could end it."""

import signal

print("CONTAINED", flush=True)
for number in range(1, 65):
    try:
        signal.signal(number, lambda *_: None)
    except (OSError, ValueError, RuntimeError):
        continue
for name in ("alarm", "setitimer", "pthread_sigmask", "pause", "raise_signal"):
    try:
        getattr(signal, name)(1)
    except (AttributeError, TypeError, OSError, ValueError):
        continue
while True:
    try:
        while True:
            pass
    except BaseException:
        continue
