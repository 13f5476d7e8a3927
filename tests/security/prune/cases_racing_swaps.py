"""A thread swaps directories for links to a canary outside while prunes run: it stays whole."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from agentforge_sessions.prune import PruneError, PruneResult
from agentforge_sessions.sandbox import prune_sessions
from tests.support import hostile_roots
from tests.support.hostile_roots import HostileRoot, snapshot
from tests.support.soak import SOAKING

ROUNDS = 1_000 if SOAKING else 20
SESSIONS = 6

pytestmark = pytest.mark.timeout(3600 if SOAKING else 120)


class Swapper:
    """Swaps a name for a link to the canary and back, as fast as it can, until it is stopped."""

    def __init__(self, path: Path, canary: Path, aside: Path) -> None:
        self._path = os.fspath(path)
        self._aside = os.fspath(aside)
        self._link = os.fspath(aside) + ".link"
        os.symlink(canary, self._link)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._swap)
        self.swaps = 0

    def __enter__(self) -> Swapper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        with suppress(OSError):
            os.unlink(self._link)

    def _swap(self) -> None:
        while not self._stop.is_set():
            try:
                os.rename(self._path, self._aside)
            except OSError:  # it is gone, or was swapped by the other side
                self._stop.wait(0.0001)
                continue
            with suppress(OSError):
                os.rename(self._link, self._path)
                self.swaps += 1
            with suppress(OSError):
                os.rename(self._path, self._link)
            with suppress(OSError):
                os.rename(self._aside, self._path)


def session_itself(root: HostileRoot) -> Path:
    return root.root / hostile_roots.name_of(100)


def nested_directory(root: HostileRoot) -> Path:
    return root.root / hostile_roots.name_of(100) / "src" / "deep"


def nested_on_its_way(root: HostileRoot) -> Path:
    """The directory wherever the session was renamed to: through a descriptor of its parent."""
    return root.root / hostile_roots.name_of(100) / "src"


def going(root: HostileRoot) -> Path:
    return root.private("going")


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[HostileRoot]:
    with ExitStack() as stack:
        yield HostileRoot(tmp_path, stack)


def never_met(found: Counter[str]) -> bool:
    return found["swaps"] <= ROUNDS / 10 or not found["deleted"]


def prune(root: Path, found: Counter[str]) -> PruneResult | None:
    try:
        return prune_sessions(24, root)
    except PruneError:  # it met the link where its private directory should be
        found["refused"] += 1
        return None


@pytest.mark.parametrize("chosen", [session_itself, nested_directory, nested_on_its_way, going])
def test_what_is_swapped_for_a_link_while_a_prune_runs_leads_nowhere(
    hostile: HostileRoot, chosen: Callable[[HostileRoot], Path]
) -> None:
    canary, young = snapshot(hostile.outside), snapshot(hostile.root / hostile.young)
    found: Counter[str] = Counter()
    one = -1
    while (one := one + 1) < ROUNDS or (never_met(found) and one < 20 * ROUNDS):
        for number in range(100, 100 + SESSIONS):
            with suppress(FileExistsError):
                hostile.session(number)
        aside = hostile.top / "aside"
        path = chosen(hostile)
        stack = ExitStack()
        with stack:
            if chosen is nested_on_its_way:  # stays the same directory, whatever its name
                fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
                stack.callback(os.close, fd)
                path = Path(f"/proc/self/fd/{fd}/deep")
            swapper = stack.enter_context(Swapper(path, hostile.outside, aside))
            result = prune(hostile.root, found)
        assert snapshot(hostile.outside) == canary, f"round {one}"
        assert snapshot(hostile.root / hostile.young) == young, f"round {one}"
        found["swaps"] += swapper.swaps
        if result is not None:
            found["deleted"] += len(result.deleted_sessions)
            found["errors"] += len(result.errors)
        for path in (aside, hostile.root / hostile_roots.name_of(100)):
            clear(path)
    assert not never_met(found), "the two never met, or nothing was ever pruned"
    print(dict(found))
    if (hostile.root / ".prune" / "going").is_symlink():
        os.unlink(hostile.root / ".prune" / "going")
    prune_sessions(24, hostile.root)
    assert snapshot(hostile.outside) == canary
    assert snapshot(hostile.root / hostile.young) == young


def clear(path: Path) -> None:
    """Remove what a round left, never through a link."""
    if path.is_symlink():
        path.unlink()
        return
    for name in os.listdir(path) if path.is_dir() else ():
        below = path / name
        if below.is_dir() and not below.is_symlink():
            clear(below)
        else:
            below.unlink()
    if path.is_dir():
        path.rmdir()
