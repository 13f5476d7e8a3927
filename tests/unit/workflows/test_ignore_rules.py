"""The rules of a .gitignore."""

from __future__ import annotations

import pytest

from agentforge_sessions.base.settings.ignored_files import IgnoreRules


@pytest.mark.parametrize(
    ("rules", "path", "is_directory", "expected"),
    [
        ("*.log", "a/b.log", False, True),
        ("build/", "build", True, True),
        ("build/", "build", False, None),
        ("/only", "only", False, True),
        ("/only", "deep/only", False, None),
        ("a/b", "a/b", False, True),
        ("a/b", "x/a/b", False, None),
        ("*.log\n!keep.log", "keep.log", False, False),
        ("# *.log\n\n", "a.log", False, None),
        ("!", "a", False, None),
        ("/", "a", True, None),
    ],
)
def test_the_last_rule_that_speaks_of_a_path_decides(
    rules: str, path: str, is_directory: bool, expected: bool | None
) -> None:
    assert IgnoreRules(rules).judge(path, is_directory=is_directory) is expected
