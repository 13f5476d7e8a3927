"""Put the streams in each other's place."""

import os
import sys

from attack_kit import verdict

verdict()
sys.stdout.flush()
for one, other in ((1, 2), (2, 1), (1, 0), (3, 1)):
    try:
        os.dup2(one, other)
    except (OSError, AttributeError) as error:
        print("refused", type(error).__name__)
sys.stdout, sys.stderr = sys.stderr, sys.stdout
sys.__stdout__ = None
print("on which stream")
