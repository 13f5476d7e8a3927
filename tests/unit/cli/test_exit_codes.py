from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.base.errors import AgentForgeError, ErrorKind
from agentforge_sessions.base.files import ReadError
from agentforge_sessions.entrypoints.cli.output.errors import ExitCode, exit_code_of
from agentforge_sessions.harness.disk_errors import SESSION_ERRORS, STORE_ERRORS

HERE = Path("x")


def test_each_kind_of_error_has_a_code_of_its_own() -> None:
    codes = {exit_code_of(of_kind(kind)) for kind in ErrorKind}
    assert len(codes) == len(ErrorKind)
    assert set(ExitCode) - codes == {ExitCode.OK}


def of_kind(kind: ErrorKind) -> AgentForgeError:
    error = AgentForgeError("it happened")
    error.kind = kind
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ReadError(path=HERE, reason="it is not a regular file"), 7),
        (ReadError(path=HERE, cause=OSError(40, "loop")), 7),
        (ReadError(path=HERE, cause=PermissionError(13, "no")), 8),
        (STORE_ERRORS.of(ReadError(path=HERE, reason="it is no file")), 7),
        (STORE_ERRORS.of(ReadError(path=HERE, cause=PermissionError(13, "no"))), 8),
        (SESSION_ERRORS.of(ReadError(path=HERE, reason="it is no file"), "x"), 7),
        (SESSION_ERRORS.of(ReadError(path=HERE, cause=PermissionError(13, "no")), "x"), 8),
        (AgentForgeError("x"), 70),
        (OSError(28, "full"), 8),
        (ZeroDivisionError("x"), 70),
    ],
)
def test_what_an_error_says_of_itself_goes_before_its_class(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code


def test_every_code_has_a_meaning() -> None:
    assert len({code.meaning for code in ExitCode}) == len(ExitCode)
