"""What a guest may fill in its workspace, and beside it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.workspaces.quota import Quota, Room, UsageCounter

QUOTA = Quota(
    workspace_bytes=100, workspace_files=3, file_bytes=90, temporary_bytes=50, temporary_files=2
)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    root = os.open(tmp_path, os.O_RDONLY)
    counter = UsageCounter()
    counter.begin(root)
    yield Room(root, QUOTA, counter)
    os.close(root)


def refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except OSError as error:
        return error.errno == errno.ENOSPC
    return False


def test_what_is_beside_the_workspace_takes_nothing_of_it(room: Room, tmp_path: Path) -> None:
    room.afford(50, 2, temporary=True)
    room.spend(50, 2, temporary=True)
    room.afford(100, 3)
    room.spend(100, 3)
    (tmp_path / "file").write_bytes(bytes(100))
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    assert room.exceeded == ()
    assert refused(lambda: room.afford(1, 0, temporary=True))
    assert refused(lambda: room.afford(0, 1, temporary=True))
    assert room.exceeded == ("temporary_bytes", "temporary_files")
    assert refused(lambda: room.afford(1, 0))
    assert refused(lambda: room.afford(0, 1))
    assert room.exceeded == (
        "temporary_bytes",
        "temporary_files",
        "workspace_bytes",
        "workspace_files",
    )


def test_what_is_held_open_beside_the_workspace_is_promised_there_alone(room: Room) -> None:
    room.promise(40, temporary=True)
    assert refused(lambda: room.afford(11, 0, temporary=True))
    assert not refused(lambda: room.afford(100, 0))
    room.promise(-40, temporary=True)
    assert not refused(lambda: room.afford(50, 0, temporary=True))
