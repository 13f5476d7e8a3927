# long
# expect: exit 1, truncated
# host memory: 300
"""Say something very long at the end."""

import sys

print("CONTAINED", flush=True)
sys.exit("z" * (50 << 20))
