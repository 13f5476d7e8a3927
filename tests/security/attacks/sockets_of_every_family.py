"""Open a socket of every family and kind."""

import socket

from attack_kit import attempt, verdict


def reach(family, kind):
    connection = socket.socket(family, kind)
    connection.settimeout(0.1)
    connection.connect(("127.0.0.1", 22))


families = [number for name, number in vars(socket).items() if name.startswith("AF_")]
for family in sorted({*map(int, families), 0, 1, 2, 10, 16, 17, 40}):
    for kind in (1, 2, 3, 5):
        attempt(f"{family} {kind}", reach, family, kind)
for name in ("gethostbyname", "gethostbyaddr", "create_connection", "create_server", "fromfd"):
    attempt(name, lambda n=name: getattr(socket, n)("127.0.0.1"))
attempt("create", lambda: socket.create_connection(("127.0.0.1", 22), timeout=0.1))
attempt("serve", lambda: socket.create_server(("127.0.0.1", 0)))
for fd in range(3, 30):
    attempt(f"descriptor {fd}", lambda f=fd: socket.socket(fileno=f).send(b"x"))
verdict()
