"""Ask for names, which reaches the network too."""

import socket

from attack_kit import attempt, read, verdict

for name in ("localhost", "example.org", "127.0.0.1", "::1", "metadata.google.internal"):
    for ask in ("gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
        attempt(f"{ask} {name}", lambda a=ask, n=name: getattr(socket, a)(n))
for name in ("localhost", "example.org"):
    attempt("addresses of " + name, socket.getaddrinfo, name, 80)
for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"):
    attempt(path, read, path)
verdict()
