"""Any command line as an agent: the prompt on its standard input, the answer on its output."""

from __future__ import annotations

import os
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from .port import (
    AgentAnswer,
    AgentCrashed,
    AgentFailed,
    AgentRequest,
    AgentTimeout,
    AgentUnavailable,
)

DEFAULT_TIMEOUT_S: Final = 1800.0
MAX_ANSWER_BYTES: Final = 16 << 20
"""The most that is taken of an answer."""
_KEPT_STDERR: Final = 16_384
_GRACE_S: Final = 2.0
_DRAIN_S: Final = 0.2
"""How long pipes that a command left open are still listened to after its end."""
_PIECE: Final = 1 << 16
_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126


def call_variables(request: AgentRequest) -> dict[str, str]:
    """Return the variables by which a command knows what it is called for."""
    return {
        "AGENTFORGE_SESSION": request.session_id,
        "AGENTFORGE_PHASE": request.phase,
        "AGENTFORGE_ATTEMPT": str(request.attempt),
        "AGENTFORGE_TURN": str(request.turn),
        "AGENTFORGE_CALL": str(request.call),
        "AGENTFORGE_TOKENS_LEFT": str(request.tokens_left),
    }


class CommandAgent:
    """Runs a command for each request.

    The command gets the prompt in UTF-8 on standard input and answers in UTF-8 on standard
    output; exit code 0 means that there is an answer. `claude -p`, `codex exec -`, `llm` and a
    shell script all do. It runs in a process group of its own: when its time is up, or the caller
    is interrupted, the whole group is ended (SIGTERM, after 2 seconds SIGKILL).

    The variables AGENTFORGE_SESSION, AGENTFORGE_PHASE, AGENTFORGE_ATTEMPT, AGENTFORGE_TURN,
    AGENTFORGE_CALL and AGENTFORGE_TOKENS_LEFT are in its environment besides the caller's own.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        environment: Mapping[str, str] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Name the command; nothing runs yet.

        Args:
            command: The command line; a text is split as a shell splits words, and no shell runs.
            timeout_s: How long one answer may take, in seconds, above 0.
            environment: Its environment; the caller's if None.
            monotonic: The clock of the time limit.

        Raises:
            ValueError: The command is empty or its quotes are not closed, or the limit is none.
        """
        words = shlex.split(command) if isinstance(command, str) else list(command)
        if not words:
            raise ValueError("command: is empty")
        if not timeout_s > 0:
            raise ValueError(f"timeout_s: expected more than 0, got {timeout_s!r}")
        self._words = words
        self._timeout_s = timeout_s
        self._environment = environment
        self._monotonic = monotonic

    @property
    def description(self) -> str:
        """The program's name; its arguments may hold secrets and stay out."""
        return os.path.basename(self._words[0])

    def check(self) -> None:
        """See whether there is such a program; it is not run.

        Raises:
            AgentUnavailable: There is none, or it may not be run.
        """
        environment = os.environ if self._environment is None else self._environment
        if shutil.which(self._words[0], path=environment.get("PATH")) is None:
            raise AgentUnavailable(
                agent=self.description,
                problem=f"there is no program {self._words[0]} that can be run",
            )

    def answer(self, request: AgentRequest, *, directory: Path | None = None) -> AgentAnswer:
        """Run the command and return what it printed.

        Args:
            request: The request.
            directory: Where it runs; the caller's working directory if None.

        Raises:
            AgentTimeout: It took too long.
            AgentCrashed: It ended with another exit code than 0, or printed nothing.
            AgentFailed: It printed no UTF-8, or too much.
            AgentUnavailable: There is no such command, or it can't be run.
        """
        environment = {
            **(os.environ if self._environment is None else self._environment),
            **call_variables(request),
        }
        try:
            process = subprocess.Popen(  # noqa: S603 (the caller's own command line, no shell)
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=directory,
                start_new_session=True,
            )
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            raise AgentUnavailable(
                agent=self.description,
                problem=f"{self._words[0]}: {os.strerror(error.errno or 0)}",
            ) from error
        except (OSError, ValueError) as error:
            raise AgentUnavailable(agent=self.description, problem=str(error)) from error
        try:
            stdout, stderr = self._talk(process, request.prompt.encode())
        finally:
            _end(process)
        errors = stderr.decode("utf-8", "replace")
        if process.returncode in {_NOT_FOUND, _NOT_EXECUTABLE} and not stdout.strip():
            raise AgentUnavailable(
                agent=self.description,
                problem=" ".join(errors.split())[-300:] or "its command was not found",
            )
        answered = bool(stdout.strip())
        if process.returncode != 0 or not answered:
            raise AgentCrashed(
                agent=self.description,
                exit_code=process.returncode,
                output=errors or stdout[-_KEPT_STDERR:].decode("utf-8", "replace"),
                answered=answered,
            )
        try:
            return AgentAnswer(text=stdout.decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise AgentFailed(
                f"the agent ({self.description}) answered with bytes that are no UTF-8 "
                f"(byte {error.start})",
                agent=self.description,
                output=errors,
            ) from error

    def _talk(self, process: subprocess.Popen[bytes], prompt: bytes) -> tuple[bytes, bytes]:
        """Write the prompt and read the answer, both as far as they go, within the time limit."""
        assert process.stdin is not None  # noqa: S101 (all three are pipes)
        assert process.stdout is not None  # noqa: S101
        assert process.stderr is not None  # noqa: S101
        deadline = self._monotonic() + self._timeout_s
        answer, errors = bytearray(), bytearray()
        rest = memoryview(prompt)
        for stream in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(stream.fileno(), False)
        exited = os.pidfd_open(process.pid)
        ended = False
        with selectors.DefaultSelector() as selector, os.fdopen(exited, "rb", buffering=0):
            selector.register(exited, selectors.EVENT_READ)
            selector.register(process.stdin, selectors.EVENT_WRITE)
            selector.register(process.stdout, selectors.EVENT_READ, answer)
            selector.register(process.stderr, selectors.EVENT_READ, errors)
            while selector.get_map():
                left = deadline - self._monotonic()
                if left <= 0:
                    raise self._timed_out(errors)
                events = selector.select(min(left, _DRAIN_S) if ended else left)
                if ended and not events:
                    break  # what the command left running may keep the pipes open for ever
                for key, _ in events:
                    if key.fd == exited:
                        selector.unregister(exited)
                        ended = True
                    elif key.data is None:
                        rest = _feed(process, selector, rest)
                    elif not _drain(key, selector):
                        raise AgentFailed(
                            f"the agent ({self.description}) answered with more than "
                            f"{MAX_ANSWER_BYTES:,} bytes and was ended",
                            agent=self.description,
                        )
                if len(errors) > 2 * _KEPT_STDERR:
                    del errors[:-_KEPT_STDERR]
        try:
            process.wait(max(0.0, deadline - self._monotonic()))
        except subprocess.TimeoutExpired:
            raise self._timed_out(errors) from None
        return bytes(answer), bytes(errors[-_KEPT_STDERR:])

    def _timed_out(self, errors: bytearray) -> AgentTimeout:
        return AgentTimeout(
            agent=self.description,
            timeout_s=self._timeout_s,
            output=bytes(errors[-_KEPT_STDERR:]).decode("utf-8", "replace"),
        )


def _feed(
    process: subprocess.Popen[bytes], selector: selectors.BaseSelector, rest: memoryview
) -> memoryview:
    """Write a piece of the prompt; a command that reads no further is none the worse for it."""
    stream = process.stdin
    assert stream is not None  # noqa: S101 (it is a pipe)
    try:
        rest = rest[os.write(stream.fileno(), rest[:_PIECE]) :]
    except BlockingIOError:
        return rest
    except BrokenPipeError:
        rest = rest[:0]
    if not rest:
        selector.unregister(stream)
        stream.close()
    return rest


def _drain(key: selectors.SelectorKey, selector: selectors.BaseSelector) -> bool:
    """Read a piece; say whether what is read so far is still within the limit."""
    try:
        piece = os.read(key.fd, _PIECE)
    except BlockingIOError:
        return True
    if not piece:
        selector.unregister(key.fileobj)
    key.data.extend(piece)
    return len(key.data) <= MAX_ANSWER_BYTES


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command's whole process group, if any of it is left, and close its pipes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        if process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
