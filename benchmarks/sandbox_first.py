"""Measure the first result of the sandbox on a machine without caches, with each compiler.

    python -m benchmarks.sandbox_first [--json]

Each compiler has an empty cache and a process of its own, one after the other in the same run. It
takes a minute on two free cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agentforge_sessions.sandbox.compiled.background import BACKGROUND_VARIABLE
from agentforge_sessions.sandbox.interpreters.runtime import CACHE_VARIABLE

COMPILERS = ("baseline", "optimised")
TARGET_S = 20.0

# Fuel is counted by optimised code only, so naming it is what has that compiled first.
PROGRAM = """
import json, resource, statistics, sys, time
from agentforge_sessions.sandbox import create_sandbox
workspace, compiler = sys.argv[1:]
sandbox = create_sandbox(workspace=workspace)
limits = {"fuel": 10**15} if compiler == "optimised" else {}

def seconds(code):
    begun = time.monotonic()
    done = sandbox.execute(code, **limits)
    assert done.success and (done.fuel_consumed is None) == (compiler == "baseline"), done
    return time.monotonic() - begun

first = seconds("print(1)")
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "first_result_s": first,
    "processor_s": used.ru_utime + used.ru_stime,
    "peak_mb": used.ru_maxrss / 1024,
    "print_ms": 1000 * statistics.median(seconds("print(1)") for _ in range(50)),
    "loop_ms": 1000 * statistics.median(
        seconds("x = 0\\nfor i in range(1_000_000): x += i") for _ in range(5)),
    "floats_ms": 1000 * statistics.median(
        seconds("import math\\nfor i in range(200_000): math.sin(i) * math.sqrt(i)")
        for _ in range(5)),
}))
"""


def measured(compiler: str) -> dict[str, Any]:
    """Run both processes of a compiler: the one that finds nothing, and the next."""
    with tempfile.TemporaryDirectory() as directory:
        cache = Path(directory) / "cache"
        cache.mkdir(mode=0o700)
        environment = {**os.environ, CACHE_VARIABLE: str(cache), BACKGROUND_VARIABLE: "0"}
        found: list[dict[str, Any]] = []
        for _ in range(2):
            begun = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, f"{directory}/w", compiler],
                env=environment,
                stdout=subprocess.PIPE,
                check=True,
            )
            found.append({**json.loads(done.stdout), "process_s": time.monotonic() - begun})
        (file,) = cache.glob("*.cwasm")
        next_s = found[1]["first_result_s"]
        return {**found[0], "next_process_s": next_s, "file_mb": file.stat().st_size / 1e6}


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = {compiler: measured(compiler) for compiler in COMPILERS}
    if options.json:
        print(json.dumps(rows))
    else:
        print(f"{'':<18}" + "".join(f"{compiler:>12}" for compiler in COMPILERS))
        for name in rows["baseline"]:
            print(f"{name:<18}" + "".join(f"{rows[one][name]:>12.4g}" for one in COMPILERS))
    return int(rows["baseline"]["first_result_s"] > TARGET_S)


if __name__ == "__main__":
    sys.exit(main())
