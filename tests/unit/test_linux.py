"""What needs Linux says so elsewhere, and what does not goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, sysconfig
from agentforge_sessions.entrypoints.cli.main import main
sysconfig.get_config_vars()  # of the Python that runs this
sys.platform = "darwin"
sys.argv = ["agentforge", *sys.argv[1:]]
main()
"""
"""The program as it would find its system on a Mac."""


def on_a_mac(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        cwd=folder,
        env={**os.environ, "AGENTFORGE_BASE": str(folder / "sessions")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_code_is_refused_by_name_and_what_works_is_said(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("print(1)")
    ended = on_a_mac(tmp_path, "sandbox", "exec", "work.py")
    assert ended.returncode == 9, ended
    said = " ".join(ended.stderr.split())
    assert "the sandbox cannot run code: it needs Linux, and this is darwin. No code ran;" in said
    assert "`agentforge do --no-jail` need neither the sandbox nor the jail" in said


def test_doctor_says_that_the_sandbox_needs_linux_and_checks_the_rest(tmp_path: Path) -> None:
    ended = on_a_mac(tmp_path, "doctor", "--json")
    checks = {one["name"]: one for one in json.loads(ended.stdout)["checks"]}
    assert checks["sandbox"]["status"] == "warn", checks["sandbox"]
    assert "it needs Linux, and this is darwin" in checks["sandbox"]["message"]
    assert "sandbox cache" not in checks
    assert checks["durability"]["status"] == "ok"


def test_sessions_are_worked_on(tmp_path: Path) -> None:
    assert on_a_mac(tmp_path, "list").returncode == 0


def test_a_jail_is_refused_by_name(tmp_path: Path) -> None:
    program = (
        "import sys; from agentforge_sessions.jail import Jail; sys.platform = 'darwin'; Jail()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "JailUnavailable: no jail can be made here, not Linux: it needs Linux" in ended.stderr
