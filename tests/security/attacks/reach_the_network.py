"""Reach any network."""

import socket
import urllib.request

from attack_kit import BASE, attempt, verdict


def connect(host, port):
    connection = socket.socket()
    connection.connect((host, port))


def listen():
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()


def local(path):
    connection = socket.socket(getattr(socket, "AF_UNIX", 1))
    connection.connect(path)


def resolve(name):
    return socket.getaddrinfo(name, 80)


def datagram():
    socket.socket(type=getattr(socket, "SOCK_DGRAM", 2)).sendto(b"x", ("127.0.0.1", 9))


def accept():
    for fd in range(20):
        try:
            return socket.socket(fileno=fd).accept()
        except OSError:
            continue
    raise OSError("nothing to accept on")


attempt("tcp by number", connect, "127.0.0.1", 80)
attempt("tcp by name", connect, "localhost", 80)
attempt("resolve", resolve, "localhost")
attempt("listen", listen)
attempt("unix socket", local, BASE + "/socket")
attempt("udp", datagram)
attempt("http", urllib.request.urlopen, "http://127.0.0.1:80/")
attempt("file url", urllib.request.urlopen, "file://" + BASE + "/outside/secret.txt")
attempt("pair", getattr(socket, "socketpair", accept))
attempt("accept on every descriptor", accept)
verdict()
