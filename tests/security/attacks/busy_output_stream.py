# expect: trapped deadline
"""Refuse to end: the stream that is flushed at the end never returns."""

import sys

print("CONTAINED", flush=True)


class Stream:
    def write(self, text):
        return len(text)

    def flush(self):
        while True:
            pass


sys.stdout = sys.stderr = Stream()
sys.stdout.flush()
