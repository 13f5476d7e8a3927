"""Several prunes of one root at once, each a process: all end well, and every session goes once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.prune_sites import metadata, uuid_of, write_files

ROOT = Path(__file__).parents[2]
PRUNES = 4
SESSIONS = 400
LIMIT_S = 120


def test_prunes_at_once_end_well_and_share_the_work(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    old = datetime.now(UTC) - timedelta(hours=99)
    names = [uuid_of(number) for number in range(SESSIONS)]
    for name in names:
        files = {".metadata.json": metadata(name, old), "a/data": b"x", "b/data": b"y"}
        write_files(root / name, files)
    command = (sys.executable, "-m", "agentforge_sessions.entrypoints.cli", "prune")
    words = ("--kind", "sandbox", "--workspace-root", str(root), "--yes", "--json")
    running = [
        subprocess.Popen(
            [*command, *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(PRUNES)
    ]
    ended = [one.communicate(timeout=LIMIT_S) for one in running]
    assert [(one.returncode, err) for one, (_, err) in zip(running, ended, strict=True)] == [
        (0, "")
    ] * PRUNES
    results = [json.loads(out)["kinds"]["sandbox"] for out, _ in ended]
    deleted = Counter(name for one in results for name in one["deleted"])
    assert deleted == Counter(names)
    assert [one["errors"] for one in results] == [{}] * PRUNES
    assert [one["skipped"] for one in results] == [[]] * PRUNES
    assert [name for name in os.listdir(root) if not name.startswith(".")] == []
