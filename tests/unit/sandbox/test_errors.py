"""What the errors say."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.sandbox import errors as errors_module


@pytest.mark.parametrize(
    "error",
    [
        errors_module.WorkspaceBusy(Path("/w"), 1.5, "another process"),
        errors_module.InputFileError("a/b", "no space", ["x"]),
        errors_module.SandboxClosed(Path("/w")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_says_what_was_kept_and_what_to_do(error: Exception) -> None:
    assert isinstance(error, errors_module.SandboxError)
    assert "No code ran" in str(error)
    assert ";" in str(error)
