# expect: trapped deadline
# policy: memory_bytes=134217728
"""Catch every refusal of memory and go on asking."""

print("CONTAINED", flush=True)
keep = []
while True:
    try:
        keep.append(bytearray(1 << 20))
    except MemoryError:
        keep = keep[: len(keep) // 2]
