#!/usr/bin/env python3
"""A feature for a real project in a repository, from the first test to the person's checkout.

    python examples/repository/develop.py SDIST.tar.gz [FOLDER]

Makes a repository of a source distribution (`make run` fetches the one that requirements.txt names)
in FOLDER, a temporary one by default; begins it with `agentforge init`; has a recorded agent develop
what `specification.yaml` asks for, judged by the project's own tests in a jail; shows the difference,
applies it to the checkout and runs the tests there. It reaches no network. Where this machine has no
git or makes no jail, it says so and ends with 0.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = [sys.executable, "-m", "agentforge_sessions.entrypoints.cli"]
TESTS = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
NO_JAIL = 9
AUTHOR = ["-c", "user.name=Example", "-c", "user.email=example@example.org"]


def main(arguments: list[str]) -> int:
    """Run the example; return its exit code."""
    if not 1 <= len(arguments) <= 2:
        print("usage: develop.py SDIST.tar.gz [FOLDER]", file=sys.stderr)
        return 2
    if shutil.which("git") is None:
        print("There is no git here, so the example of a repository is left out.")
        return 0
    archive = Path(arguments[0]).absolute()
    if len(arguments) == 2:
        return develop(archive, Path(arguments[1]).absolute())
    with tempfile.TemporaryDirectory(prefix="agentforge-example-") as folder:
        return develop(archive, Path(folder) / "checkout")


def develop(archive: Path, checkout: Path) -> int:
    """Make the repository, have the feature developed, and bring it home."""
    unpack(archive, checkout)
    (checkout / ".gitignore").write_text("__pycache__/\n")
    git(checkout, "init", "-q", "-b", "main")
    if done := agentforge(checkout, "init"):
        return done
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "Begin")
    done = agentforge(
        checkout,
        *("run", "tdflow", HERE / "specification.yaml", "--repo", "."),
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
        if done := agentforge(checkout, *words):
            return done
    print(f"\n$ PYTHONPATH=src {shlex.join(TESTS)}", flush=True)
    environment = {**os.environ, "PYTHONPATH": "src", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(TESTS, cwd=checkout, env=environment, check=False).returncode


def unpack(archive: Path, checkout: Path) -> None:
    """Put what is in an archive into a new folder, without the folder that all of it is in."""
    checkout.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=checkout.parent) as scratch:
        with tarfile.open(archive) as opened:
            opened.extractall(scratch, filter="data")
        (whole,) = Path(scratch).iterdir()
        whole.rename(checkout)


def git(checkout: Path, *words: str) -> None:
    """Run git in the checkout."""
    subprocess.run(["git", *AUTHOR, *words], cwd=checkout, check=True)


def agentforge(checkout: Path, *words: str | Path, capture: bool = False):
    """Run agentforge in the checkout; return its exit code, or what it wrote."""
    command = [*PROGRAM, *map(str, words)]
    if capture:
        return subprocess.run(command, cwd=checkout, check=True, capture_output=True).stdout
    print(f"\n$ agentforge {shlex.join(map(str, words))}", flush=True)
    return subprocess.run(command, cwd=checkout, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
