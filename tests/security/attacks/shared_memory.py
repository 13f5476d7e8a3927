"""Share memory with others."""

import os

from attack_kit import attempt, verdict


def shared():
    from multiprocessing import shared_memory

    return shared_memory.SharedMemory(name="planted", create=True, size=100)


def semaphore():
    from multiprocessing import synchronize

    return synchronize.Semaphore(1)


attempt("segment", shared)
attempt("semaphore", semaphore)
attempt("memory file", lambda: os.memfd_create("x"))
attempt("in a directory", open, "/dev/shm/planted", "w")
attempt("eventfd", lambda: os.eventfd(0))
verdict()
