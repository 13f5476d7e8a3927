# expect: trapped deadline
"""Fill a dictionary with keys that all have one hash."""

print("CONTAINED", flush=True)


class Key:
    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self is other


keep = {}
while True:
    keep[Key()] = None
