# expect: trapped memory
# policy: memory_bytes=134217728
"""Take all memory."""

print("CONTAINED", flush=True)
keep = []
while True:
    keep.append(bytearray(1 << 24))
