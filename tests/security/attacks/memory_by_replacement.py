# expect: trapped memory, or exit 1
"""Take all memory by replacing every letter by a thousand."""

print("CONTAINED", flush=True)
text = "a" * 10**6
print(len(text.replace("a", text)))
