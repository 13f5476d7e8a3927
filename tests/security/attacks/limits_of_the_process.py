"""Lift, or use up, the limits of the process."""

from attack_kit import attempt, verdict


def limits():
    import resource

    return resource.setrlimit(resource.RLIMIT_NOFILE, (10**6, 10**6))


def usage():
    import resource

    return resource.prlimit(1, resource.RLIMIT_CPU, (1, 1))


def priority():
    import os

    return os.nice(-5)


def affinity():
    import os

    return os.sched_setaffinity(0, {0})


for attack in (limits, usage, priority, affinity):
    attempt(attack.__name__, attack)
verdict()
