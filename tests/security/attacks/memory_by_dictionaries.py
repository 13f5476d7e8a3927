# long
# expect: trapped memory, or exit 1
# policy: memory_bytes=134217728
"""Take all memory by names."""

print("CONTAINED", flush=True)
keep = {}
while True:
    keep[len(keep)] = str(len(keep)) * 100
