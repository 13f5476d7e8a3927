# expect: trapped deadline
"""Keep the regular expression engine busy in one call."""

import re

print("CONTAINED", flush=True)
re.match(r"(a|aa|a?)+\Z", "a" * 60 + "b")
