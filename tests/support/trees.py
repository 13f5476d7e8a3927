"""What a folder holds, as a value that tests compare or lay out again."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

Tree = Mapping[bytes, tuple[str, bytes | str]]


def tree_of(folder: Path, *, but: tuple[str, ...] = ()) -> Tree:
    """Return all that is in a folder: the type and mode of each path, and its content or target."""
    found: dict[bytes, tuple[str, bytes | str]] = {}
    root = os.fsencode(folder)
    for at, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = os.path.join(at, name)
            relative = os.path.relpath(path, root)
            if os.fsdecode(name) in but:
                continue
            status = os.lstat(path)
            about = stat.filemode(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                found[relative] = ("link", os.fsdecode(os.readlink(path)))
            elif stat.S_ISDIR(status.st_mode):
                found[relative] = (about, "")
            else:
                with open(path, "rb") as file:
                    found[relative] = (about, file.read())
        folders[:] = [name for name in folders if os.fsdecode(name) not in but]
    return found


def lay_out(tree: Tree, folder: Path) -> None:
    """Write what `tree_of` found into a folder; its times are now, and hard links are not linked.

    What many tests begin with is so made once in a process, and costs the others no program's run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    root = os.fsencode(folder)
    for relative, (about, content) in tree.items():  # folders come before what is in them
        path = os.path.join(root, relative)
        if about == "link":
            os.symlink(content, path)
        elif about.startswith("d"):
            os.mkdir(path)
        else:
            assert isinstance(content, bytes)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
                file.write(content)
                if stat.filemode(os.fstat(file.fileno()).st_mode) != about:
                    os.fchmod(file.fileno(), _bits(about))


def _bits(about: str) -> int:
    return sum(0o400 >> number for number, letter in enumerate(about[1:10]) if letter != "-")
