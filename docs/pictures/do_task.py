"""Draws docs/images/do.svg: `agentforge do` at a terminal, from the task to the applied result.

    python docs/pictures/do_task.py

The agent is scripted, so that its first try fails the project's own tests and its second passes
them. The picture is what the command printed, but for the frames before the last, the session's
id and how long each step took.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path
from typing import Final

from kill_and_resume import ROOT, WIDTH, picture_of

PICTURE: Final = ROOT / "docs" / "images" / "do.svg"
_TASK: Final = "Add a function mean(prices), 0 for none"
_PROJECT: Final = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.0"\n'
    '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    "src/shop/__init__.py": "def total(prices):\n    return sum(prices)\n",
    "tests/test_shop.py": "from shop import total\n\n\ndef test_total():\n"
    "    assert total([1, 2]) == 3\n",
}
_AGENT: Final = """\
#!/bin/sh
test "$1" = --version && echo "2.1.330 (Claude Code)" && exit
cat > /dev/null
if grep -q mean src/shop/__init__.py; then
  sed -i 's/ len(prices)$/ len(prices) if prices else 0/' src/shop/__init__.py
else
  printf '\\n\\ndef mean(prices):\\n' >> src/shop/__init__.py
  echo '    return total(prices) / len(prices)' >> src/shop/__init__.py
  sed -i 's/import total/import mean, total/' tests/test_shop.py
  printf '\\n\\ndef test_mean():\\n    assert mean([2, 4]) == 3\\n' >> tests/test_shop.py
  printf '    assert mean([]) == 0\\n' >> tests/test_shop.py
fi
echo '{"type": "result", "is_error": false, "result": "Done.",
  "usage": {"input_tokens": 5200, "output_tokens": 310}}' | tr -d '\\n'
"""
_MOVED: Final = re.compile(r"(?:\x1b\[\d*A|\x1b\[2K)+")
_CODE: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def done_task() -> str:
    """Run the command at a terminal, and return what its reader sees at the end."""
    with tempfile.TemporaryDirectory(prefix="agentforge-picture-") as name:
        folder = Path(name)
        checkout, programs = folder / "shop", folder / "bin"
        for path, text in _PROJECT.items():
            (checkout / path).parent.mkdir(parents=True, exist_ok=True)
            (checkout / path).write_text(text)
        programs.mkdir()
        (programs / "claude").write_text(_AGENT)
        (programs / "claude").chmod(0o755)
        author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        for words in (("init", "-q"), ("add", "-A"), (*author, "commit", "-qm", "Begin")):
            subprocess.run(["git", "-C", checkout, *words], check=True)
        environment = {
            "HOME": name,
            "PATH": os.pathsep.join(map(str, (programs, Path(sys.executable).parent, os.defpath))),
            "ANTHROPIC_API_KEY": "none",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "COLUMNS": str(WIDTH),
        }
        shown = at_terminal(["agentforge", "do", _TASK], checkout, environment)
    frames = _MOVED.split(shown)
    remarks = [line for line in frames[0].splitlines() if re.match(r"\w+: ", line)]
    text = "\n".join([f'$ agentforge do "{_TASK}"', *remarks, _CODE.sub("", frames[-1])])
    text = text.replace(str(checkout), "~/shop")
    text = re.sub(r"session_\d+_\d+_\d+", "session_20260301_091500_482913", text)
    text = re.sub(r" +\(\d[\d.]* m?s\)", "", text)
    return re.sub(r"; the agent took .*", ".", text) + "\n "


def at_terminal(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """Run a command at a terminal of its own, and answer yes to what it asks."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
    shown = b""
    answered = False
    while True:
        try:
            read = os.read(terminal, 65536)
        except OSError:  # the terminal's other end is closed
            break
        shown += read
        if b"eep for later" in shown and not answered:
            os.write(terminal, b"y\n")
            answered = True
    os.waitpid(child, 0)
    return shown.decode().replace("\r\n", "\n")


if __name__ == "__main__":
    label = "agentforge do: a task, two tries that the tests judge, and the applied result"
    PICTURE.write_text(picture_of(done_task(), label, "do"), encoding="utf-8")
