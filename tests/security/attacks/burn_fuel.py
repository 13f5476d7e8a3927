# expect: trapped fuel
"""Use more instructions than allowed."""

print("CONTAINED", flush=True)
n = 0
while True:
    n += 1
