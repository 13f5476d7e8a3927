"""Use the doors a host could have opened."""

from attack_kit import attempt, verdict


def tools():
    from host import tools

    return tools.list()


def door():
    import host

    return host.call(b"{}")


def inner():
    import _host

    return _host.call(b"{}")


attempt("tools", tools)
attempt("door", door)
attempt("inner door", inner)
verdict()
