# expect: truncated
# host memory: 200
"""Print a great many lines."""

print("CONTAINED", flush=True)
for _ in range(3000):
    print("x" * 20_000)
