"""The command, as far as nothing is served."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.base.errors import ExtraMissing
from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.entrypoints.mcp_server import require_sdk

ROOT = Path(__file__).parents[3]


def test_the_command_line_never_loads_the_sdk() -> None:
    look = (
        "import sys, agentforge_sessions.entrypoints.cli.main;"
        "import agentforge_sessions.entrypoints.mcp_server;"
        "print([name for name in ('mcp', 'pydantic', 'uvicorn', 'anyio') if name in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_without_the_sdk_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ExtraMissing) as caught:
        require_sdk()
    assert caught.value.extra == "mcp"
    assert run(["mcp", "--all"]) == 1
    told = capsys.readouterr().err
    assert "pip install 'agentforge-sessions[mcp]'" in told
    assert "nothing was done" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    "options",
    [
        ["--host", "127.0.0.1"],
        ["--port", "8137"],
        ["--allow-remote"],
        ["--allowed-host", "x"],
        ["--allowed-origin", "http://x"],
        ["--token-file", "x"],
    ],
)
def test_options_of_http_are_refused_without_it(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["mcp", *options]) == 2
    assert "only --http has this" in capsys.readouterr().err


def test_a_port_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "--http", "--port", "70000"]) == 2
    assert "65535" in capsys.readouterr().err


def test_the_server_of_four_tools_loads_no_sdk_and_before_a_call_no_sessions() -> None:
    package = "agentforge_sessions"
    later = (
        *("mcp", "pydantic", "anyio", "asyncio", "structlog", "rich.console"),
        *(f"{package}.{one}" for one in ("harness.session_store", "questions", "wiring", "agents")),
    )
    look = (
        f"import sys, {package}.entrypoints.mcp_server.agent.process as process;"
        f"import {package}.entrypoints.mcp_server.agent.acts;"
        f"print([n for n in {later} if n in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_a_server_of_one_client_loads_what_it_begins_with_and_no_more() -> None:
    later = (
        "agentforge_sessions.sandbox",  # for the first code
        "wasmtime",
        "agentforge_sessions.entrypoints.mcp_server.transports.http",
        "agentforge_sessions.workflows",
    )
    look = (
        "import sys, agentforge_sessions.entrypoints.mcp_server.serving;"
        f"print([n for n in {later} if n in sys.modules])"
    )
    found = subprocess.run(
        [sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
