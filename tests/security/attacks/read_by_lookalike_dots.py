"""Climb with characters that look like dots and slashes."""

import os

from attack_kit import attempt, read, verdict

DOTS = ["\u2025", "\u2024\u2024", "\uff0e\uff0e", "\ufe52\ufe52", ".\u200b.", ".\u0307.", "\u3002."]
SLASHES = ["/", "\u2215", "\u2044", "\uff0f", "\\", "%2f"]
for dots in DOTS:
    for slash in SLASHES:
        path = f"{dots}{slash}outside{slash}secret.txt"
        attempt(ascii(path), read, path)
for raw in [b"\xc0\xae\xc0\xae/outside/secret.txt", b"..\xc0\xafoutside\xc0\xafsecret.txt"]:
    attempt(ascii(raw), read, raw)
    attempt("by fsdecode " + ascii(raw), read, os.fsdecode(raw))
verdict()
