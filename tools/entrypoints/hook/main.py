"""`agentforge-hook PROGRAM`: JSON in, JSON out, exit code 0 whatever happens.

An agent waits for it at every tool call, so it takes no option and loads what an event needs.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

MAX_INPUT_BYTES: Final = 64 * 1024 * 1024
_USAGE: Final = (
    "agentforge-hook: expected one argument, the agent program, and JSON on standard input"
)


def run(arguments: Sequence[str], data: bytes, environment: Mapping[str, str]) -> str:
    """Handle one call and return what goes to standard output: JSON, or nothing.

    Whatever fails is a line on standard error: a hook must not break an agent's turn.
    """
    if len(arguments) != 1:
        _remark(_USAGE)
        return ""
    payload = _payload(data)
    if payload is None:
        return ""
    from ...agent_hooks.handler import handle

    try:
        answer = handle(arguments[0], payload, environment)
    except Exception as error:  # noqa: BLE001 (the boundary: an agent's turn goes on)
        _remark(f"agentforge-hook: {type(error).__name__}: {error}")
        return ""
    return "" if answer is None else json.dumps(answer)


def _payload(data: bytes) -> dict[str, Any] | None:
    try:
        payload = json.loads(data) if len(data) <= MAX_INPUT_BYTES else None
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        _remark(_USAGE)
        return None
    return payload


def _remark(text: str) -> None:
    line = " ".join(text.split())[:2_000]
    try:
        sys.stderr.write(f"{line.encode('ascii', 'backslashreplace').decode()}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return


def main() -> None:
    """Run the command of this process; it ends at once, without taking apart what it loaded."""
    gc.disable()  # it ends before there is anything worth collecting
    try:
        data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    except (OSError, ValueError, AttributeError):
        data = b""
    text = run(sys.argv[1:], data, os.environ)
    try:
        if text:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        pass
    os._exit(0)
