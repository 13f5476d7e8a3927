# expect: trapped fuel
# policy: fuel_budget=2000000000
"""Use more instructions than allowed."""

print("CONTAINED", flush=True)
n = 0
while True:
    n += 1
