"""A call that costs money, for the programs beside each other: it appends a line to `paid.txt`."""

from __future__ import annotations

import os
import signal
from typing import TypedDict

BUDGET = 20_000
"""Tokens that the whole job may take."""
ESTIMATE = 6_000
"""Tokens that a call is expected to take at most."""


class Reply(TypedDict):
    """What a call returns: its text, and the usage as model providers report it."""

    text: str
    usage: dict[str, int]


def paid(phase: str, text: str) -> Reply:
    """Pay for a call. In the phase `HANG_IN`, the money is spent and the reply never comes."""
    file = os.open("paid.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"{phase}\n".encode())
    os.close(file)
    while os.environ.get("HANG_IN") == phase:
        signal.pause()
    used = int(os.environ.get("TOKENS", "5000"))
    return {"text": f"{phase}({text})", "usage": {"input_tokens": used, "output_tokens": 0}}
