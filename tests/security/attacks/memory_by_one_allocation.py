# expect: trapped memory
"""Ask for more memory than there is, at once."""

print("CONTAINED", flush=True)
for size in (1 << 28, 1 << 31, 1 << 40, 1 << 62):
    try:
        keep = bytearray(size)
    except (MemoryError, OverflowError) as error:
        print("refused", size, type(error).__name__)
keep = bytearray((1 << 31) - 100)
