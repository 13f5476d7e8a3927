"""Ids of sandbox sessions, and paths and patterns in their workspaces; no file system access."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ...base.identifiers import is_workspace_name
from ...base.text.path_pattern import component_matcher
from ..errors import InvalidSessionId, PathEscapesWorkspace, ReservedSessionPath
from ..guest_paths import is_hidden

_DRIVE: Final = re.compile(r"[A-Za-z]:(/|\Z)")


def validate_session_id(session_id: object) -> str:
    """Return a sandbox session's id if it can name a workspace.

    Raises:
        InvalidSessionId: It cannot.
    """
    if isinstance(session_id, str) and is_workspace_name(session_id):
        return session_id
    raise InvalidSessionId(session_id)


def validate_session_path(relative_path: str) -> Path:
    r"""Return the normal form of a path in a sandbox session's workspace.

    Backslashes count as slashes; `.`, empty components and `x/..` are removed. Links are not
    checked here: they are refused when the path is opened.

    Args:
        relative_path: Such as `results/data.csv`, `results\\data.csv` or `results/`.

    Returns:
        A relative path of at least one component, none of them `..`.

    Raises:
        PathEscapesWorkspace: It is absolute, climbs out, is empty, or is not a valid path.
        ReservedSessionPath: It names the metadata, in any spelling.
    """
    parts: list[str] = []
    for part in _components(relative_path):
        if part == "..":
            if not parts:
                raise PathEscapesWorkspace(relative_path, "it climbs out")
            parts.pop()
        else:
            parts.append(part)
    if not parts:
        raise PathEscapesWorkspace(relative_path, "it names the workspace itself")
    if is_hidden(parts[0]):
        raise ReservedSessionPath(relative_path)
    return Path(*parts)


def _components(text: object) -> list[str]:
    if not isinstance(text, str):
        raise PathEscapesWorkspace(text, f"it is no text but {type(text).__name__}")
    if "\0" in text:
        raise PathEscapesWorkspace(text, "it holds a NUL character")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise PathEscapesWorkspace(text, "it holds a character no name can have") from None
    plain = text.replace("\\", "/")
    if plain.startswith("/") or _DRIVE.match(plain):
        raise PathEscapesWorkspace(text, "absolute paths are not allowed")
    return [part for part in plain.split("/") if part not in ("", ".")]


def path_matcher(pattern: str) -> Callable[[Sequence[str]], bool]:
    """Return a test of path components against a glob; its cost is the product of lengths."""
    names = _components(pattern)
    if not names or ".." in names:
        raise PathEscapesWorkspace(pattern, "a pattern may not climb or be empty")
    return component_matcher(names)
