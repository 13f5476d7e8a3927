"""The folders mounted in a workspace: their mount points, and the writable caches in them.

An earlier command in a jail may have written the workspace; bubblewrap, asked to make a mount point
below a link that leads out, would make it on the host. So mount points are made here, and no link
is followed.

`node_modules` is mounted read-only in a workspace, and vite, vitest, babel and others write into
it; vitest 2 fails a run of correct code if it can't. Each such folder is a scratch folder in
memory. If the packages lack one, an overlay provides its mount point, so that nothing is created in
the person's checkout; the packages themselves stay read-only.
"""

from __future__ import annotations

import functools
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from attrs import evolve

from ..base.event_log import get_logger
from ..base.files import OsFileSystem
from ..base.files.filesystem import DIRECTORY_FLAGS
from ..base.files.safe_path import Missing, directory_beneath
from .command_line import Bind
from .errors import MountPointUnusable

PACKAGES: Final = "node_modules"
CACHES: Final = (".cache", ".vite", ".vite-temp", ".vitest")
"""vite: `cacheDir` and its bundled configuration; find-cache-dir (babel, ava, nyc): `.cache`."""
_PROBE_S: Final = 20.0

_log = get_logger("agentforge.jail")


def make_mount_points(workspace: Path, targets: Iterable[str]) -> None:
    """Make the mount points that are missing.

    Args:
        workspace: The workspace, a directory.
        targets: Plain relative paths.

    Raises:
        MountPointUnusable: A link or a file is in the way.
        OSError: The workspace can't be opened.
    """
    fs = OsFileSystem()
    root = os.open(workspace, DIRECTORY_FLAGS)
    try:
        for target in targets:
            try:
                with directory_beneath(fs, root, target.split("/"), missing=Missing.MADE):
                    pass
            except OSError as error:
                raise MountPointUnusable(target, error.strerror or str(error)) from error
    finally:
        os.close(root)


def with_caches(bind: Bind, bubblewrap: Path, held: ExitStack) -> Bind:
    """Return a mount with scratch folders for the caches of test runners in it.

    A mount without packages is returned unchanged. If this kernel makes no overlay, only existing
    folders become writable; the log says so.

    Args:
        bind: The mount.
        bubblewrap: The program that makes jails.
        held: Retains the overlaid folder until the command has ended.
    """
    if os.path.basename(bind.target) != PACKAGES or not _is_directory(bind.source):
        return bind
    there = tuple(name for name in CACHES if _is_directory(os.path.join(bind.source, name)))
    if there == CACHES:
        return evolve(bind, scratch=CACHES)
    if not _makes_overlays(bubblewrap, bind.source):
        return evolve(bind, scratch=there)
    layer = held.enter_context(tempfile.TemporaryDirectory(prefix="agentforge-jail-"))
    for name in CACHES:
        os.mkdir(os.path.join(layer, name), 0o755)
    os.chmod(layer, 0o755)  # noqa: S103 (the jail's user looks through it)
    return evolve(bind, scratch=CACHES, layer=layer)


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


@functools.lru_cache(maxsize=64)
def _makes_overlays(bubblewrap: Path, source: str) -> bool:
    """Return whether an overlay can be made over a folder here; tried once for each."""
    with tempfile.TemporaryDirectory(prefix="agentforge-jail-") as empty:
        argv = [str(bubblewrap), *_probe(source, empty), "--", "true"]
        try:
            done = subprocess.run(  # noqa: S603 (the program that makes jails)
                argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=_PROBE_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
        else:
            if done.returncode == 0:
                return True
            said = done.stderr.decode("utf-8", "replace").strip()[:400]
    _log.warning("jail.caches_not_writable", folder=source, error=said)
    return False


def _probe(source: str, empty: str) -> Iterator[str]:
    yield from ("--unshare-user", "--die-with-parent", "--ro-bind", "/", "/")
    yield from ("--overlay-src", source, "--overlay-src", empty, "--ro-overlay", empty)
