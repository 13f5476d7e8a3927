# expect: exit 0, or trapped crash
"""Leave for an interpreter of one's own inside the interpreter."""

import os

from attack_kit import BASE, attempt, verdict


def inner():
    from concurrent import interpreters

    interpreter = interpreters.create()
    interpreter.exec(f"open({BASE!r} + '/outside/secret.txt').read()")


def raw():
    import _interpreters

    number = _interpreters.create()
    problem = _interpreters.exec(number, f"open({BASE!r} + '/canary.txt').read()")
    if problem is not None:
        raise OSError(problem)


attempt("interpreter", inner)
attempt("raw interpreter", raw)
print(os.getcwd())
verdict()
