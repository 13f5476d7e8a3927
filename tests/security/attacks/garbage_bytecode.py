# expect: trapped crash, or exit 1
"""Run bytecode no compiler makes: the interpreter may fall, the host may not."""

import os
import sys


def victim():
    return 1


for seed in range(200):
    code = bytes((seed * 37 + i * 101) % 256 for i in range(64))
    if seed == 0:
        print("CONTAINED", flush=True)
    try:
        victim.__code__ = victim.__code__.replace(co_code=code, co_stacksize=1)
        victim()
    except BaseException as error:
        print(seed, type(error).__name__, file=sys.stderr, flush=True)
os._exit(1)
