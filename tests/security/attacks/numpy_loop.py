# long
# policy: deadline_s=3
# expect: trapped deadline
"""Keep numerical code busy in few calls."""

import numpy

print("CONTAINED", flush=True)
a = numpy.random.default_rng(1).normal(size=(1500, 1500))
while True:
    a = numpy.tanh(a @ a)
