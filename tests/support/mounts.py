"""Real file systems of a test's own: small, read-only, gone again afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


@contextmanager
def mounted_tmpfs(path: Path, *, options: str) -> Iterator[Path]:
    """Mount a tmpfs at `path` for the block; skip the test where that is not permitted."""
    if os.geteuid() != 0:
        pytest.skip("mounting a file system takes root")
    with _mounted(path, "a tmpfs", "-t", "tmpfs", "-o", options, "agentforge-test"):
        yield path


@contextmanager
def _mounted(path: Path, what: str, *words: str) -> Iterator[None]:
    path.mkdir(parents=True, exist_ok=True)
    done = _run("mount", *words, str(path))
    if done.returncode != 0:
        pytest.skip(f"{what} can't be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        unmounted = _run("umount", str(path))
        if unmounted.returncode != 0:
            _run("umount", "--lazy", str(path))


def image_of(path: Path, kind: str) -> Path:
    """Return the file that `mounted_image` keeps a file system in."""
    return path.with_name(f"{path.name}.{kind}")


@contextmanager
def mounted_image(
    path: Path, kind: str, size_mb: int, *options: str, mount_options: str = "loop"
) -> Iterator[Path]:
    """Mount a new file system in a file beside `path`; skip where the machine does not allow it.

    Args:
        path: Where it is mounted.
        kind: "ext4", "xfs", ….
        size_mb: Its size in MiB.
        options: More options for `mkfs`.
        mount_options: Options for `mount`, "loop" among them.
    """
    if os.geteuid() != 0:
        pytest.skip("mounting a file system takes root")
    if shutil.which(f"mkfs.{kind}") is None:
        pytest.skip(f"mkfs.{kind} is not installed")
    image = image_of(path, kind)
    with image.open("wb") as file:
        file.truncate(size_mb << 20)
    made = _run(f"mkfs.{kind}", "-q", *options, str(image))
    if made.returncode != 0:
        pytest.skip(f"mkfs.{kind} does not work here: {made.stderr.strip()}")
    with mounted_file(image, path, kind, mount_options=mount_options) as mounted:
        yield mounted


@contextmanager
def mounted_file(
    image: Path, path: Path, kind: str, *, mount_options: str = "loop"
) -> Iterator[Path]:
    """Mount the file system in a file; skip the test where that is not permitted."""
    with _mounted(path, f"an image of {kind}", "-t", kind, "-o", mount_options, str(image)):
        yield path


class BoundMount:
    """A bind mount, found again wherever the directory it is in was renamed to."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _points(self) -> list[str]:
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            points = [line.split()[4] for line in mounts]
        return [point for point in points if point.startswith(f"{self._root}/")]

    def unmount(self) -> None:
        """Unmount it; does nothing where it is not mounted any more."""
        for point in self._points():
            done = _run("umount", point)
            if done.returncode != 0:
                _run("umount", "--lazy", point)


@contextmanager
def bound(source: Path, point: Path) -> Iterator[BoundMount]:
    """Bind `source` to `point` for the block; skip the test where that is not permitted."""
    point.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    done = _run("mount", "--bind", str(source), str(point))
    if done.returncode != 0:
        pytest.skip(f"nothing can be bound here: {done.stderr.strip()}")
    mount = BoundMount(source.parent)
    try:
        yield mount
    finally:
        mount.unmount()


def remount(path: Path, options: str) -> None:
    """Change a mount's options."""
    done = _run("mount", "-o", f"remount,{options}", str(path))
    if done.returncode != 0:
        pytest.skip(f"a tmpfs can't be remounted here: {done.stderr.strip()}")


@contextmanager
def immutable(path: Path) -> Iterator[Path]:
    """Make a file or directory one that even root can't change; skip where that is not possible."""
    done = _run("chattr", "+i", str(path))
    if done.returncode != 0:
        pytest.skip(f"chattr +i does not work here: {done.stderr.strip()}")
    try:
        yield path
    finally:
        # It may have been renamed with its directory meanwhile.
        for found in (path, *path.parent.parent.rglob(path.name)):
            if found.exists():
                _run("chattr", "-i", str(found))
