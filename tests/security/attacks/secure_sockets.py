"""Reach the network by way of encryption."""

import socket

from attack_kit import attempt, verdict


def connect():
    import ssl

    context = ssl.create_default_context()
    with socket.create_connection(("127.0.0.1", 443), timeout=0.1) as plain:
        return context.wrap_socket(plain, server_hostname="localhost")


def certificate():
    import ssl

    return ssl.get_server_certificate(("127.0.0.1", 443), timeout=0.1)


attempt("connect", connect)
attempt("certificate", certificate)
verdict()
