# expect: trapped memory
"""Take all memory by one number."""

print("CONTAINED", flush=True)
x = 1 << (1 << 33)
