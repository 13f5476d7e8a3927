# expect: trapped deadline
"""Keep a loop inside the interpreter's own code busy."""

import itertools

print("CONTAINED", flush=True)
sum(itertools.repeat(1))
