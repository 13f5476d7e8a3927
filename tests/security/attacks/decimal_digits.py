# expect: trapped deadline, or exit 1
"""Compute with more digits than there are atoms."""

import decimal

print("CONTAINED", flush=True)
decimal.getcontext().prec = 10**7
print(decimal.Decimal(2).sqrt().ln())
