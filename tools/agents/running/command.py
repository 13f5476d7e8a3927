"""An agent from any command line: prompt on standard input, answer on standard output."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from ...base.program_run import KEPT_STDERR, Ended, ProgramRun, ProgramRunner, run_program
from ...base.tracing import carried
from ...workflows.agents.port import (
    AgentAnswer,
    AgentCrashed,
    AgentFailed,
    AgentIdentity,
    AgentParameters,
    AgentRequest,
    AgentTimeout,
    AgentUnavailable,
)
from .printed_output import said_usage

DEFAULT_TIMEOUT_S: Final = 1800.0
MAX_ANSWER_BYTES: Final = 16 << 20
"""The largest accepted answer."""
_NOT_FOUND: Final = 127
_NOT_EXECUTABLE: Final = 126


def call_variables(request: AgentRequest) -> dict[str, str]:
    """Return the environment variables that identify a call, and its trace."""
    return {
        **{name.upper(): value for name, value in carried().items()},
        "AGENTFORGE_SESSION": request.session_id,
        "AGENTFORGE_PHASE": request.phase,
        "AGENTFORGE_ATTEMPT": str(request.attempt),
        "AGENTFORGE_TURN": str(request.turn),
        "AGENTFORGE_CALL": str(request.call),
        "AGENTFORGE_TOKENS_LEFT": str(request.tokens_left),
    }


def make_agent(text: str, settings: AgentParameters) -> CommandAgent:
    """Create the agent of a command line.

    Raises:
        ValueError: The text is not a command line.
    """
    return CommandAgent(
        text,
        timeout_s=settings.timeout_s or DEFAULT_TIMEOUT_S,
        environment=settings.environment,
        runner=settings.runner,
    )


class CommandAgent:
    """Runs a command for each request.

    The command reads the prompt in UTF-8 from standard input and answers in UTF-8 on standard
    output; exit code 0 means that there is an answer. `claude -p`, `codex exec -`, `llm` and a
    shell script all do. It runs in its own process group: at the time limit, or when the caller is
    interrupted, the whole group is ended (SIGTERM, after 2 seconds SIGKILL).

    Besides the caller's own, its environment has the variables AGENTFORGE_SESSION,
    AGENTFORGE_PHASE, AGENTFORGE_ATTEMPT, AGENTFORGE_TURN, AGENTFORGE_CALL and
    AGENTFORGE_TOKENS_LEFT, and for a traced call TRACEPARENT and TRACESTATE.
    """

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        environment: Mapping[str, str] | None = None,
        runner: ProgramRunner | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Check the command line; nothing runs yet.

        Args:
            command: The command line; a text is split as a shell splits words, and no shell runs.
            timeout_s: How long one answer may take, in seconds, above 0.
            environment: Its environment; the caller's if None.
            runner: Runs it; as this process runs programs if None.
            monotonic: The clock of the time limit.

        Raises:
            ValueError: The command is empty, has an unclosed quote, or the limit is not above 0.
        """
        words = shlex.split(command) if isinstance(command, str) else list(command)
        if not words:
            raise ValueError("command: is empty")
        if not timeout_s > 0:
            raise ValueError(f"timeout_s: expected more than 0, got {timeout_s!r}")
        self._words = words
        self._timeout_s = timeout_s
        self._environment = environment
        self._run: ProgramRunner = (
            runner if runner is not None else partial(run_program, monotonic=monotonic)
        )

    @property
    def description(self) -> str:
        """The program's name; no arguments, which may hold secrets."""
        return os.path.basename(self._words[0])

    @property
    def identity(self) -> AgentIdentity:
        """The program; only it knows whose model it calls."""
        return AgentIdentity(name=self.description, provider=self.description)

    def check(self) -> None:
        """Check that the program exists, without running it.

        Raises:
            AgentUnavailable: It does not exist, or may not be run.
        """
        environment = os.environ if self._environment is None else self._environment
        if shutil.which(self._words[0], path=environment.get("PATH")) is None:
            raise self._unavailable(f"there is no program {self._words[0]} that can be run")

    def _unavailable(self, problem: str) -> AgentUnavailable:
        return AgentUnavailable(agent=self.description, problem=problem)

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Run the command; return what it printed, and the usage found in that.

        Raises:
            AgentFailed: See `printed`.
        """
        text = self.printed(request)
        return AgentAnswer(text=text, usage=said_usage(text))

    def printed(self, request: AgentRequest, directory: Path | None = None) -> str:
        """Run the command in a directory, the caller's own if None; return its output.

        Raises:
            AgentTimeout: It took too long.
            AgentCrashed: It ended with another exit code than 0, or printed nothing.
            AgentFailed: Its output is not UTF-8, or too large.
            AgentUnavailable: The command does not exist, or can't be run.
        """
        run = ProgramRun(
            self._words,
            {
                **(os.environ if self._environment is None else self._environment),
                **call_variables(request),
            },
            stdin=request.prompt.encode(),
            timeout_s=self._timeout_s,
            max_output=MAX_ANSWER_BYTES,
            directory=directory,
        )
        try:
            ended = self._run(run)
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            problem = f"{self._words[0]}: {os.strerror(error.errno or 0)}"
            raise self._unavailable(problem) from error
        except (OSError, ValueError) as error:
            raise self._unavailable(str(error)) from error
        return self._text_of(ended)

    def _text_of(self, ended: Ended) -> str:
        """Return the output of a command that ended, or raise its failure."""
        errors = ended.stderr.decode("utf-8", "replace")
        if ended.cut_short == "time":
            raise AgentTimeout(agent=self.description, timeout_s=self._timeout_s, output=errors)
        if ended.cut_short == "output":
            raise AgentFailed(
                f"the agent ({self.description}) answered with more than "
                f"{MAX_ANSWER_BYTES:,} bytes and was ended",
                agent=self.description,
            )
        stdout = ended.stdout
        if ended.exit_code in {_NOT_FOUND, _NOT_EXECUTABLE} and not stdout.strip():
            said = " ".join(errors.split())[-300:]
            raise self._unavailable(said or "its command was not found")
        answered = bool(stdout.strip())
        if ended.exit_code != 0 or not answered:
            raise AgentCrashed(
                agent=self.description,
                exit_code=ended.exit_code,
                output=errors or stdout[-KEPT_STDERR:].decode("utf-8", "replace"),
                answered=answered,
            )
        try:
            return stdout.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise AgentFailed(
                f"the agent ({self.description}) answered with bytes that are no UTF-8 "
                f"(byte {error.start})",
                agent=self.description,
                output=errors,
            ) from error
