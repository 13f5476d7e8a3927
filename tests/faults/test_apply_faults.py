"""An apply on a disk that is full or broken: taken back, or told how to go on."""

from __future__ import annotations

import errno
import random
import subprocess
from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.repository.apply.apply import abort_apply
from agentforge_sessions.repository.apply.apply_errors import ApplyFailed
from tests.support.applying import Site, new_site, seen
from tests.support.filesystem import Call, FaultyFileSystem
from tests.support.soak import SOAKING

_CHANGING = {"writev", "fsync", "rename", "link", "unlink", "mkdir", "rmdir"}


class FailingFileSystem(FaultyFileSystem):
    """From one of the calls that change something on, a number of them fail."""

    def __init__(self, first: int = -1, count: int = 1) -> None:
        super().__init__()
        self.failing = range(first, first + count)
        self.changes = 0

    def _step(self, operation: str, path: str, *, size: int = 0, writing: bool = False) -> Call:
        if operation in _CHANGING or (operation == "open" and writing):
            self.changes += 1
            if self.changes - 1 in self.failing:
                raise OSError(errno.ENOSPC, "No space left on device", path)
        return super()._step(operation, path, size=size, writing=writing)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Site:
    begin = {"a": "1\n", "b/c": "2\n", "gone/x": "3\n"}
    change = {"a": "one\n", "b/c": "two\n", "gone/x": None, "new/y": "4\n"}
    return new_site(tmp_path_factory.mktemp("template"), begin, change)


def _copied(template: Site, folder: Path, fs: FaultyFileSystem) -> Site:
    folder.mkdir()
    subprocess.run(["cp", "-a", template.top, folder / "checkout"], check=True)
    return evolve(template, top=folder / "checkout", services=evolve(template.services, fs=fs))


@pytest.mark.parametrize("count", [1, 10_000], ids=["once", "for good"])
def test_a_step_that_fails_is_taken_back_or_can_be_aborted(
    template: Site, tmp_path: Path, count: int
) -> None:
    reference = FailingFileSystem()
    site = _copied(template, tmp_path / "reference", reference)
    before = seen(site.top)
    site.apply()
    after = seen(site.top)
    points = range(reference.changes)
    for point in points if SOAKING else random.Random(1).sample(points, 3):
        site = _copied(template, tmp_path / str(point), FailingFileSystem(point, count))
        try:
            site.apply()
        except ApplyFailed as error:
            if error.undone:
                assert seen(site.top)["a"] == before["a"]
            site.services = template.services
            if seen(site.top)["(lock)"] != (False, False):
                abort_apply(site.top, services=template.services)
            assert seen(site.top) == before
        else:
            assert seen(site.top) == after
