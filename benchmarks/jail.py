"""How long a jail takes to start: `true` in it, against bubblewrap's own and the spawn itself.

python -m benchmarks.jail [--quick] [--json] [--check]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from agentforge_sessions.jail import Jail, JailLimits, JailUnavailable
from agentforge_sessions.jail.bubblewrap import filter_program, find_bubblewrap, in_memory
from agentforge_sessions.jail.command_line import (
    SYSTEM_FILES,
    GivenFile,
    JailPlan,
    bubblewrap_arguments,
)
from agentforge_sessions.jail.walls.kept_etc import kept_etc
from agentforge_sessions.jail.walls.system_folders import system_view
from benchmarks.measure import Candidate, compare

TARGET = 1.7
"""The most that a jail may take, in times of `bwrap --unshare-all true`."""
YARDSTICK = "bwrap --unshare-all true"


def _command(words: Sequence[str]) -> Candidate:
    return Candidate(lambda: subprocess.run(words, check=True, stdin=subprocess.DEVNULL))


def _line(program: str, workspace: Path) -> Candidate:
    """Return bubblewrap with all that it mounts for a jail, without what waits and watches."""
    view = system_view()
    system = {**view.copies, **SYSTEM_FILES}
    etc = kept_etc(view, system)
    files = system.items() if etc is None else ()

    def run() -> None:
        with ExitStack() as held:

            def opened(fd: int) -> int:
                held.callback(os.close, fd)
                fds.append(fd)
                return fd

            fds: list[int] = []
            limits = JailLimits()
            plan = JailPlan(
                view=view,
                etc=None if etc is None else str(etc),
                read=(),
                workspace=str(workspace),
                mounts=(),
                files=tuple(
                    GivenFile(fd=opened(in_memory("system", content)), target=target)
                    for target, content in files
                ),
                environment={"PATH": "/usr/bin:/bin"},
                scratch_bytes=limits.scratch_bytes,
                network=False,
                seccomp_fd=opened(in_memory("seccomp", filter_program())),
                status_fd=opened(os.open(os.devnull, os.O_WRONLY)),
                block_fd=opened(os.open(os.devnull, os.O_RDONLY)),
            )
            words = [program, *bubblewrap_arguments(plan), "--", "true"]
            subprocess.run(words, check=True, stdin=subprocess.DEVNULL, pass_fds=fds)

    return Candidate(run)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20 rounds instead of 100")
    parser.add_argument("--json", action="store_true", help="write JSON")
    parser.add_argument("--check", action="store_true", help="exit code 1 if the target is missed")
    given = parser.parse_args()
    try:
        program = str(find_bubblewrap())
        watched, grouped = Jail(control_groups=False), Jail()
        grouped.check()
    except JailUnavailable as error:
        print(f"not measured: {error}")
        return 1 if given.check else 0
    bare = [program, "--ro-bind", "/", "/", "--", "true"]
    unshared = [program, "--unshare-all", *bare[1:]]
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        results = compare(
            {
                "spawn of true": _command(["true"]),
                "bwrap true": _command(bare),
                YARDSTICK: _command(unshared),
                "bwrap, the jail's line": _line(program, workspace),
                "jail, watched": Candidate(lambda: watched.run(["true"], workspace=workspace)),
                "jail": Candidate(lambda: grouped.run(["true"], workspace=workspace)),
            },
            rounds=20 if given.quick else 100,
            budget_s=60,
        )
    base = results[YARDSTICK].percentile(50)
    rows = {
        name: {
            "p50_ms": round(timed.percentile(50), 2),
            "p99_ms": round(timed.percentile(99), 2),
            "ratio": round(timed.percentile(50) / base, 2),
        }
        for name, timed in results.items()
    }
    if given.json:
        print(json.dumps({"target": TARGET, "rows": rows}, indent=1))
    else:
        for name, row in rows.items():
            print(
                f"{name:28} {row['p50_ms']:8.2f} ms  p99 {row['p99_ms']:8.2f}  {row['ratio']:5.2f}x"
            )
    missed = rows["jail, watched"]["ratio"] > TARGET
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
