"""Looking for questions whose asker was killed hinders no server."""

from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs

from agentforge_sessions.entrypoints.mcp_server.question_forms import withdraw_abandoned
from agentforge_sessions.questions import QuestionSessions


def test_a_directory_that_is_missing_or_unusable_hinders_nobody(tmp_path: Path) -> None:
    withdraw_abandoned(QuestionSessions(tmp_path / "none"))
    (tmp_path / "file").write_text("")
    with capture_logs() as logs:
        withdraw_abandoned(QuestionSessions(tmp_path / "file"))
    assert [one["event"] for one in logs] == ["mcp.orphans_not_looked_for"]
