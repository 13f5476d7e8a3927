"""Run the official MCP conformance suite against a server of its own: `make conformance`.

The suite is an npm package and needs Node 22, which npm brings along: any Node with an `npx` starts
it. What this server is known to fail stands in `expected-failures.yml`; any other failure is an
error.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

SUITE = (
    *("npx", "--yes", "--package", "node@22.23.3"),
    *("--package", "@modelcontextprotocol/conformance@0.1.16", "--", "conformance"),
)
BASELINE = Path(__file__).with_name("expected-failures.yml")


def main(suite: list[str]) -> int:
    """Run the suite, given by the command that starts it, and return its exit code."""
    server = [sys.executable, "-m", "agentforge_sessions.entrypoints.cli", "mcp", "--all"]
    with (
        tempfile.TemporaryDirectory() as place,
        subprocess.Popen(
            [*server, "--http", "--port", "0", "--json"], cwd=place, stdout=subprocess.PIPE
        ) as process,
    ):
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["url"]
            options = ["server", "--url", url, "--expected-failures", str(BASELINE)]
            return subprocess.run([*suite, *options], cwd=place, check=False).returncode
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(SUITE)))
