"""Directories served to a guest, with what is counted and noted of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentforge_sessions.sandbox.host.files.host_directory import HostTree
from agentforge_sessions.sandbox.host.files.memory_files import MemoryTree
from agentforge_sessions.sandbox.host.files.quota import QuotaMeter
from agentforge_sessions.sandbox.host.files.system_calls import LINUX, SystemCalls
from agentforge_sessions.sandbox.workspaces.quota import Quota, Room, UsageCounter
from agentforge_sessions.sandbox.workspaces.workspace import ChangeLedger
from tests.support.host_calls import WithoutOpenat2

AMPLE = Quota(workspace_bytes=1 << 30, workspace_files=10_000, file_bytes=1 << 28)


@contextmanager
def served(
    directory: Path,
    quota: Quota = AMPLE,
    *,
    hides: bool = True,
    writable: bool = True,
    openat2: bool = True,
    syncs: bool = False,
    calls: SystemCalls | None = None,
) -> Iterator[HostTree]:
    """A directory of the host, served."""
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    counter = UsageCounter()
    counter.begin(root)
    tree = HostTree(
        root,
        QuotaMeter(Room(root, quota, counter)),
        ChangeLedger(),
        hides=hides,
        writable=writable,
        syncs=syncs,
        calls=calls or (LINUX if openat2 else WithoutOpenat2()),
    )
    try:
        yield tree
    finally:
        tree.close()
        os.close(root)


@contextmanager
def in_memory(directory: Path, quota: Quota = AMPLE) -> Iterator[MemoryTree]:
    """A directory in memory that holds as much as a workspace under the same quota."""
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    counter = UsageCounter()
    counter.begin(root)
    apart = quota
    if quota.temporary_bytes is None:
        apart = quota._replace(
            temporary_bytes=quota.workspace_bytes, temporary_files=quota.workspace_files
        )
    try:
        yield MemoryTree(QuotaMeter(Room(root, apart, counter), temporary=True))
    finally:
        os.close(root)
