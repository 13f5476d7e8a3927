"""The code of the README runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionContext, SessionStore
from agentforge_sessions.sandbox import prepare

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

README = Path(__file__).resolve().parents[2] / "README.md"
FIRST, SECOND = re.findall(
    r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


def run(code: str, **names: object) -> dict[str, object]:
    exec(compile(code, "README.md", "exec", dont_inherit=True), names)
    return names


def test_a_session_is_begun_and_another_process_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare()
    monkeypatch.chdir(tmp_path)

    session = run(FIRST)["session"]
    assert isinstance(session, SessionContext)
    again = FIRST.splitlines()[0] + "\n" + SECOND.replace("    ...\n", "    manager.complete()\n")
    run(again, session_id=session.session_id)

    assert "Goal: An interval scheduler" in capsys.readouterr().out
    found = SessionStore().load(session.session_id)
    assert found is not None
    assert [entry.action for entry in found.history] == [
        *("session_created", "phase_succeeded", "phase_advanced", "session_completed"),
    ]
