"""The part of the system that every jail sees: programs, libraries and their data; nothing private.

Each mount makes a jail slower to start, so small files are copied into it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import field, frozen

ETC: Final = "/etc"
_TOP: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_STORES: Final = ("nix/store", "gnu/store")
_ETC_FOLDERS: Final = ("alternatives", "ssl/certs", "pki/tls/certs", "pki/ca-trust/extracted")
_ETC_PATTERNS: Final = ("java-*",)
_ETC_FILES: Final = (
    *("ld.so.cache", "localtime", "timezone", "nsswitch.conf", "mime.types", "ssl/openssl.cnf"),
    *("pki/tls/cert.pem", "pki/tls/openssl.cnf"),
)
_HIDDEN: Final = ("usr/local/etc", "usr/etc")
_MASKED: Final = ("keys", "key-users", "kallsyms", "cmdline", "kcore")
_MAX_FILE_BYTES: Final = 4 << 20
_WORKSPACES: Final = ("/work", "/workspace", "/agentforge-work")


def workspace_name(is_taken: Callable[[str], bool] = os.path.lexists) -> str:
    """Return the path of the workspace for commands: `/work`, or a name that the system lacks.

    Toolchains are shown at their own paths, and the workspace would cover one below its name.

    Args:
        is_taken: Returns whether the system has something at a path.
    """
    return next((name for name in _WORKSPACES if not is_taken(name)), _WORKSPACES[-1])


WORKSPACE: Final = workspace_name()
"""The path of the workspace for a command, where it starts."""


@frozen(kw_only=True)
class SystemView:
    """The part of the system's own folders that a jail gets.

    Attributes:
        folders: Folders at their own paths, read-only.
        links: Symbolic links, each with its target.
        copies: Small files, by path.
        hidden: Folders in those folders that appear empty.
        masked: Files of `/proc` that can't be read; nothing in it can be written.
    """

    folders: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    copies: Mapping[str, bytes] = field(repr=False, hash=False)
    hidden: tuple[str, ...]
    masked: tuple[str, ...]


def system_view(root: Path = Path("/")) -> SystemView:
    """Return the part of this system's folders that exists.

    Args:
        root: The root of the system.
    """
    links, folders = [], ["/usr"]
    for name in _TOP:
        try:
            mode = os.lstat(root / name).st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode):
            links.append((os.readlink(root / name).lstrip("/"), f"/{name}"))
        else:
            folders.append(f"/{name}")
    folders += [f"/{name}" for name in _STORES if (root / name).is_dir()]
    folders += [f"/etc/{name}" for name in _ETC_FOLDERS if (root / "etc" / name).is_dir()]
    for pattern in _ETC_PATTERNS:
        folders += [f"/etc/{path.name}" for path in sorted((root / "etc").glob(pattern))]
    return SystemView(
        folders=tuple(folders),
        links=tuple(links),
        copies=_copies(root / "etc"),
        hidden=tuple(f"/{name}" for name in _HIDDEN if _holds_something(root / name)),
        masked=tuple(f"/proc/{name}" for name in _MASKED if (root / "proc" / name).exists()),
    )


def _copies(etc: Path) -> dict[str, bytes]:
    found = {}
    for name in _ETC_FILES:
        with suppress(OSError), open(etc / name, "rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
            if len(content) <= _MAX_FILE_BYTES:
                found[f"/etc/{name}"] = content
    return found


def _holds_something(folder: Path) -> bool:
    with suppress(OSError):
        return bool(os.listdir(folder))
    return False


def is_in_etc(path: str) -> bool:
    """Return whether an absolute path in a jail is `/etc` or is in it."""
    return path == ETC or path.startswith(f"{ETC}/")


def is_of_the_system(path: Path, view: SystemView) -> bool:
    """Return whether a real path is in one of the system's folders that a jail sees."""
    text = str(path)
    return any(
        text == folder or text.startswith(f"{folder}/")
        for folder in (*view.folders, *(link for _, link in view.links))
    )
