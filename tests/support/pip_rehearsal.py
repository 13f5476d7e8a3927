"""`pip install` of the documents: each requirement of ours names extras that the project has."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Return whether pip would know what it is asked to install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    there = set(project["optional-dependencies"])
    command, *words = sys.argv[1:]
    for word in words:
        found = re.fullmatch(r"(?:agentforge-sessions|\.)(?:\[([\w,-]+)\])?", word)
        extras = set(found[1].split(",")) if found and found[1] else set()
        if not word.startswith("-") and (found is None or extras - there):
            sys.stderr.write(f"no such requirement: {word}\n")
            return 1
    return 0 if command == "install" and words else 2


if __name__ == "__main__":
    sys.exit(main())
