"""Processes that read, change and save the same sessions at once: each change is there once.

Run as a module, this file is these processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Final

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.sessions.session_repository import PostgresSessions
from agentforge_sessions.harness import SessionConflict, SessionContext
from tests.support.soak import SOAKING

ROOT: Final = Path(__file__).resolve().parents[3]
WRITERS, ROUNDS, SESSIONS = (8, 25, 4) if SOAKING else (4, 3, 2)


def write(url: str, writer: int, ids: list[str]) -> int:
    """Add an entry to each session in each round; return how often that was refused."""
    refused = 0
    with Database(url) as database:
        store = PostgresSessions(database)
        for number in range(ROUNDS):
            for session_id in ids:
                while True:
                    session = store.load(session_id)
                    assert session is not None
                    session.add_history("noted", details=f"{writer} {number}")
                    try:
                        store.save(session)
                        break
                    except SessionConflict:
                        refused += 1
    return refused


def fork_all(url: str, ids: list[str]) -> None:
    """Run each writer in a process, and begin with all of them at once."""
    gate, begin = os.pipe()
    pids = []
    for writer in range(WRITERS):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(begin)
                os.read(gate, 1)
                print(write(url, writer, ids), flush=True)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        pids.append(pid)
    os.close(begin)
    for pid in pids:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_what_processes_add_to_the_same_sessions_at_once_is_all_there_once(
    database: Database,
) -> None:
    store = PostgresSessions(database)
    sessions = [SessionContext.create() for _ in range(SESSIONS)]
    for one in sessions:
        store.save(one)
    ids = [one.session_id for one in sessions]
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "tests.crash.fleet.test_racing_processes",
            database.url,
            json.dumps(ids),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    refused = sum(map(int, done.stdout.split()))
    saved = 0
    for session_id in ids:
        found = PostgresSessions(database).load(session_id)
        assert found is not None
        assert found.revision == 1 + WRITERS * ROUNDS
        added = Counter(entry.details for entry in found.history[1:])
        assert set(added.values()) == {1}
        assert len(added) == WRITERS * ROUNDS
        saved += len(added)
    print(f"{saved} of {WRITERS * ROUNDS * SESSIONS} changes, {refused} refusals")
    assert refused > 0 or not SOAKING, "the writers never met"


if __name__ == "__main__":
    fork_all(sys.argv[1], json.loads(sys.argv[2]))
