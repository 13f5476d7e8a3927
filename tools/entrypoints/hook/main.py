"""`agentforge-hook PROGRAM`: JSON in, JSON out, exit code 0 even after an error.

An agent waits for it at every tool call, so it takes no options and loads only what an event needs.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any, Final

MAX_INPUT_BYTES: Final = 64 * 1024 * 1024
_SELDOM_USED: Final = frozenset(
    {
        *("agentforge_sessions.fleet.stores", "selectors", "shutil", "signal", "subprocess"),
        *("copy", "inspect", "ipaddress", "ntpath"),  # by `dataclasses` and `pathlib`
    }
)
"""Modules that few events use, though what they load imports them."""
_USAGE: Final = (
    "agentforge-hook: expected one argument, the agent program, and JSON on standard input"
)


def run(arguments: Sequence[str], data: bytes, environment: Mapping[str, str]) -> str:
    """Handle one call and return the text for standard output: JSON, or "".

    Any failure becomes one line on standard error: a hook must not break an agent's turn.
    """
    if len(arguments) != 1:
        _remark(_USAGE)
        return ""
    payload = _payload(data)
    if payload is None:
        return ""
    from ...agents.hooks.handler import handle
    from ...fleet import stores

    try:
        answer = handle(arguments[0], payload, environment, stores=stores)
    except Exception as error:  # noqa: BLE001 (the boundary: an agent's turn continues)
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


class LoadedWhenUsed:
    """Import finder that delays loading a few modules until their first use.

    The modules that import them need them for what few events do.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a lazy spec for one of these modules; None for every other module."""
        spec = PathFinder.find_spec(name, path, target) if name in _SELDOM_USED else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def main() -> None:
    """Run the command of this process; end it without the interpreter's cleanup."""
    gc.disable()  # the process ends before there is anything worth collecting
    sys.meta_path.insert(0, LoadedWhenUsed())
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
