"""A test body in a process of its own, to which all but one folder is read-only.

    def body(folder: Path, hostile: str) -> None:
        ...

    def test_that_something_hostile_stays_inside(tmp_path: Path) -> None:
        contained(body, tmp_path, "../../etc")

The kernel keeps the promise: the child has a private mount namespace in which every mount is
read-only but the folder, so that a deletion that goes astray fails with EROFS, for root as well.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn

import pytest

_ROOT: Final = Path(__file__).resolve().parents[2]
_UNAVAILABLE: Final = 77
_FAILED: Final = 1

_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUSER: Final = 0x10000000
_MS_BIND: Final = 4096
_MS_REC_PRIVATE: Final = 16384 | (1 << 18)
_AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_MOUNT_ATTR_RDONLY: Final = 1
_SYS_MOUNT_SETATTR: Final = 442  # the same number on every architecture

_libc: Final = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def contained(
    body: Callable[..., object], folder: Path, *args: object, timeout_s: float = 100.0
) -> None:
    """Run `body(folder, *args)` where nothing but `folder` can be written.

    The body is a function at the top of its module; it is imported anew in the child, so it shares
    nothing with the test but its arguments and what is in the folder. An assertion or any other
    exception of the body fails the test with the child's traceback; `pytest.skip` in it skips.

    Args:
        body: What to run.
        folder: The one place that can be written; it is also the child's TMPDIR.
        args: Further arguments, to be pickled.
        timeout_s: When the child is given up, in seconds.
    """
    job = pickle.dumps((str(folder), body.__module__, body.__qualname__, args))
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.contained"],
        input=job,
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        check=False,
        timeout=timeout_s,
    )
    said = done.stderr.decode(errors="replace")
    if done.returncode == _UNAVAILABLE:
        pytest.skip(said.strip())
    if done.returncode != 0:
        pytest.fail(f"{body.__qualname__}, contained, ended with {done.returncode}:\n{said}")


def _check(outcome: int, what: str) -> None:
    if outcome != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _set_attributes(path: bytes, *, flags: int, attr_set: int = 0, attr_clr: int = 0) -> None:
    attributes = _MountAttr(attr_set, attr_clr, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    outcome = _libc.syscall(
        _SYS_MOUNT_SETATTR, _AT_FDCWD, path, flags, ctypes.byref(attributes), size
    )
    _check(outcome, f"mount_setattr {path!r}")


def _enter_namespace() -> None:
    """Get mounts of one's own: root simply does, others become themselves in a user namespace."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        _check(_libc.unshare(_CLONE_NEWNS), "unshare")
        return
    _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _contain(folder: str) -> None:
    """Make every mount but that of `folder` read-only, for this process and its children."""
    place = os.fsencode(folder)
    _enter_namespace()
    _check(_libc.mount(None, b"/", None, _MS_REC_PRIVATE, None), "mount --make-rprivate /")
    _check(_libc.mount(place, place, None, _MS_BIND, None), "mount --bind")
    _set_attributes(b"/", flags=_AT_RECURSIVE, attr_set=_MOUNT_ATTR_RDONLY)
    _set_attributes(place, flags=0, attr_clr=_MOUNT_ATTR_RDONLY)


def _end(code: int, said: str = "") -> NoReturn:
    sys.stderr.write(said)
    sys.stderr.flush()
    os._exit(code)


def _main() -> NoReturn:
    folder, module, name, args = pickle.loads(sys.stdin.buffer.read())
    try:
        _contain(folder)
    except (OSError, AttributeError) as error:
        _end(_UNAVAILABLE, f"no private mount namespace here: {error}")
    try:
        getattr(importlib.import_module(module), name)(Path(folder), *args)
    except pytest.skip.Exception as skipped:
        _end(_UNAVAILABLE, str(skipped))
    except BaseException:
        _end(_FAILED, traceback.format_exc())
    _end(0)


if __name__ == "__main__":
    _main()
