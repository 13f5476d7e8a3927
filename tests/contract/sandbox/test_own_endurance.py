"""Many executions on the own host leave nothing behind in the process."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import create_sandbox, prepare
from tests.support.sandbox_hosts import of_the_own_host
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = [pytest.mark.timeout(1800), of_the_own_host]

EXECUTIONS = 10_000 if SOAKING else 300
FAILURES = 1_000 if SOAKING else 60

GOOD = "open('f', 'w').write('x'); import os; os.remove('f'); fd = os.open('/tmp', os.O_RDONLY)"
BAD = [
    "1/0",
    "import os; os._exit(3)",
    "raise SystemExit(2)",
    "open('held', 'w'); bytearray(300 << 20); bytearray(1 << 30)",
]


def held() -> dict[str, int]:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "mappings": len(Path("/proc/self/maps").read_text().splitlines()),
        "resident": int(resident.split()[1]) >> 10,
    }


def test_descriptors_threads_mappings_and_memory_stay_flat(tmp_path: Path) -> None:
    prepare()
    sandbox = create_sandbox(workspace=tmp_path / "w")
    for code in (GOOD, *BAD) * 3:
        sandbox.execute(code)
    before = held()
    for _ in range(EXECUTIONS):
        assert sandbox.execute(GOOD).success
    for i in range(FAILURES):
        assert not sandbox.execute(BAD[i % len(BAD)]).success
    after = held()
    assert after["descriptors"] - before["descriptors"] <= 4
    assert after["threads"] - before["threads"] <= 1
    assert after["mappings"] - before["mappings"] <= 60
    assert after["resident"] - before["resident"] <= 60
