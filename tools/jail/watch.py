"""Checks of a running jail: its use of limited resources, and whether a limit is exceeded."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from .command_line import HOME
from .policy import JailLimits, JailUsage, Means, StopReason
from .walls.control_group import ControlGroup
from .walls.usage import DiskUsage, TreeLook, disk_usage, divided, look_at

_FIRST_S: Final = 0.01
"""The delay of the first look; a command that ends earlier is not looked at."""
_TREE_S: Final = 0.03
_TREE_OF_GROUP_S: Final = 0.25
_DISK_S: Final = 0.2
_SHARE: Final = 15
"""The pause between two looks, as a multiple of the cost of a look."""
_SLACK: Final = 8
_SCRATCH: Final = ("tmp", "dev/shm", HOME.lstrip("/"))


class Watch:
    """Watches one jail, from its start to its end; used by one thread."""

    def __init__(
        self,
        limits: JailLimits,
        workspace: Path,
        group: ControlGroup | None,
        *,
        scratch: Iterable[str] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the settings; no look yet.

        Args:
            limits: The limits.
            workspace: The folder on the host.
            group: The control group that the jail is in, or None.
            scratch: Scratch folders besides those of every jail, relative to its root.
            monotonic: The clock of the looks.
        """
        self._limits = limits
        self._workspace = workspace
        self._group = group
        self._scratch = (*_SCRATCH, *scratch)
        self._monotonic = monotonic
        self._began = monotonic()
        self._memory = 0
        self._processes = 1
        self._disk: DiskUsage | None = None
        self._next_tree = self._began + _FIRST_S
        self._next_disk = self._began + _DISK_S

    def next_look_s(self) -> float:
        """Return the seconds until a look is due."""
        return max(0.0, min(self._next_tree, self._next_disk) - self._monotonic())

    def look(self, child: int) -> StopReason | None:
        """Take the looks that are due; return the exceeded limit, or None.

        Args:
            child: The jail's first process.
        """
        now = self._monotonic()
        stop = None
        if now >= self._next_tree:
            stop = self._look_at_tree(child)
            spent = self._monotonic() - now
            least = _TREE_S if self._group is None else _TREE_OF_GROUP_S
            self._next_tree = now + max(least, _SHARE * spent)
        if stop is None and now >= self._next_disk:
            stop = self._look_at_disk(child)
            self._next_disk = now + max(_DISK_S, _SHARE * (self._monotonic() - now))
        return stop

    def end(self) -> StopReason | None:
        """Take the last look, at what is left; return the exceeded limit, or None."""
        stop = None
        if self._group is not None:
            self._memory = max(self._memory, self._group.peak_memory_bytes or 0)
            if self._group.memory_was_exceeded:
                stop = StopReason.MEMORY
        return self._judge_disk(0) or stop

    def usage(self) -> JailUsage:
        """Return the measured usage, with the time up to now."""
        disk = self._disk
        return JailUsage(
            seconds=self._monotonic() - self._began,
            memory_bytes=self._memory,
            processes=self._processes,
            workspace_bytes=0 if disk is None else disk.bytes,
            workspace_files=0 if disk is None else disk.entries,
            held_by=Means.WATCHED if self._group is None else Means.CGROUP,
        )

    def _look_at_tree(self, child: int) -> StopReason | None:
        limits = self._limits
        tree = look_at(child, most=limits.processes + _SLACK)
        self._processes = max(self._processes, tree.processes)
        if self._group is not None:
            return StopReason.MEMORY if self._group.memory_was_exceeded else None
        if tree.processes > limits.processes + _SLACK:
            return StopReason.PROCESSES
        return self._judge_memory(child, tree)

    def _judge_memory(self, child: int, tree: TreeLook) -> StopReason | None:
        """Judge the memory of a look; count shared memory once if the limit seems exceeded."""
        memory = self._memory_of(tree)
        if memory > self._limits.memory_bytes:
            memory = self._memory_of(divided(child, tree, most=self._limits.processes + _SLACK))
        self._memory = max(self._memory, memory)
        return StopReason.MEMORY if memory > self._limits.memory_bytes else None

    def _memory_of(self, tree: TreeLook) -> int:
        device = None if self._disk is None else self._disk.device
        elsewhere = sum(size for at, size in tree.unnamed_bytes.items() if at != device)
        return tree.own_bytes + max(tree.shared_bytes, elsewhere)

    def _look_at_disk(self, child: int) -> StopReason | None:
        limits = self._limits
        tree = look_at(child, most=limits.processes + _SLACK, descriptors=True)
        device = None if self._disk is None else self._disk.device
        stop = self._judge_disk(tree.unnamed_bytes.get(device, 0) if device is not None else 0)
        if stop is not None:
            return stop
        if self._scratch_files(child) > limits.workspace_files:
            return StopReason.FILES
        return self._judge_memory(child, tree) if self._group is None else None

    def _scratch_files(self, child: int) -> int:
        """Return the number of files of the fullest scratch folder.

        Until the jail has a root of its own these would be folders of the machine, which may
        contain any number.
        """
        most = 0
        for scratch in self._scratch:
            with suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/{child}/root/"), os.stat("/")):
                    return 0
                seen = os.statvfs(f"/proc/{child}/root/{scratch}")
                most = max(most, seen.f_files - seen.f_ffree)
        return most

    def _judge_disk(self, unnamed: int) -> StopReason | None:
        limits = self._limits
        try:
            self._disk = disk_usage(self._workspace, most_entries=limits.workspace_files)
        except OSError:
            return None  # the workspace was moved; its mover knows its content
        if self._disk.entries > limits.workspace_files:
            return StopReason.FILES
        if self._disk.bytes + unnamed > limits.workspace_bytes:
            return StopReason.DISK
        return None
