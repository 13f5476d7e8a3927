"""The power fails right after an acknowledgement: what was acknowledged is on the disk.

The sessions are on an ext4 in a file. At each acknowledgement the file is copied as it is, without
a sync of the file system: what only the page cache has is not in it. The copy is mounted, which
replays its journal as after a power failure, and judged.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionCorrupted, SessionStore
from tests.crash import _story
from tests.support.mounts import image_of, mounted_file, mounted_image
from tests.support.soak import SOAKING

ROOT = Path(__file__).resolve().parents[2]
CHANGES = 64 if SOAKING else 4
"""Of four, the first is a first save, the second another one, the fourth deletes the session."""
NOTHING_BY_ITSELF = "loop,commit=3600"
"""The journal is not committed by time, so that only a sync does it."""

pytestmark = pytest.mark.timeout(900 if SOAKING else 180)


def acknowledgements(base: Path, changes: int, sync: str) -> Iterator[tuple[str, int]]:
    """Let a process change sessions; it stands still while an acknowledgement is looked at."""
    command = [sys.executable, "-m", "tests.crash._acknowledging", str(base), str(changes), sync]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for line in process.stdout:
                told = json.loads(line)
                yield told["id"], told["revision"]
                process.stdin.write("\n")
                process.stdin.flush()
        except BaseException:
            process.kill()
            raise
    assert process.returncode == 0


def losses(base: Path, acknowledged: dict[str, int]) -> list[str]:
    """Compare what is there with what was acknowledged."""
    store = SessionStore(base)
    lost = []
    for session_id, revision in acknowledged.items():
        try:
            session = store.load(session_id) if base.is_dir() else None
        except SessionCorrupted as error:
            lost.append(str(error))
            continue
        found = session.revision if session is not None else 0
        if found != revision:
            lost.append(f"{session_id}: revision {revision} was acknowledged, {found} is there")
        elif session is not None:
            lost += _story.problems(session)
    return lost


def lost_in_power_cuts(tmp_path: Path, sync: str) -> list[list[str]]:
    """Cut the power after each acknowledgement; return what each of the cuts lost."""
    acknowledged: dict[str, int] = {}
    found = []
    options = ("-E", "lazy_itable_init=0,lazy_journal_init=0")
    with mounted_image(
        tmp_path / "disk", "ext4", 16, *options, mount_options=NOTHING_BY_ITSELF
    ) as disk:
        for session_id, revision in acknowledgements(disk / "sessions", CHANGES, sync):
            acknowledged[session_id] = revision
            # A file of its own: the kernel may let go of the last one's loop device only later, and
            # would then mount what that device remembers of it.
            copy = tmp_path / f"copy-{len(found)}.ext4"
            shutil.copyfile(image_of(disk, "ext4"), copy)
            with mounted_file(copy, tmp_path / f"after-{len(found)}", "ext4") as after:
                found.append(losses(after / "sessions", acknowledged))
            copy.unlink()
    return found


def test_a_power_cut_after_an_acknowledgement_loses_nothing(tmp_path: Path) -> None:
    assert lost_in_power_cuts(tmp_path, "as-it-is") == [[]] * CHANGES


def test_without_a_sync_the_same_power_cuts_lose_what_was_acknowledged(tmp_path: Path) -> None:
    """So the cut is one: a file system that left out `fsync` does not pass."""
    found = lost_in_power_cuts(tmp_path, "left-out")
    assert len(found) == CHANGES
    assert any(found)
