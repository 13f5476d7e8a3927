#!/usr/bin/env python3
"""A feature for a project in a repository, from the first test to the person's checkout; offline.

    python examples/repository/develop.py [FOLDER]

Makes a repository of `project/` in FOLDER (a temporary one by default), has a recorded agent develop
what `specification.yaml` asks for, judged by the project's own tests in a jail, shows the difference,
applies it to the checkout and runs the tests there. Where this machine has no git or makes no jail,
it says so and ends with 0.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = [sys.executable, "-m", "agentforge_sessions.entrypoints.cli"]
TESTS = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
NO_JAIL = 9
AUTHOR = ["-c", "user.name=Example", "-c", "user.email=example@example.org"]


def main(arguments: list[str]) -> int:
    """Run the example; return its exit code."""
    if shutil.which("git") is None:
        print("There is no git here, so the example of a repository is left out.")
        return 0
    if arguments:
        return develop(Path(arguments[0]).absolute())
    with tempfile.TemporaryDirectory(prefix="agentforge-example-") as folder:
        return develop(Path(folder) / "durations")


def develop(checkout: Path) -> int:
    """Make the repository, have the feature developed, and bring it home."""
    shutil.copytree(HERE / "project", checkout)
    (checkout / ".gitignore").write_text(".agentforge/\n__pycache__/\n")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *AUTHOR, *words], cwd=checkout, check=True)
    done = agentforge(
        checkout,
        *("tdflow", HERE / "specification.yaml", "--repo", "."),
        *("--gate", shlex.join(TESTS), "--agent", f"recorded:{HERE / 'recordings'}"),
    )
    if done == NO_JAIL:
        print("No jail can be made here, so the example of a repository is left out.")
        return 0
    if done:
        return done
    listed = agentforge(checkout, "list", "--json", capture=True)
    session_id = json.loads(listed)["sessions"][0]["session_id"]
    for words in (["diff", session_id, "--stat"], ["apply", session_id]):
        done = agentforge(checkout, *words)
        if done:
            return done
    print(f"$ {shlex.join(TESTS)}", flush=True)
    return subprocess.run(TESTS, cwd=checkout, check=False).returncode


def agentforge(checkout: Path, *words: str | Path, capture: bool = False):
    """Run agentforge in the checkout; return its exit code, or what it wrote."""
    command = [*PROGRAM, *map(str, words)]
    if capture:
        return subprocess.run(command, cwd=checkout, check=True, capture_output=True).stdout
    print(f"\n$ agentforge {shlex.join(map(str, words))}", flush=True)
    return subprocess.run(command, cwd=checkout, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
