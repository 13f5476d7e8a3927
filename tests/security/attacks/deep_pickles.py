# expect: trapped crash, or exit 1
"""Unpickle what is nested deeper than any stack."""

import pickle

print("CONTAINED", flush=True)
pickle.loads(b"\x80\x04" + b"(" * 10**6 + b"t" * 10**6 + b".")
data = b"\x80\x04]" + b"]" * 10**6 + b"a" * 10**6 + b"."
nested = pickle.loads(data)
pickle.dumps(nested)
raise SystemExit(1)
