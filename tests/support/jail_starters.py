"""Jails started by this process's user, and by an ordinary one where this is root.

`python -m tests.support.jail_starters UID` is the ordinary user: a process that has loaded all that
it needs, gives up root for good, and runs what it is sent.
"""

from __future__ import annotations

import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import pytest
from attrs import frozen

from agentforge_sessions.jail import Jail, JailPolicy, JailResult, JailUnavailable

_ROOT: Final = Path(__file__).resolve().parents[2]
USER: Final = 65534
PYTHON: Final = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
"""A Python that every user can run."""


@frozen(kw_only=True)
class Job:
    """One command for a jail."""

    policy: JailPolicy
    command: tuple[str, ...]
    workspace: Path
    stdin: bytes = b""
    files: tuple[tuple[str, bytes], ...] = ()
    control_groups: bool = True
    cancel_when: Path | None = None
    """Cancelled once this file is there."""


def run_job(job: Job) -> JailResult:
    """Run a command in a jail of this process's user."""
    jail = Jail(job.policy, control_groups=job.control_groups)
    marker = job.cancel_when
    return jail.run(
        job.command,
        workspace=job.workspace,
        stdin=job.stdin,
        files=dict(job.files),
        cancelled=None if marker is None else marker.exists,
    )


class Starter:
    """Starts jails as one user; as another one, in a process of its own."""

    def __init__(self, user: int | None) -> None:
        self.user = user
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, **given: Any) -> JailResult:
        """Run a command; raises what its jail raised."""
        job = Job(**given)
        if self.user is None:
            return run_job(job)
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.jail_starters", str(self.user)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=_ROOT,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        _send(self._process.stdin, job)
        answer = _receive(self._process.stdout)
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, JailResult)
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate(timeout=60)


@contextmanager
def ground(user: int | None) -> Iterator[Path]:
    """A folder that a user owns, all of whose parents every user may pass."""
    made = Path(tempfile.mkdtemp(prefix="agentforge-ground-", dir="/tmp"))
    try:
        if user is not None:
            os.chown(made, user, user)
        yield made
    finally:
        shutil.rmtree(made)


def require_jails(starter: Starter) -> None:
    """Skip the test where this user can make no jails, with the reason."""
    with ground(starter.user) as folder:
        try:
            starter.run(policy=JailPolicy(), command=("true",), workspace=folder)
        except JailUnavailable as error:
            pytest.skip(str(error))


def _send(stream: BinaryIO | Any, value: object) -> None:
    data = pickle.dumps(value)
    stream.write(struct.pack("<I", len(data)) + data)
    stream.flush()


def _receive(stream: BinaryIO | Any) -> object:
    (length,) = struct.unpack("<I", stream.read(4))
    return pickle.loads(stream.read(length))


def _main(user: int) -> None:
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # What is loaded late may lie where only root may look.
    with ground(None) as folder, suppress(JailUnavailable):
        run_job(Job(policy=JailPolicy(), command=("true",), workspace=folder))
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    os.environ["HOME"] = "/nonexistent"
    while head := sys.stdin.buffer.read(4):
        (length,) = struct.unpack("<I", head)
        try:
            answer: object = run_job(pickle.loads(sys.stdin.buffer.read(length)))
        except Exception as error:
            answer = error if isinstance(error, JailUnavailable) else RuntimeError(repr(error))
        try:
            _send(output, answer)
        except TypeError:
            _send(output, RuntimeError(repr(answer)))


if __name__ == "__main__":
    _main(int(sys.argv[1]))
