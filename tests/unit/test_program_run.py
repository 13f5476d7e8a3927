"""Programs end with the operation that runs them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentforge_sessions.base.cancellation import CancelToken, OperationCancelled, cancellable
from agentforge_sessions.base.program_run import ProgramRun, run_program
from tests.support.cancelling import cancelled_when
from tests.support.descriptors import held
from tests.support.promptness import wait_until

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def test_cancelled_program_has_ended_with_all_that_it_started(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"sleep 3600 & echo $$ $! > {told}.part; mv {told}.part {told}; wait"
    before = held()
    error = cancelled_when(
        told.exists,
        lambda: run_program(ProgramRun(["sh", "-c", script], ENVIRONMENT, timeout_s=3600)),
    )
    assert isinstance(error, OperationCancelled)
    leader, child = map(int, told.read_text().split())
    assert held() <= before
    assert not _runs(leader)
    wait_until(lambda: not _runs(child))  # it is killed, and ends when the kernel comes to it


def _runs(pid: int) -> bool:
    """Whether a process runs; an entry that its parent has yet to take does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_program_that_closed_its_output_is_cancelled_too(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"exec >&- 2>&- <&-; : > {told}; exec sleep 3600"
    error = cancelled_when(
        told.exists,
        lambda: run_program(ProgramRun(["sh", "-c", script], ENVIRONMENT, timeout_s=3600)),
    )
    assert isinstance(error, OperationCancelled)


def test_cancelled_operation_starts_no_program(tmp_path: Path) -> None:
    token = CancelToken()
    token.cancel()
    with cancellable(token), pytest.raises(OperationCancelled):
        run_program(ProgramRun([str(tmp_path / "missing")], ENVIRONMENT))  # the start would fail


def test_program_of_an_operation_that_goes_on_ends_as_it_does() -> None:
    with cancellable(CancelToken()):
        ended = run_program(ProgramRun(["cat"], ENVIRONMENT, stdin=b"x" * 300_000))
    assert (ended.exit_code, len(ended.stdout), ended.cut_short) == (0, 300_000, None)


ANSWERS = "read one; read two; printf 'a'; printf 'nswer of %s\\n' \"$two\"; read more; echo end"
"""Answers the second line, and says when its input has ended."""


def test_input_stays_open_until_the_output_has_what_is_wanted() -> None:
    def is_answered(output: bytes) -> bool:
        asked.append(output)
        return b"answer of 2\n" in output

    asked: list[bytes] = []
    ended = run_program(
        ProgramRun(["sh", "-c", ANSWERS], ENVIRONMENT, b"1\n2\n", until=is_answered)
    )
    assert (ended.exit_code, ended.stdout) == (0, b"answer of 2\nend\n")
    assert b"end" not in asked[-1]


def test_program_that_never_prints_what_is_wanted_ends_at_its_own_end_or_the_limit() -> None:
    def never(output: bytes) -> bool:
        return False

    ended = run_program(
        ProgramRun(["sh", "-c", "read one; exit 3"], ENVIRONMENT, b"1\n", until=never)
    )
    assert (ended.exit_code, ended.cut_short) == (3, None)
    ended = run_program(ProgramRun(["cat"], ENVIRONMENT, b"1\n", timeout_s=0.5, until=never))
    assert ended.cut_short == "time"


def test_program_that_reads_nothing_is_answered_all_the_same() -> None:
    words = ["sh", "-c", "exec <&-; echo answer"]
    ended = run_program(ProgramRun(words, ENVIRONMENT, b"x" * 300_000, until=bool))
    assert (ended.exit_code, ended.stdout, ended.cut_short) == (0, b"answer\n", None)


def test_both_outputs_come_into_one_file_in_their_order(tmp_path: Path) -> None:
    words = ["sh", "-c", "echo one; echo two >&2; echo three"]
    with (tmp_path / "output").open("wb") as file:
        ended = run_program(ProgramRun(words, ENVIRONMENT, output_fd=file.fileno(), mixed=True))
    assert (ended.exit_code, ended.stdout, ended.stderr) == (0, b"", b"")
    assert (tmp_path / "output").read_bytes() == b"one\ntwo\nthree\n"
