"""How an ending is named."""

from __future__ import annotations

import pytest
from attrs.exceptions import FrozenInstanceError

from agentforge_sessions.sandbox import SandboxResult
from agentforge_sessions.sandbox.in_process_executor import normalise_trap
from agentforge_sessions.sandbox.result import TRAPS


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("deadline", "deadline"),
        ("out of fuel", "fuel"),
        ("cancelled", "cancelled"),
        ("out of file calls", "files"),
        ("stack overflow", "crash"),
        ("unreachable", "crash"),
        ("memory out of bounds", "crash"),
        ("error while executing at wasm backtrace:", "crash"),
        ("words no engine has used yet", "crash"),
        ("memory minimum size of 640 pages exceeds memory limits", "memory"),
    ],
)
def test_every_ending_of_the_engine_has_a_name(words: str, name: str) -> None:
    assert normalise_trap(words, None, b"") == name
    assert name in TRAPS


@pytest.mark.parametrize("exit_code", [0, 1, 3, 255])
def test_an_ending_of_its_own_is_no_trap(exit_code: int) -> None:
    assert normalise_trap(None, exit_code, b"") is None


@pytest.mark.parametrize(
    "last",
    [
        b"MemoryError",
        b"numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB for an array",
    ],
)
def test_dying_of_a_memory_error_is_the_memory_limit(last: bytes) -> None:
    stderr = b"Traceback (most recent call last):\n  File ...\n" + last + b"\n"
    assert normalise_trap(None, 1, stderr) == "memory"
    assert normalise_trap(None, 0, stderr) is None
    assert normalise_trap(None, 2, stderr) is None


@pytest.mark.parametrize(
    "stderr",
    [
        b"",
        b"\n\n",
        b"MemoryError\nmore",
        b"MemoryError: Parser stack overflowed - Python source too complex to parse",
        b"MyMemoryError: x",
        b"no MemoryError",
    ],
)
def test_another_last_word_is_not_the_memory_limit(stderr: bytes) -> None:
    assert normalise_trap(None, 1, stderr) is None


def test_a_result_cannot_be_changed(result: SandboxResult) -> None:
    with pytest.raises(FrozenInstanceError):
        result.success = False  # type: ignore[misc]
    assert hash(result) == hash(result)
