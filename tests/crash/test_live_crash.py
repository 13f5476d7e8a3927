"""The process that saves a program's snapshot is killed: the file is the old one or the new one."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.sandbox.live.snapshot_file import ProgramSnapshot
from tests.crash._nursery import Nursery
from tests.support.made_snapshots import description_of, made, small_template


@pytest.mark.parametrize("first", [True, False], ids=["the first save", "a later save"])
def test_a_save_killed_at_any_call_leaves_the_old_file_or_the_new(
    nursery: Nursery, tmp_path: Path, first: bool
) -> None:
    template = small_template()
    old, new = (
        made(template, {**description_of(template), "said": {"sequence": number}})
        for number in (1, 2)
    )
    source = tmp_path / "new"
    source.write_bytes(new)

    def save(folder: Path, **at: Any) -> tuple[int, list[dict[str, Any]]]:
        folder.mkdir()
        place = folder / "state.aflive"
        if not first:
            ProgramSnapshot(old).save(place)
        options: dict[str, Any] = {"last": None, **at}
        child = nursery.start("save_snapshot", place=str(place), source=str(source), **options)
        return nursery.wait(child), nursery.heard()

    code, [whole] = save(tmp_path / "whole")
    assert (code, "failed" in whole) == (0, False), whole
    calls = whole["calls"]
    assert {"open", "writev", "fsync", "rename"} <= set(calls)
    found = set()
    for last, name in enumerate(calls, start=1):
        for moment in ("before", "in", "after") if name == "writev" else ("before", "after"):
            folder = tmp_path / f"{last}-{moment}"
            code, said = save(folder, last=last, moment=moment)
            assert (code, said) == (-signal.SIGKILL, []), (moment, name)
            kept = ProgramSnapshot.load(folder / "state.aflive")
            assert kept is not None or first
            found.add(None if kept is None else bytes(kept))
            ProgramSnapshot(new).save(folder / "state.aflive")  # the next save is not hindered
            assert (folder / "state.aflive").read_bytes() == new
            left = [each for each in os.listdir(folder) if each != "state.aflive"]
            assert len(left) <= 1, left
    assert found == {None if first else old, new}
