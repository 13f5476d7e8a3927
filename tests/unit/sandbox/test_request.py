"""The arguments of an execution, and what stops one."""

from __future__ import annotations

import threading

import pytest

from agentforge_sessions.base.cancellation import CancelToken
from agentforge_sessions.sandbox.request import relative_path_fault


@pytest.mark.parametrize("path", ["a", "a/b.txt", "..a", ".hidden", "ü\n", "a/.metadata.json"])
def test_a_relative_path_is_fine(path: str) -> None:
    assert relative_path_fault("the path", path) is None


@pytest.mark.parametrize("path", ["a/" * 128 + "a", "/".join(["a" * 200] * 21)])
def test_a_relative_path_may_not_be_long(path: str) -> None:
    assert "longer" in (relative_path_fault("the path", path) or "")


def test_a_token_says_what_it_is() -> None:
    token = CancelToken()
    early, late = threading.Event(), threading.Event()
    with token.watching(early):
        token.cancel()
        assert early.is_set()
    with token.watching(late):
        assert late.is_set()
    assert repr(token) == "CancelToken(cancelled=True)"
