"""The maintenance script of docs/operations.md, as a timer runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agentforge_sessions.sandbox.session_workspaces.session_metadata import (
    SessionMetadata,
    encode_metadata,
)

ROOT = Path(__file__).resolve().parents[2]


def workspace(root: Path, *, days: float) -> str:
    session_id = str(uuid.uuid4())
    directory = root / session_id
    directory.mkdir(parents=True)
    at = datetime.now(UTC) - timedelta(days=days)
    described = SessionMetadata(session_id=session_id, created_at=at, updated_at=at)
    (directory / ".metadata.json").write_bytes(encode_metadata(described))
    (directory / "data").write_text("x" * 100)
    return session_id


def maintain(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    script = ROOT / "examples" / "maintenance.py"
    return subprocess.run(
        [sys.executable, str(script), "--archive", "archive", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_directory_that_is_refused_keeps_no_other_from_being_cleaned_up(tmp_path: Path) -> None:
    done = maintain(tmp_path)
    assert done.returncode == 1
    assert done.stdout.endswith("0 agent sessions that ended long ago\n")
    assert len(done.stderr.splitlines()) == 2
    assert "there is no directory workspace" in done.stderr


def test_the_maintenance_script_leaves_what_was_used_lately_however_full_the_disk_is(
    tmp_path: Path,
) -> None:
    lately, used = (workspace(tmp_path / "workspace", days=days) for days in (0.001, 2))
    done = maintain(tmp_path, "--keep-last", "0")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "workspace" / lately).is_dir()
    assert not (tmp_path / "workspace" / used).exists()
    assert "more than 0" in done.stdout


def test_the_maintenance_script_archives_what_is_older_than_a_week(tmp_path: Path) -> None:
    old, young = (workspace(tmp_path / "workspace", days=days) for days in (8, 6))
    done = maintain(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Deleted 1 session" in done.stdout
    assert (tmp_path / "workspace" / young).is_dir()
    assert not (tmp_path / "workspace" / old).exists()
    kept = sorted(path.name for path in (tmp_path / "archive").iterdir())
    assert [name.endswith(".tar.zst") for name in kept] == [True, False]
    assert old in kept[0]
    checked = subprocess.run(
        ["sha256sum", "-c", kept[1]], cwd=tmp_path / "archive", capture_output=True, check=False
    )
    assert checked.returncode == 0
