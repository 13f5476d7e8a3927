"""The process that serves a guest is killed: its workspace is whole, and the next one goes on.

Killed at every system call under the files of a program on the own host, before it and after it,
and within every write; and between, while interpreters are made what they were. In the quick run,
at some of these places.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from agentforge_sessions.sandbox import prepare
from agentforge_sessions.sandbox.host.files.system_calls import LINUX
from agentforge_sessions.sandbox.interpreters.process_pool import configure_pool, pool_stats
from agentforge_sessions.sandbox.workspaces.quota import (
    SpaceUsed,
    UsageCounter,
    usage_counter,
)
from agentforge_sessions.sandbox.workspaces.workspace import open_workspace
from agentforge_sessions.sandbox.workspaces.workspace_tree import measure_tree
from tests.crash._guest_tasks import POLICY
from tests.crash._nursery import Nursery
from tests.support.own_sandboxes import sandbox_with
from tests.support.soak import SOAKING

# The first test of a machine compiles the interpreter, which takes minutes.
pytestmark = pytest.mark.timeout(3600)

KILLED: Final = -signal.SIGKILL
STEP: Final = 1 if SOAKING else 70
"""Of the places to be killed at, one in so many."""

KILLS: Final = 60 if SOAKING else 1
LIMIT: Final = SpaceUsed(bytes=4 << 20, entries=200)

OLD, NEW, OUTSIDE = "old " * 2000, "new " * 5000, "elsewhere " * 2000
PROGRAM = f"""
import os, shutil
def write(name, text):
    with open(name, 'w') as file: file.write(text)
write('plain', {NEW!r})
write('saved.new', {NEW!r})
os.replace('saved.new', 'saved')
shutil.rmtree('made', ignore_errors=True)
os.makedirs('made/deep')
write('made/deep/file', {NEW!r})
os.rename('made/deep', 'made/moved')
with open('grown', 'a') as file: file.write({NEW!r})
with open('grown', 'r+') as file: file.truncate(4000)
with open('twin', 'r+') as file: file.write('E')
shutil.rmtree('old', ignore_errors=True)  # it may have been killed right after that
os.mkdir('old')
write('old/file', {OLD!r})
print('done')
"""
ALLOWED: Final = {
    "kept": {OLD},
    ".metadata.json": {"the host's own"},
    "saved": {OLD, NEW},
    "old/file": {OLD},
    "twin": {OUTSIDE, "E" + OUTSIDE[1:]},
}
"""What files may hold whenever the process was killed; a program's own may be cut short."""

OF_THE_PROGRAM: Final = {"plain", "saved.new", "made/deep/file", "made/moved/file", "grown"}


@pytest.fixture(autouse=True)
def _no_pool() -> Iterator[None]:
    """This process opens nothing ahead."""
    prepare()
    before = pool_stats().size
    configure_pool(0)
    yield
    configure_pool(before)


def build(top: Path) -> Path:
    """A workspace with files of its own, and one that has another name outside."""
    workspace = top / "w"
    workspace.mkdir(parents=True)
    (top / "outside").write_text(OUTSIDE)
    os.link(top / "outside", workspace / "twin")
    (workspace / "old").mkdir()
    for name in ("kept", "saved", "old/file"):
        (workspace / name).write_text(OLD)
    (workspace / ".metadata.json").write_text("the host's own")
    return workspace


def files(workspace: Path) -> dict[str, str]:
    return {
        str(path.relative_to(workspace)): path.read_text()
        for path in workspace.rglob("*")
        if path.is_file()
    }


def points(calls: list[str]) -> Iterator[tuple[int, str]]:
    """Places between, and within, the calls."""
    places = [
        (number, moment)
        for number, name in enumerate(calls, start=1)
        for moment in (("before", "in", "after") if name == "pwritev" else ("before", "after"))
    ]
    yield from places[STEP // 2 :: STEP]


def check_whole(workspace: Path, where: str) -> None:
    """Nothing is lost that the program did not mean to change, and nothing strange is there."""
    found = files(workspace)
    assert found[".metadata.json"] == "the host's own", where
    assert (workspace.parent / "outside").read_text() == OUTSIDE, where
    assert found["kept"] == OLD, where
    for name, text in found.items():
        if name in ALLOWED:
            cut = name == "old/file" and OLD.startswith(text)
            assert text in ALLOWED[name] or cut, (where, name)
        elif name.startswith(".agentforge-copy-"):
            assert OUTSIDE.startswith(text), where
        else:
            assert name in OF_THE_PROGRAM, (where, name)
            assert NEW.startswith(text), (where, name)
    assert {"kept", "saved", "twin"} <= set(found), where


def test_a_workspace_is_whole_wherever_the_process_that_serves_it_is_killed(
    nursery: Nursery, tmp_path: Path
) -> None:
    def run(workspace: Path, **at: Any) -> tuple[int, list[dict[str, Any]]]:
        options: dict[str, Any] = {"last": None, **at}
        child = nursery.start("run_guest", workspace=str(workspace), program=PROGRAM, **options)
        code = nursery.wait(child)
        return code, nursery.heard()

    code, [whole] = run(build(tmp_path / "whole"))
    assert (code, whole["stdout"]) == (0, "done\n"), whole
    assert whole["counted"] == whole["held"]
    usual = files(tmp_path / "whole" / "w")
    assert {"pwritev", "rename", "ftruncate", "sendfile", "mkdir", "rmdir"} <= set(whole["calls"])

    kills = 0
    for last, moment in points(whole["calls"]):
        top = tmp_path / f"{last}-{moment}"
        workspace = build(top)
        where = f"killed {moment} call {last} of {len(whole['calls'])}, {whole['calls'][last - 1]}"
        root = open_workspace(workspace)
        known = UsageCounter()  # what a process knows that executed here before
        known.begin(root)
        known.known(root, LIMIT)
        known.add(0, 0)
        known.end(root)

        code, told = run(workspace, last=last, moment=moment)
        assert (code, told) == (KILLED, []), where
        check_whole(workspace, where)
        known.begin(root)
        usage = known.known(root, LIMIT)
        size, entries = measure_tree(root, max_entries=LIMIT.entries)
        assert usage.bytes >= size, where  # what only shrank is found when there is no room
        assert usage.entries >= entries, where
        os.close(root)

        again = sandbox_with(LINUX, workspace, POLICY).execute(PROGRAM)
        assert again.stdout == "done\n", (where, again)
        root = open_workspace(workspace)
        seen = os.fstat(root)
        usage_again = usage_counter((seen.st_dev, seen.st_ino))._usage
        assert usage_again is not None
        held = measure_tree(root, max_entries=LIMIT.entries)
        assert (usage_again.bytes, usage_again.entries) == held, where
        os.close(root)
        found = files(workspace)
        found.pop("saved.new", None)
        grown = found.pop("grown")
        assert found == {name: text for name, text in usual.items() if name != "grown"}, where
        assert NEW.startswith(grown[:4000]), where
        kills += 1
    print(f"{kills} kills at {len(whole['calls'])} system calls")


def test_a_process_killed_while_interpreters_are_made_ready_leaves_nothing(
    nursery: Nursery, tmp_path: Path
) -> None:
    chance = random.Random(7)
    workspace = tmp_path / "w"
    workspace.mkdir()
    (workspace / ".metadata.json").write_text("the host's own")
    for _ in range(KILLS):
        child = nursery.start("run_guests_for_ever", workspace=str(workspace))
        done = -1
        wanted = chance.randrange(3, 12)
        while done < wanted:
            for told in nursery.heard():
                assert "failed" not in told, told
                done = told["done"]
            time.sleep(0.001)
        nursery.kill(child)
        assert nursery.wait(child) == KILLED
        nursery.heard()
        found = files(workspace)
        assert found.pop(".metadata.json") == "the host's own"
        assert found.pop("log") in {f"{number:06} " * 1000 for number in range(done - 1, 1000)}
        assert set(found) <= {"log.new", *map(str, range(10))}
    assert sorted(os.listdir(tmp_path)) == ["w"]
