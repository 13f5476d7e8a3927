# expect: trapped deadline
"""Refuse to end: an object that is dropped at the end never goes."""

print("CONTAINED", flush=True)


class Clinging:
    def __del__(self):
        while True:
            try:
                while True:
                    pass
            except BaseException:
                continue


keep = Clinging()
