"""Whatever name a prune is about to use is swapped for a link to a canary just before each call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.prune import PruneEnvironment, PruneError
from agentforge_sessions.sandbox import prune_sessions
from tests.support import hostile_roots
from tests.support.filesystem import Call, FaultyFileSystem
from tests.support.hostile_roots import HostileRoot, snapshot
from tests.support.soak import SOAKING

pytestmark = pytest.mark.timeout(600 if SOAKING else 120)

STEP = 1 if SOAKING else 11
"""Every so many calls one is chosen; each kind of swap begins at another of them."""


class SwappingFileSystem:
    """The real file system, and an enemy who knows what name comes next.

    Before the chosen call, what has the name that the call is about is moved aside, and a link to
    the canary takes its name; afterwards it is left like that, or put back.
    """

    def __init__(self, chosen: int, canary: Path, *, back: bool) -> None:
        self._real = OsFileSystem()
        self._chosen = chosen
        self._canary = os.fspath(canary)
        self._back = back
        self.calls = 0
        self.swapped = ""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        real = getattr(self._real, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            where = kwargs.get("dir_fd", kwargs.get("src_dir_fd"))
            if where is None:
                return real(*args, **kwargs)
            self.calls += 1
            if self.calls != self._chosen:
                return real(*args, **kwargs)
            aside = args[0][:200] + ".aside"
            try:
                os.rename(args[0], aside, src_dir_fd=where, dst_dir_fd=where)
                os.symlink(self._canary, args[0], dir_fd=where)
            except OSError:
                return real(*args, **kwargs)
            self.swapped = f"{name} {args[0]} in {os.readlink(f'/proc/self/fd/{where}')}"
            try:
                return real(*args, **kwargs)
            finally:
                if self._back:
                    with suppress(OSError):
                        os.unlink(args[0], dir_fd=where)
                    with suppress(OSError):
                        os.rename(aside, args[0], src_dir_fd=where, dst_dir_fd=where)

        return call


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Callable[[], HostileRoot]]:
    count = 0
    with ExitStack() as stack:

        def another() -> HostileRoot:
            nonlocal count
            count += 1
            top = tmp_path / str(count)
            top.mkdir()
            made = HostileRoot(top, stack)
            left = made.private("going", f"{hostile_roots.name_of(9)}~left")  # by a killed prune
            (left / "below").mkdir()
            (left / "below" / "file").write_text("x")
            return made

        yield another


@pytest.mark.parametrize("back", [False, True], ids=["for good", "and back"])
@pytest.mark.parametrize("grace", [None, timedelta(0)], ids=["removed", "trashed"])
def test_no_call_of_a_prune_follows_a_link_that_was_just_put_there(
    places: Callable[[], HostileRoot], back: bool, grace: timedelta | None
) -> None:
    chosen, met = 0, 0
    offset = 3 * back + 2 * (grace is None)
    while True:
        chosen += 1
        if (chosen + offset) % STEP:
            continue
        root = places()
        canary, young = snapshot(root.outside), snapshot(root.root / root.young)
        fs = SwappingFileSystem(chosen, root.outside, back=back)
        for _ in range(2):  # the second finishes the first, or purges what it put in the trash
            with suppress(PruneError):
                outside = PruneEnvironment(fs=fs, deleters=1)  # type: ignore[arg-type]
                prune_sessions(24, root.root, trash_for=grace, outside=outside)
        where = f"call {chosen}: {fs.swapped}"
        assert snapshot(root.outside) == canary, where
        if root.young not in fs.swapped:  # the enemy's own change
            assert snapshot(root.root / root.young) == young, where
        met += bool(fs.swapped)
        if fs.calls < chosen:
            break
    print(f"{met} swaps at {chosen} calls")
    assert met >= 45 // STEP


class Interrupted(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("ending", ["its name is taken", "the process dies"])
def test_a_directory_that_was_renamed_by_mistake_is_never_deleted(
    tmp_path: Path, ending: str
) -> None:
    """Another directory has the session's name in the moment of the rename, and can't go back."""
    with ExitStack() as stack:
        root = HostileRoot(tmp_path, stack)
        old = root.root / root.old
        renamed = False

        def before(call: Call) -> None:
            nonlocal renamed
            if call.operation == "rename" and "/going/" in call.path and not renamed:
                old.rename(root.top / "aside")
                (old / "precious").mkdir(parents=True)
                (old / "precious" / "file").write_text("precious")
                renamed = True
            elif renamed and call.operation == "stat" and "/going/" in call.path:
                if ending == "the process dies":
                    raise Interrupted
                old.mkdir(exist_ok=True)

        fs = FaultyFileSystem(before=before)
        errors = []
        with suppress(Interrupted):
            errors.append(prune_sessions(24, root.root, outside=PruneEnvironment(fs=fs)).errors)
        errors += [prune_sessions(24, root.root).errors for _ in range(2)]
        if ending == "the process dies":
            place = root.root / ".prune" / "going"
            assert [list(one) for one in errors] == [[root.old]] * 2
            assert "nothing of it was deleted" in errors[0][root.old]
        else:  # it got another name in the root, where somebody sees it
            place = root.root
            assert [list(one) for one in errors] == [[root.old], [], []]
        (stray,) = [name for name in os.listdir(place) if name.startswith(root.old + "~")]
        assert (place / stray / "precious" / "file").read_text() == "precious"
        assert stray in errors[0][root.old]
