"""What a command that asks says of a question that it could not take back."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.entrypoints.cli.commands.questions.ask import _withdraw
from agentforge_sessions.entrypoints.cli.context import Cli, CliEnvironment
from agentforge_sessions.entrypoints.cli.output.output import Output
from agentforge_sessions.questions import Option, Question, QuestionSessions, SessionStatus


class FullDisk(OsFileSystem):
    """A file system on which nothing more has room."""

    full = False

    def writev(self, fd: int, pieces: list[bytes]) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().writev(fd, pieces)


@pytest.fixture
def cli() -> Cli:
    return Cli(base=None, output=Output(), verbose=False, outside=CliEnvironment())


def test_a_question_that_was_not_withdrawn_is_named(
    cli: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fs = FullDisk()
    sessions = QuestionSessions(tmp_path, fs=fs)
    options = (Option(label="a"), Option(label="b"))
    session_id = sessions.create_session([Question(prompt="Which?", title="W", options=options)])
    fs.full = True
    _withdraw(cli, sessions, session_id, "the one who asked was terminated")
    said = capsys.readouterr().err
    assert session_id in said
    assert "still waits" in said
    fs.full = False
    assert sessions.get(session_id).status is SessionStatus.PENDING
    _withdraw(cli, sessions, session_id, "the one who asked was terminated")
    _withdraw(cli, sessions, session_id, "the one who asked was terminated")  # it has ended
    assert capsys.readouterr().err == ""
    assert sessions.get(session_id).status is SessionStatus.ABANDONED
