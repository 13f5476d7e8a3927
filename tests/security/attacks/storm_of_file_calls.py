# long
# expect: trapped files
# policy: file_calls=20000
"""Ask for the same file without end."""

import os

print("CONTAINED", flush=True)
while True:
    try:
        os.stat("notes.txt")
        os.stat("nowhere")
    except OSError:
        continue
