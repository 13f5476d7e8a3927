"""Globs of paths: one mechanism for every list of files that a person names."""

from __future__ import annotations

import pytest

from agentforge_sessions.base.text.path_pattern import (
    component_matcher,
    is_exact,
    matches,
    names_any,
)


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
        ("src/**", "src", False),
        ("**", "a", True),
        ("**/**", "a", True),
        ("a/**/**/b", "a/b", True),
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


def test_a_pattern_by_its_components_is_the_same_glob() -> None:
    assert component_matcher(["src", "**"])(["src", "a", "b"])
    assert not component_matcher(["src", "**"])(["src"])
    assert component_matcher([r"\*.py"])(["*.py"])


def test_any_of_several_globs_suffices() -> None:
    assert names_any(["*.md", "*.py"], "a.py")
    assert not names_any(["*.md"], "a.py")
    assert not names_any([], "a.py")
