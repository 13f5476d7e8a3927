# expect: trapped memory
"""Take all memory."""

print("CONTAINED", flush=True)
keep = []
while True:
    keep.append(bytearray(1 << 24))
