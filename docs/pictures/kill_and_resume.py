"""Draws docs/images/run.svg: a real run whose worker is killed, and the next worker going on.

    python docs/pictures/kill_and_resume.py          # runs it, and writes the picture
    python docs/pictures/kill_and_resume.py --check  # runs it; fails where the picture is not true

An agent (a recorded one, so that each run is the same) develops a component, test first. When it
has answered in the second phase, its process is killed; `agentforge resume` goes on with that
answer, which is not asked for again. What stands in the picture is what the commands printed,
but for the id, which is always the same one there, and durations, which are left out.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

ROOT: Final = Path(__file__).resolve().parents[2]
PICTURE: Final = ROOT / "docs" / "images" / "run.svg"
WIDTH: Final = 104
_DEVELOP: Final = (
    *("run", "tdflow", "examples/specs/session-manager.yaml", "-c", "session_domain"),
    *("--agent", "recorded:examples/recordings/session_domain"),
)
_KEPT: Final = ("PATH", "HOME", "XDG_CACHE_HOME", "LANG", "TMPDIR")
_STYLES: Final = {
    r"^\$": "bold green",
    r"\bpassed\b|\bcompleted\b|\bsucceeded\b": "green",
    r"\bfailed\b|^Killed$|\binterrupted\b": "#ff8f8f",  # AA on this ground
    r"^\[\d/\d\]|^(?:ID|STATE|WORKFLOW|PHASE|BUDGET|UPDATED| )+$": "cyan",
}
_KILLED_AT: Final = "[2/4] green: agent answered"
_TRIES: Final = 3
"""A machine that stands still between the line and the kill lets the worker go on by a step."""
_ID: Final = "session_20260301_091500_482913"
_LABEL: Final = "agentforge: a worker is killed, and the next one goes on"
# What rich makes, without the fonts that it would have a page fetch from elsewhere.
_FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg"
  role="img" aria-label="LABEL">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def recorded_run() -> str:
    """Run the commands, and return what they printed."""
    with tempfile.TemporaryDirectory(prefix="agentforge-picture-") as folder:
        base = Path(folder) / "sessions"
        told = [_prompt("agentforge run tdflow session-manager.yaml --agent …")]
        told += _until(base, _DEVELOP, killed_at=lambda line: _KILLED_AT in line)
        told += ["Killed", ""]
        told += [_prompt("agentforge list"), *_until(base, ["list"]), ""]
        session = next(base.glob("session_*")).name
        told += [_prompt(f"agentforge resume {session[-6:]}")]
        told += _until(base, ["resume", session])
    return _made_equal("\n".join(told), session)


def _prompt(command: str) -> str:
    return f"$ {command}"


def _until(
    base: Path, words: Sequence[str], *, killed_at: Callable[[str], bool] = lambda _: False
) -> list[str]:
    """Run a command to its end; or kill it, with all that it started, at a line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agentforge_sessions.entrypoints.cli", "--base", str(base), *words],
        cwd=ROOT,
        env={
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            "XDG_STATE_HOME": str(base.parent / "state"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )
    lines: list[str] = []
    with process:
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if killed_at(line):
                os.killpg(process.pid, signal.SIGKILL)
                process.stdout.read()  # to its end: then none that had it is left
                break
    return lines


def _made_equal(text: str, session: str) -> str:
    """Leave out what is another at each run."""
    text = text.replace(session[-6:], _ID[-6:]).replace(session[:-6], _ID[:-6])
    text = re.sub(r"\S*/sessions/(?=session_)", ".agentforge/sessions/", text)
    text = re.sub(r"--base \S+ ", "", text)
    text = re.sub(r"\b\d+ (?:s|min) ago", "just now", text)
    return re.sub(r" \(\d+\.\d\d s\)", "", text) + "\n "


def picture_of(text: str, label: str = _LABEL, unique_id: str = "run") -> str:
    """Return a terminal with a text as SVG."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    for line in text.splitlines():
        shown = Text(line, style="bold" if line.startswith("$ ") else "")
        for pattern, style in _STYLES.items():
            shown.highlight_regex(pattern, style)
        console.print(shown, no_wrap=True, crop=True)
    form = _FORMAT.replace("LABEL", label)
    drawn = console.export_svg(title="agentforge", code_format=form, unique_id=unique_id)
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


def main() -> int:
    """Write the picture, or say whether it is true."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true")
    if not arguments.parse_args().check:
        PICTURE.write_text(picture_of(recorded_run()), encoding="utf-8")
        return 0
    wanted = PICTURE.read_text(encoding="utf-8")
    for _ in range(_TRIES):
        drawn = picture_of(recorded_run())
        if drawn == wanted:
            return 0
    differing = difflib.unified_diff(wanted.splitlines(), drawn.splitlines(), lineterm="", n=0)
    sys.stderr.write("".join(f"{line}\n" for line in differing))
    return 1


if __name__ == "__main__":
    sys.exit(main())
