"""Draws docs/images/help*.svg: the help of `agentforge` and of each group, as it fits a screen.

python docs/pictures/help_screens.py          # writes the pictures
python docs/pictures/help_screens.py --check  # fails where a picture is not what the program says
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from kill_and_resume import ROOT, picture_of

GROUPS: Final = ("", "session", "questions", "fleet", "sandbox")
_COLUMNS: Final = 100


def pictures() -> dict[Path, str]:
    """Return the pictures by their places."""
    return {
        ROOT / "docs" / "images" / f"help{group and f'-{group}'}.svg": picture_of(
            f"$ agentforge{group and f' {group}'} --help\n{help_of(group)}",
            f"agentforge {group}: its help".replace(" :", ":"),
            f"help{group}",
        )
        for group in GROUPS
    }


def help_of(group: str) -> str:
    """Return the help of a group, or of the program, on a screen of its width."""
    program = [sys.executable, "-m", "agentforge_sessions.entrypoints.cli", *group.split()]
    return subprocess.run(
        [*program, "--help"],
        env={"PATH": os.environ["PATH"], "COLUMNS": str(_COLUMNS), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip("\n")


def main() -> int:
    """Write the pictures, or say whether they are true."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true")
    if not arguments.parse_args().check:
        for place, drawn in pictures().items():
            place.write_text(drawn, encoding="utf-8")
        return 0
    wrong = [place.name for place, drawn in pictures().items() if place.read_text() != drawn]
    sys.stderr.write("".join(f"{name} is not what the program says\n" for name in wrong))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
