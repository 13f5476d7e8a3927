"""An apply that is killed, at whatever instant, can be finished or undone to the byte."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from agentforge_sessions.repository.apply.apply import abort_apply, continue_apply
from agentforge_sessions.repository.apply.apply_errors import NoUnfinishedApply
from tests.support.applying import Site, lay, new_site, seen
from tests.support.mortal_filesystem import Killed, MortalFileSystem
from tests.support.repositories import commit_all
from tests.support.soak import SOAKING

KILLS = 200 if SOAKING else 2
POINTS = None if SOAKING else 6
"""At how many of the calls that change something it is killed; None: at each."""

BEGIN = {
    "a.txt": "1\n2\n3\n",
    "deep/er/gone.txt": "gone\n",
    "turns": "a file\n",
    "becomes/x": "x\n",
    "swaps/x": "x\n",
    "run.sh": "#!/bin/sh\n",
    "link": "-> a.txt",
    **{f"many/{number}": f"{number}\n" for number in range(4)},
}
CHANGE = {
    "a.txt": "1\n2\nthree\n",
    "deep/er/gone.txt": None,
    "turns": None,
    "becomes/x": None,
    "swaps/x": None,
    "new/folder/file": "new\n",
    "link": "-> run.sh",
    **{f"many/{number}": f"changed {number}\n" for number in range(4)},
}


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "commit": {"commit": True, "message": "x"},
    "merge": {"merge": True},
}


@pytest.fixture(scope="module", params=OPTIONS)
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def template(how: str, tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A checkout with work of the person's that has to stay; to merge, one in conflict, too."""
    folder = tmp_path_factory.mktemp("template")
    site = new_site(folder, BEGIN, CHANGE)
    if how == "merge":
        lay(site.top, {"a.txt": "1\n2\nTHREE\n", "many/0": None})
        commit_all(site.top, "meanwhile")
    (site.own / "becomes").rmdir()
    (site.own / "swaps").rmdir()
    lay(site.own, {"turns/inner": "a folder\n", "becomes": "a file\n", "swaps": "-> /etc"})
    (site.own / "run.sh").chmod(0o755)
    site.result = commit_all(site.own, "result")
    lay(site.top, {"staged": "s\n", ".gitignore": "*.o\n", "x.o": "ignored\n"})
    site.git("add", "staged")
    lay(site.top, {"staged": "and edited\n", "untracked/file": "u\n"})
    (site.top / "a.txt").chmod(0o640)
    return site


def copied(template: Site, folder: Path, **services: Any) -> Site:
    """Return a site with a copy of the checkout; hard links stay."""
    top = folder / "checkout"
    subprocess.run(["cp", "-a", template.top, top], check=True)
    return evolve(template, top=top, services=evolve(template.services, **services))


@pytest.fixture(scope="module")
def ends(
    how: str, template: Site, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], MortalFileSystem]:
    """The options, how the checkout is before and after, and the calls that changed it."""
    options = OPTIONS[how]
    fs = MortalFileSystem()
    site = copied(template, tmp_path_factory.mktemp("reference"), fs=fs)
    before = seen(site.top)
    assert bool(site.apply(**options).conflicts) == (how == "merge")
    return options, before, _timeless(seen(site.top)), fs


def _timeless(found: dict[str, Any]) -> dict[str, Any]:
    """Without the commit's id, which has the time in it."""
    refs, head, commit = found["(refs)"]
    return {**found, "(refs)": (refs.count(b"\n"), head, commit != b"")}


def _judge(site: Site, copy: Path, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Finish one copy, undo another; return how the kill left the checkout."""
    found = seen(site.top)
    if found["(lock)"] == (False, False):
        assert found == before or _timeless(found) == after
        with pytest.raises(NoUnfinishedApply):
            continue_apply(site.top, services=site.services)
        return "whole"
    assert found["(lock)"][1], "a lock without a journal"
    subprocess.run(["cp", "-a", site.top, copy], check=True)
    abort_apply(site.top, services=site.services)
    assert seen(site.top) == before
    continue_apply(copy, services=site.services)
    assert _timeless(seen(copy)) == after
    leftovers = [
        one for one in [*site.top.rglob("*"), *copy.rglob("*")] if "agentforge" in one.name
    ]
    assert leftovers == []
    return "between"


def test_a_kill_before_each_change_leaves_what_can_be_finished_and_undone(
    template: Site, ends: tuple[Any, ...], tmp_path: Path
) -> None:
    options, before, after, fs = ends
    count = fs.changes
    points = range(count) if POINTS is None else random.Random(count).sample(range(count), POINTS)
    left = []
    for point in points:
        folder = tmp_path / str(point)
        folder.mkdir()
        site = copied(template, folder, fs=MortalFileSystem(point))
        with pytest.raises(Killed):
            site.apply(**options)
        alive = evolve(site, services=template.services)
        left.append(_judge(alive, folder / "copy", before, after))
        shutil.rmtree(folder)
    assert "between" in left


def test_a_process_killed_at_any_instant_leaves_what_can_be_finished_and_undone(
    template: Site, ends: tuple[Any, ...], tmp_path: Path
) -> None:
    options, before, after, _ = ends
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    longest_s = 0.0
    for number in range(KILLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        site = copied(template, folder)
        began = time.monotonic()
        child = os.fork()
        if not child:
            try:
                site.apply(**options)
            finally:
                os._exit(0)
        if number:
            time.sleep(rng.uniform(0, longest_s))
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        longest_s = longest_s or time.monotonic() - began
        _judge(site, folder / "copy", before, after), seed
        shutil.rmtree(folder)


def test_a_kill_while_an_abort_runs_is_aborted_again(
    template: Site, ends: tuple[Any, ...], tmp_path: Path
) -> None:
    options, before, after, fs = ends
    for point in range(0, 24, 1 if SOAKING else 13):
        folder = tmp_path / str(point)
        folder.mkdir()
        site = copied(template, folder, fs=MortalFileSystem(fs.last_step))
        with pytest.raises(Killed):
            site.apply(**options)
        dying = evolve(template.services, fs=MortalFileSystem(point))
        with pytest.raises(Killed):
            abort_apply(site.top, services=dying)
        _judge(evolve(site, services=template.services), folder / "copy", before, after)
