"""How full a workspace is, as far as a process knows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentforge_sessions.sandbox.workspaces.quota import (
    SpaceUsed,
    UsageCounter,
    forget_usage,
    usage_counter,
)
from agentforge_sessions.sandbox.workspaces.workspace import open_workspace

LIMIT = SpaceUsed(bytes=1000, entries=100)


def test_a_counter_is_one_for_a_directory_and_remembers(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(10))
    root = open_workspace(tmp_path)
    seen = os.fstat(root)
    counter = usage_counter((seen.st_dev, seen.st_ino))
    counter.begin(root)
    assert counter.known(root, LIMIT) == SpaceUsed(bytes=10, entries=1)
    (tmp_path / "b").write_bytes(bytes(5))
    counter.add(5, 1)
    counter.end(root)
    again = usage_counter((seen.st_dev, seen.st_ino))
    assert again is counter
    again.begin(root)
    assert again.known(root, LIMIT) == SpaceUsed(bytes=15, entries=2)
    assert again.counts == 1
    forget_usage(tmp_path)
    assert usage_counter((seen.st_dev, seen.st_ino)) is not counter
    forget_usage(tmp_path / "gone")
    os.close(root)


def test_an_execution_of_another_process_has_the_usage_counted_again(tmp_path: Path) -> None:
    root = open_workspace(tmp_path)
    ours, theirs = UsageCounter(), UsageCounter()
    ours.begin(root)
    ours.known(root, LIMIT)
    ours.add(0, 0)
    ours.end(root)
    theirs.begin(root)
    (tmp_path / "theirs").write_bytes(bytes(7))
    theirs.add(7, 1)
    theirs.end(root)
    ours.begin(root)
    assert ours.known(root, LIMIT) == SpaceUsed(bytes=7, entries=1)
    os.close(root)


def test_an_execution_that_was_killed_has_the_usage_counted_again(tmp_path: Path) -> None:
    root = open_workspace(tmp_path)
    ours, theirs = UsageCounter(), UsageCounter()
    ours.begin(root)
    ours.known(root, LIMIT)
    ours.add(0, 0)
    ours.end(root)
    theirs.begin(root)
    theirs.known(root, LIMIT)  # asked before anything grows; then the process is killed
    (tmp_path / "theirs").write_bytes(bytes(7))
    ours.begin(root)
    assert ours.known(root, LIMIT) == SpaceUsed(bytes=7, entries=1)
    os.close(root)


def test_without_attributes_the_usage_is_counted_for_each_execution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr(os, "setxattr", unsupported)
    monkeypatch.setattr(os, "getxattr", unsupported)
    root = open_workspace(tmp_path)
    counter = UsageCounter()
    for count in (1, 2):
        counter.begin(root)
        counter.known(root, LIMIT)
        counter.add(0, 0)
        counter.end(root)
        assert counter.counts == count
    os.close(root)
