# expect: trapped deadline
"""Write out a number of many digits."""

import sys

print("CONTAINED", flush=True)
sys.set_int_max_str_digits(0)
print(len(str(1 << (1 << 25))))
