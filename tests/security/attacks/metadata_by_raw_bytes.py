"""Name the session's own file in bytes no text has."""

import os

from attack_kit import attempt, read, verdict, write

for raw in (
    b".metadata.json",
    b"./.metadata.json",
    b".METADATA.JSON",
    b".metadata.json\x00",
    b".metadata.json\x7f",
    b".metadata.json\x01",
    b"\x01.metadata.json",
    b".metadata.json\n",
    b".metadata.json\xff",
    b".meta\xc0\xafdata.json",
):
    attempt("read " + ascii(raw), read, raw)
    if not raw.endswith(b"\xff") and b"\xc0" not in raw:
        attempt("write " + ascii(raw), write, raw)
for entry in os.scandir(b"."):
    if b"metadata" in entry.name:
        attempt("scanned", read, entry.path)
verdict()
