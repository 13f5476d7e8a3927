from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.cli.exit_codes import exit_code_of
from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.entrypoints.loopback import AddressRefused
from agentforge_sessions.entrypoints.terminal import (
    ExtraMissing,
    NoTerminal,
    TerminalFailed,
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


def test_the_command_line_and_the_package_load_no_textual() -> None:
    done = python(
        "import sys, agentforge_sessions.entrypoints.cli.main\n"
        "import agentforge_sessions.entrypoints.terminal\n"
        "print([name for name in sys.modules if name.split('.')[0] in"
        " {'textual', 'textual_serve', 'aiohttp', 'markdown_it'}])"
    )
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(
    ("package", "named", "options", "variables"),
    [
        ("textual", "Textual", [], {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"}),
        ("textual_serve", "textual-serve", ["--web"], {}),
    ],
)
def test_without_the_extra_it_says_what_to_install(
    tmp_path: Path, package: str, named: str, options: list[str], variables: dict[str, str]
) -> None:
    arguments = ["questions", "--questions", str(tmp_path / "questions"), *options]
    done = python(
        f"import sys; sys.modules[{package!r}] = None\n"
        f"from agentforge_sessions.entrypoints.cli.main import run; sys.exit(run({arguments!r}))",
        **variables,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: `agentforge questions` needs {named}")
    assert "pip install 'agentforge-sessions[terminal]'" in done.stderr
    assert not (tmp_path / "questions").exists()


def test_without_a_terminal_it_says_what_to_do_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["questions", "--questions", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "needs a terminal" in told
    assert "agentforge history --json" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--json"], "a terminal writes no JSON"),
        (["--port", "8000"], "add --web"),
        (["--web", "--port", "70000"], "less than or equal to 65535"),
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


def test_a_port_that_is_taken_is_a_json_error_for_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = [
            "questions",
            "--questions",
            str(tmp_path),
            "--web",
            "--port",
            str(port),
            "--json",
        ]
        assert run(arguments) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["type"], error["port"]) == ("AddressRefused", port)


def test_drafts_are_kept_beside_the_sessions_never_among_them(tmp_path: Path) -> None:
    assert drafts_directory(tmp_path / "questions") == tmp_path / "questions-drafts"
    assert drafts_directory(Path("questions")).is_absolute()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ExtraMissing("Textual"), 2),
        (NoTerminal(), 2),
        (AddressRefused("127.0.0.1", 1, OSError(13, "Permission denied")), 2),
        (TerminalFailed(ValueError("x"), drafts=Path("d")), 70),
    ],
)
def test_each_error_leads_to_its_code(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code
