# expect: exit 0, or trapped crash
"""Parse JSON that is nested deeper than any stack."""

import json

print("CONTAINED", flush=True)
for text in ("[" * 10**6 + "]" * 10**6, '{"a":' * 10**6 + "1" + "}" * 10**6):
    try:
        json.loads(text)
    except (RecursionError, ValueError, MemoryError) as error:
        print("refused", type(error).__name__)
