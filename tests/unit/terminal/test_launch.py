from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.entrypoints.terminal import (
    drafts_directory,
)
from agentforge_sessions.questions import QuestionSessions

ROOT = Path(__file__).parents[3]


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def at_terminal(code: str) -> tuple[int, str]:
    """Run code at a terminal of its own; return its exit code and what it said there."""
    ours, theirs = os.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        said = b""
        with suppress(OSError):  # its end closes the terminal
            while part := os.read(ours, 4096):
                said += part
        return process.wait(), " ".join(said.decode().split())
    finally:
        os.close(ours)


def test_the_command_line_and_the_package_load_no_textual() -> None:
    done = python(
        "import sys, agentforge_sessions.entrypoints.cli.main\n"
        "import agentforge_sessions.entrypoints.terminal\n"
        "print([name for name in sys.modules if name.split('.')[0] in"
        " {'textual', 'markdown_it'}])"
    )
    assert done.stdout == "[]\n", done.stderr


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    arguments = ["questions", "--questions", str(tmp_path / "questions")]
    code = (
        "import sys; sys.modules['textual'] = None\n"
        f"from agentforge_sessions.entrypoints.cli.main import run; sys.exit(run({arguments!r}))"
    )
    status, told = at_terminal(code)
    assert status == 1
    assert "error: `agentforge questions` needs Textual" in told
    assert "pip install 'agentforge-sessions[terminal]'" in told
    assert not (tmp_path / "questions").exists()


def test_without_a_terminal_it_says_what_to_do_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["questions", "--questions", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "needs a terminal" in told
    assert "agentforge questions history --json" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--json"], "a terminal writes no JSON"),
        (["--port", "8000"], "No such option"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert run(["questions", "--questions", str(tmp_path), *arguments]) == 2
    captured = capsys.readouterr()
    assert told in captured.out + captured.err


def test_a_session_that_is_not_there_is_told_before_anything_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    QuestionSessions(tmp_path).prepare()
    assert run(["questions", "abcd", "--questions", str(tmp_path)]) == 3
    assert "Session not found: abcd" in capsys.readouterr().err


def test_drafts_are_kept_beside_the_sessions_never_among_them(tmp_path: Path) -> None:
    assert drafts_directory(tmp_path / "questions") == tmp_path / "questions-drafts"
    assert drafts_directory(Path("questions")).is_absolute()
