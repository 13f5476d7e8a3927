"""Globs and the rules of a .gitignore."""

from __future__ import annotations

import pytest

from agentforge_sessions.workflows.path_patterns import IgnoreRules, is_exact, matches


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("a.py", "a.py", True),
        ("a.py", "b/a.py", False),
        ("*.py", "a.py", True),
        ("*.py", "b/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "b/c/a.py", True),
        ("src/**", "src/a/b", True),
        ("src/**", "srcs/a", False),
        ("src/", "src/a/b", True),
        ("src/**/test_?.py", "src/x/test_1.py", True),
        ("src/**/test_?.py", "src/test_12.py", False),
        ("[ab].py", "b.py", True),
        ("[!ab].py", "c.py", True),
        ("[!ab].py", "a.py", False),
        ("a[/]b", "a/b", False),
        ("a.py", "axpy", False),
        ("[z-a]", "b", False),
        ("\\*.py", "*.py", True),
        ("\\*.py", "a.py", False),
        ("a\nb", "a\nb", True),
    ],
)
def test_a_glob_names_what_it_says(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


def test_a_glob_without_a_wildcard_is_exact() -> None:
    assert is_exact("src/a.py")
    assert not any(map(is_exact, ("*.py", "a?", "[a]")))


@pytest.mark.parametrize("pattern", ["*" * 200 + "x", "**/" * 60 + "x", "*a" * 30 + "x"])
def test_no_glob_takes_long_to_refuse_a_path(pattern: str) -> None:
    assert not matches(pattern, "a" * 60)


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
