# expect: any exit
"""End with an object that is no number, raises when shown, and claims to be everything."""

from attack_kit import verdict


class Liar(int):
    def __bool__(self):
        raise ValueError("no")

    def __index__(self):
        raise SystemExit(5)

    def __str__(self):
        raise MemoryError


verdict()
raise SystemExit(Liar(3))
