"""The rules for names and paths that people write in workflows and specifications; pure."""

from __future__ import annotations

import re
from typing import Final

MAX_PART_BYTES: Final = 200
"""The longest part of a path in the workspace; leaves room for a temporary name beside it."""
MAX_RELATIVE_BYTES: Final = 1024
"""The longest path in the workspace."""


WORKFLOW_NAME_RE: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
WORKFLOW_NAME_RULE: Final = "it has 1 to 64 of a-z 0-9 - and begins with a letter or a digit"
NAME_RE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
NAME_RULE: Final = "it has 1 to 64 of A-Z a-z 0-9 _ . - and begins with a letter or a digit"
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def path_problem(path: str) -> str | None:
    """Return why a text is not a plain path inside the workspace, or None."""
    parts = path.split("/")
    problem = None
    if not path:
        return "is empty"
    if path[0] == "/" or ".." in parts:
        problem = "is not inside the workspace; give it relative, without .."
    elif _CONTROL.search(path):
        problem = "holds a control character"
    elif "" in parts or "." in parts:
        problem = "has an empty part or a '.' in it; write it plainly, as a/b"
    elif len(path.encode()) > MAX_RELATIVE_BYTES:
        problem = f"has more than {MAX_RELATIVE_BYTES} bytes"
    elif max(len(part.encode()) for part in parts) > MAX_PART_BYTES:
        problem = f"has a part of more than {MAX_PART_BYTES} bytes"
    shown = path if len(path) <= 60 else f"{path[:57]}..."
    return None if problem is None else f"{shown!r} {problem}"
