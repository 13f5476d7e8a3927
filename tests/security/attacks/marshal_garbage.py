# long
# expect: trapped crash, or exit 1, or trapped deadline
# policy: deadline_s=2.0
"""Load code no compiler made."""

import marshal
import sys

print("CONTAINED", flush=True)
good = marshal.dumps(compile("def f(x):\n    return [y for y in x]\nf([1])", "x", "exec"))
for seed in range(3000):
    broken = bytearray(good)
    for step in range(3):
        broken[(seed * 31 + step * 97) % len(broken)] = (seed * 7 + step) % 256
    try:
        exec(marshal.loads(bytes(broken)), {})
    except BaseException as error:
        if seed % 500 == 0:
            print(type(error).__name__, file=sys.stderr)
raise SystemExit(1)
