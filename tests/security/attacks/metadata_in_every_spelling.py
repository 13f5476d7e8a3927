"""Reach the session's own file by every spelling of its name."""

import os

from attack_kit import append, attempt, read, verdict, write

NAMES = [
    ".metadata.json",
    "./.metadata.json",
    ".//.metadata.json",
    "/app/.metadata.json",
    "/app//.metadata.json",
    "//app/.metadata.json",
    ".metadata.json/",
    ".metadata.json/.",
    ".metadata.json.",
    ".metadata.json ",
    ".metadata.json. . .",
    ".METADATA.JSON",
    ".Metadata.Json",
    ".metaData.json",
    "\uff0emetadata.json",
    ".\uff4detadata.json",
    ".metadata\uff0ejson",
    ".metadata\u2024json",
    ".metadata.j\u017fon",
    ".metad\u00aata.json",
    ".metadata.json\u200b",
    ".meta\u00addata.json",
    "\u200e.metadata.json",
    ".metadata.json\ufeff",
    ".metadata.jso\u207f",
    "\U0001d4f6".join([".", "etadata.json"]),
]
for name in NAMES:
    for label, function in {
        "read": read,
        "write": write,
        "append": append,
        "stat": os.stat,
        "lstat": os.lstat,
        "mkdir": os.mkdir,
        "makedirs": os.makedirs,
        "remove": os.remove,
        "rmdir": os.rmdir,
        "list": os.listdir,
        "access": lambda n: os.access(n, os.F_OK) or open("/nowhere"),  # noqa: SIM115
        "truncate": lambda n: os.truncate(n, 0),
        "exclusive": lambda n: open(n, "x"),  # noqa: SIM115
        "update": lambda n: open(n, "r+b"),  # noqa: SIM115
        "from": lambda n: os.rename(n, "mine"),
        "to": lambda n: os.rename("notes.txt", n),
        "over": lambda n: os.replace("notes.txt", n),
    }.items():
        attempt(f"{label} {name!a}", function, name)
verdict()
