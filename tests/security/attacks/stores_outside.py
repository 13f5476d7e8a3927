"""Have the library keep something where it should not."""

import dbm
import logging.handlers
import shelve

from attack_kit import BASE, attempt, verdict

for place in (BASE, "../outside", "outside_link"):
    attempt("shelf " + place, lambda p=place: shelve.open(p + "/planted"))  # noqa: SIM115
    attempt("store " + place, lambda p=place: dbm.open(p + "/planted", "c"))  # noqa: SIM115
    attempt("log " + place, lambda p=place: logging.FileHandler(p + "/planted.log"))
    attempt(
        "turning log " + place,
        lambda p=place: logging.handlers.RotatingFileHandler(p + "/canary.txt", maxBytes=1),
    )


def send(handler):
    logging.raiseExceptions = False
    handler.createSocket()
    handler.sock.send(b"x")


attempt("log to a socket", send, logging.handlers.SocketHandler("127.0.0.1", 9))
verdict()
