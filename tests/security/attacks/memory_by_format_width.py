# expect: trapped memory, or exit 1
"""Take all memory by a width in a format."""

print("CONTAINED", flush=True)
print(len(f"{1:>2000000000}"))
