# long
# expect: trapped memory, or exit 1
# policy: memory_bytes=134217728
"""Take all memory in small pieces."""

print("CONTAINED", flush=True)
keep = []
while True:
    keep = [keep, [None] * 1000]
