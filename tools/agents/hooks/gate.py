"""The project's own check at the end of a turn: run, and ended with every process it started."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

EVIDENCE_CHARS: Final = 4_000
_EVIDENCE_BYTES: Final = 4 * EVIDENCE_CHARS


class GateResult(NamedTuple):
    """The result of the command.

    Attributes:
        passed: Whether its exit code was 0.
        summary: The result in one line.
        evidence: The end of its output; empty if it passed.
    """

    passed: bool
    summary: str
    evidence: str


def run_gate(
    command: str, folder: Path, *, timeout_s: float, environment: Mapping[str, str]
) -> GateResult | None:
    """Run a command in a folder, without a shell.

    Returns:
        How it ended, or None if it can't be run; that does not send the agent back to work.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(  # noqa: S603 (the command is the configuration's)
                words,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError, IndexError):
            return None
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code == 0:
            return GateResult(True, f"{command}: passed", "")
        how = f"no end after {timeout_s:g} s" if code is None else f"exit code {code}"
        return GateResult(False, f"{command}: {how}", _end_of(output.fileno()))


def _end_of(fd: int) -> str:
    size = os.fstat(fd).st_size
    data = os.pread(fd, _EVIDENCE_BYTES, max(0, size - _EVIDENCE_BYTES))
    return data.decode("utf-8", "replace")[-EVIDENCE_CHARS:].strip()
