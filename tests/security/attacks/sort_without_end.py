# expect: trapped deadline
"""Sort with a comparison that never ends."""

print("CONTAINED", flush=True)


class Item:
    def __lt__(self, other):
        while True:
            pass


sorted([Item(), Item()])
