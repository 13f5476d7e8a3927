# expect: trapped memory
# policy: memory_bytes=134217728
"""Take all memory by one text."""

print("CONTAINED", flush=True)
text = "x\U0001f4a3"
while True:
    text += text
