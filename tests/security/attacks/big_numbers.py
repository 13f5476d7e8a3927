# expect: trapped deadline
"""Keep one arithmetic operation busy."""

print("CONTAINED", flush=True)
x = 7 ** (10**8)
