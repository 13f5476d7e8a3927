"""Have the database library open files outside."""

import sqlite3

from attack_kit import BASE, attempt, verdict


def connect(path, *, uri=False):
    with sqlite3.connect(path, uri=uri) as connection:
        connection.execute("create table planted (x)")
        connection.commit()


def attach(path):
    with sqlite3.connect(":memory:") as connection:
        connection.execute("attach ? as other", (path,))
        connection.execute("create table other.planted (x)")
        connection.commit()


for path in (
    BASE + "/planted.db",
    "../outside/planted.db",
    "outside_link/planted.db",
    "dangling_out",
):
    attempt("connect " + path, connect, path)
    attempt("attach " + path, attach, path)
    attempt("uri " + path, lambda p=path: connect(f"file:{p}?mode=rwc&vfs=unix-none", uri=True))


def extension():
    connection = sqlite3.connect(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension("/app/native.so")


attempt("extension", extension)
verdict()
