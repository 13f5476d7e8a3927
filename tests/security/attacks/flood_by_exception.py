# expect: exit 1, truncated
# host memory: 400
"""Fail with a very long message, and a chain of a thousand causes."""

print("CONTAINED", flush=True)
error = ValueError("v" * (20 << 20))
for number in range(100):
    after = ValueError(str(number) * 1000)
    after.__cause__ = error
    error = after
raise error
