"""The commands and the code of docs/first-day.md run as they stand there, in their order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import prepare
from tests.support.person import persons_folders

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "first-day.md"
BLOCKS = re.findall(
    r"^(?:<!-- ([a-z0-9-]+) -->\n)?```(sh|python)\n(.*?)^```$",
    DOCUMENT.read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
_VARIABLES = "variables-of-the-day"


def shell(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = f"set -eu\n[ -e {_VARIABLES} ] && . ./{_VARIABLES}\n{text}\nset > {_VARIABLES}.new\n"
    script += f"grep -E '^(ID|QUESTION)=' {_VARIABLES}.new > {_VARIABLES} || true\n"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={"PATH": path, "HOME": os.environ["HOME"], "LANG": "C.UTF-8", **persons_folders()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def python(text: str, folder: Path, names: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"{names}\n{text}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_day_goes_as_it_is_told(tmp_path: Path) -> None:
    prepare()
    told: list[str] = []
    for mark, language, text in BLOCKS:
        if mark == "no-test":
            continue
        if language == "python":
            newest = max((tmp_path / ".agentforge" / "sessions").glob("session_*")).name
            told.append(python(text, tmp_path, f"session_id = {newest!r}"))
            continue
        done = shell(text, tmp_path)
        expected = int(mark.rpartition("-")[2]) if mark else 0
        assert done.returncode == expected, f"{text}\n{done.stdout}\n{done.stderr}"
        told.append(done.stdout)

    everything = "\n".join(told)
    assert "[2/2] count: succeeded" in everything
    assert "resume begins the next attempt" in everything
    assert "Goal: “An interval scheduler" in everything
    assert (tmp_path / "story.html").read_text(encoding="utf-8").startswith("<!")


def test_every_block_of_the_day_is_run_but_the_installation() -> None:
    assert [mark for mark, _, _ in BLOCKS].count("no-test") == 1
    assert len(BLOCKS) > 10
