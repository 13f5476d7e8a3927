"""A control group for one jail, if this process may make one: the kernel's own limits.

Both versions of the interface are supported. If no group can be made, as for most ordinary users,
`make_group` returns None, and the jail is watched instead.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from attrs import field, frozen

_ROOT: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")
_PREFIX: Final = "agentforge-jail-"
_NAME: Final = re.compile(rf"{_PREFIX}(\d+)-[0-9a-f]{{16}}")
_REMOVE_S: Final = 2.0
_KEPT_FREE: Final = 1
"""Room for the jail's first process, which is bubblewrap's own."""


@frozen(kw_only=True)
class ControlGroup:
    """The folders with the limits of one jail: one for each controller, or one for all.

    Attributes:
        memory: The folder of the memory controller.
        second: Whether it is of the second version of the interface.
    """

    memory: Path
    second: bool
    _folders: tuple[Path, ...] = field(alias="folders")

    def add(self, pid: int) -> bool:
        """Move a process in, with all that it starts from then on; return False if refused."""
        try:
            for folder in self._folders:
                (folder / "cgroup.procs").write_text(str(pid))
        except OSError:
            return False
        return True

    @property
    def memory_was_exceeded(self) -> bool:
        """Return whether the kernel ended a process of it for lack of memory."""
        name = "memory.events" if self.second else "memory.oom_control"
        return _fields(self.memory / name).get("oom_kill", 0) > 0

    @property
    def peak_memory_bytes(self) -> int | None:
        """Return its peak memory, in bytes; None if the kernel does not say."""
        return _number(
            self.memory / ("memory.peak" if self.second else "memory.max_usage_in_bytes")
        )

    def remove(self) -> None:
        """Remove it once its processes have ended; a sweep removes what the kernel still holds."""
        until = time.monotonic() + _REMOVE_S
        for folder in self._folders:
            while not _removed(folder) and time.monotonic() < until:
                time.sleep(0.01)


def make_group(
    memory_bytes: int, processes: int, *, root: Path = _ROOT, own: Path = _OWN
) -> ControlGroup | None:
    """Make a group with limits; return None if this process may not.

    Args:
        memory_bytes: The most memory, including swapped out memory.
        processes: The most processes and threads.
        root: The mount point of control groups.
        own: The file that lists this process's groups.
    """
    name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    lines = _own_groups(own)
    made: list[Path] = []
    try:
        if (root / "cgroup.controllers").exists():
            return _second(root, lines.get("", "/"), name, memory_bytes, processes, made)
        return _first(root, lines, name, memory_bytes, processes, made)
    except OSError:
        for folder in made:
            _removed(folder)
        return None


def _first(
    root: Path,
    lines: Mapping[str, str],
    name: str,
    memory_bytes: int,
    processes: int,
    made: list[Path],
) -> ControlGroup | None:
    memory = _make(root / "memory" / lines.get("memory", "/").lstrip("/"), name, made)
    _write(memory / "memory.limit_in_bytes", memory_bytes)
    with suppress(OSError):  # only where swap is accounted for
        _write(memory / "memory.memsw.limit_in_bytes", memory_bytes)
    pids = _make(root / "pids" / lines.get("pids", "/").lstrip("/"), name, made)
    _write(pids / "pids.max", processes + _KEPT_FREE)
    return ControlGroup(memory=memory, second=False, folders=tuple(made))


def _second(
    root: Path, own: str, name: str, memory_bytes: int, processes: int, made: list[Path]
) -> ControlGroup | None:
    """Make a group beside this process's own: a group with processes may have none below it."""
    here = root / own.lstrip("/")
    for above in (here.parent, here) if own != "/" else (root,):
        if not above.is_relative_to(root):
            continue
        with suppress(OSError):
            given = (above / "cgroup.subtree_control").read_text().split()
            if not {"memory", "pids"} <= set(given):
                continue
            folder = _make(above, name, made)
            _write(folder / "memory.max", memory_bytes)
            with suppress(OSError):  # only where there is swap
                _write(folder / "memory.swap.max", 0)
            with suppress(OSError):
                _write(folder / "memory.oom.group", 1)
            _write(folder / "pids.max", processes + _KEPT_FREE)
            return ControlGroup(memory=folder, second=True, folders=(folder,))
    for folder in made:
        _removed(folder)
    return None


def _make(parent: Path, name: str, made: list[Path]) -> Path:
    _sweep(parent)
    folder = parent / name
    folder.mkdir(mode=0o755)
    made.append(folder)
    return folder


def _sweep(parent: Path) -> None:
    """Remove groups without processes whose makers were killed."""
    with suppress(OSError):
        for name in os.listdir(parent):
            match = _NAME.fullmatch(name)
            if match and not Path("/proc", match[1]).exists():
                _removed(parent / name)


def _removed(folder: Path) -> bool:
    try:
        os.rmdir(folder)  # the kernel refuses one that has processes
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _write(path: Path, value: int) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))


def _own_groups(own: Path) -> dict[str, str]:
    """Return this process's groups by controller; the second version's has an empty name."""
    found: dict[str, str] = {}
    try:
        lines = own.read_text().splitlines()
    except (OSError, ValueError):
        return found
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if ".." not in path.split("/"):
            for controller in controllers.split(","):
                found[controller] = path
    return found


def _fields(path: Path) -> dict[str, int]:
    found = {}
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if value.strip().isdecimal():
                found[name] = int(value)
    return found


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None
