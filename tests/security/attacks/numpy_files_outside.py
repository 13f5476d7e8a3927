# long
"""Have numerical code open files by its own means."""

import numpy
from attack_kit import BASE, attempt, verdict

data = numpy.arange(4, dtype="u1")
for path in ("../canary.txt", BASE + "/canary.txt", "secret_link", "outside_link/secret.txt"):
    attempt("fromfile " + path, numpy.fromfile, path, "u1")
    attempt("memmap " + path, lambda p=path: numpy.memmap(p, "u1", "r+"))
    attempt("load " + path, lambda p=path: numpy.load(p, allow_pickle=True))
    attempt("genfromtxt " + path, numpy.genfromtxt, path)
for path in (BASE + "/planted.bin", "../outside/planted.bin", "outside_link/planted.bin"):
    attempt("tofile " + path, data.tofile, path)
    attempt("memmap new " + path, lambda p=path: numpy.memmap(p, "u1", "w+", shape=4))
verdict()
