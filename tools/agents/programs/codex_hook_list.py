"""Requests to Codex's app server about its hooks, and its answers; pure.

The server speaks JSON-RPC, one document per line; the method and its fields are those of 0.169.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from .meter import object_of

_CLIENT: Final = "agentforge"
_LIST_ID: Final = 2
_RUN: Final = frozenset({"managed", "trusted"})
"""Trust values of hooks that run; `untrusted` and `modified` hooks are skipped silently."""


class ListedHook(NamedTuple):
    """A hook that Codex lists.

    Attributes:
        command: Its command line.
        trust: Codex's trust value: `trusted`, `managed`, `untrusted` or `modified`.
        enabled: Whether the person has left it enabled.
    """

    command: str
    trust: str
    enabled: bool

    @property
    def runs(self) -> bool:
        """Whether Codex calls it."""
        return self.enabled and self.trust in _RUN


def list_request(folder: str, version: str) -> bytes:
    """Return the request for the hooks of a conversation in a folder.

    Args:
        folder: The folder's absolute path.
        version: The version of this package, sent in the introduction.
    """
    hello = {"clientInfo": {"name": _CLIENT, "version": version}}
    messages: tuple[dict[str, Any], ...] = (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "initialized"},
        {"id": _LIST_ID, "method": "hooks/list", "params": {"cwds": [folder]}},
    )
    return b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in messages)


def is_answered(output: bytes) -> bool:
    """Return whether the answer is here; the server sends none if its input ends before that."""
    return _answer(output) is not None


def listed_hooks(output: bytes) -> list[ListedHook] | None:
    """Return the hooks in an answer; None if it lists none."""
    answer = _answer(output)
    result = None if answer is None else answer.get("result")
    folders = result.get("data") if isinstance(result, Mapping) else None
    if not isinstance(folders, list):
        return None
    return [hook for folder in folders for hook in _hooks_of(folder)]


def _hooks_of(folder: object) -> Iterator[ListedHook]:
    hooks = folder.get("hooks") if isinstance(folder, Mapping) else None
    for one in hooks if isinstance(hooks, list) else []:
        if isinstance(one, Mapping):
            command, trust = one.get("command"), one.get("trustStatus")
            yield ListedHook(str(command), str(trust), one.get("enabled", True) is True)


def _answer(output: bytes) -> Mapping[str, Any] | None:
    """Return the answer to our request, from complete lines."""
    *lines, _ = output.split(b"\n")
    for line in lines:
        found = object_of(line)
        if found is not None and found.get("id") == _LIST_ID and "method" not in found:
            return found
    return None
