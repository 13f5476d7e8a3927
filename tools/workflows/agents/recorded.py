"""Recorded answers as an agent, and the recorder that makes them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from ...durable import (
    DirectoryLock,
    FileSystem,
    OsFileSystem,
    ReadError,
    make_durable_directory,
    read_regular_file,
    replace_file,
)
from .port import (
    AgentAnswer,
    AgentFailed,
    AgentRequest,
    AgentUnavailable,
    PhaseAgent,
    TokenUsage,
)

MAX_RECORDING_BYTES: Final = 16 << 20
_NAME_RE: Final = re.compile(r"[A-Za-z0-9_.-]+-\d+(?:-\d+)?\.md")
_FILE_MARK: Final = re.compile(
    r"(?m)^([ \t>*+-]*(?:`{3,}|~{3,})[ \t]*(?!agentforge:)[^\s:`]*):([^\n]*)$"
)
"""The mark of a block that would be a file; what an agent that edits prints is none."""
_USAGE_RE: Final = re.compile(
    r"\A<!-- usage: input=(\d{1,15}) output=(\d{1,15})( estimated)? -->\r?\n"
)


def recording_name(request: AgentRequest) -> str:
    """Name the file that holds the answer to a request: `red-1.md`, at a second call `red-1-2.md`.

    The number after the phase is the request's `turn`.
    """
    call = f"-{request.call}" if request.call > 1 else ""
    return f"{request.phase}-{request.turn}{call}.md"


class RecordedAgent:
    """Answers from files: the same request gets the same answer on every machine.

    A file may begin with a line `<!-- usage: input=1200 output=800 -->`: what the answer cost
    when it was recorded. Without it, the usage is estimated.
    """

    def __init__(self, directory: Path | str, *, fs: FileSystem | None = None) -> None:
        """Name the recordings; nothing is read yet.

        Args:
            directory: Where they are.
            fs: The file system; the real one by default.
        """
        self.directory = Path(directory)
        self._fs: FileSystem = fs if fs is not None else OsFileSystem()

    @property
    def description(self) -> str:
        """What it is, and which recordings it plays."""
        return f"recorded answers of {self.directory.name}"

    def check(self, first_phase: str | None = None) -> None:
        """See whether there are recordings, and of the phase that comes first.

        Args:
            first_phase: The phase that is asked first, or None where that is not known.

        Raises:
            AgentUnavailable: The directory is not there or can't be read, or holds none.
        """
        try:
            names = {path.name for path in self.directory.iterdir()}
        except OSError as error:
            raise AgentUnavailable(
                agent=self.description, problem=f"{self.directory}: {error.strerror}"
            ) from error
        if first_phase is not None and f"{first_phase}-1.md" not in names:
            raise AgentUnavailable(
                agent=self.description,
                problem=f"there is no recording {first_phase}-1.md in {self.directory}",
            )
        if not any(_NAME_RE.fullmatch(name) for name in names):
            raise AgentUnavailable(
                agent=self.description, problem=f"there is no recording in {self.directory}"
            )

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Return the recorded answer.

        Raises:
            AgentUnavailable: There is none for this phase, turn and call, or it can't be read.
        """
        path = self.directory / recording_name(request)
        try:
            data = read_regular_file(
                self._fs, os.fspath(path), path=path, max_bytes=MAX_RECORDING_BYTES
            )
        except ReadError as error:
            raise AgentUnavailable(agent=self.description, problem=str(error)) from error
        if data is None:
            raise AgentUnavailable(
                agent=self.description,
                problem=f"there is no recording {path.name} in {path.parent}",
            )
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise AgentUnavailable(
                agent=self.description, problem=f"{path.name} is no UTF-8 (byte {error.start})"
            ) from error
        found = _USAGE_RE.match(text)
        if found is None:
            return AgentAnswer(text=text)
        usage = TokenUsage(
            input_tokens=int(found[1]), output_tokens=int(found[2]), estimated=bool(found[3])
        )
        return AgentAnswer(text=text[found.end() :], usage=usage)


class Recorder:
    """Passes requests on to another agent and keeps its answers as recordings."""

    def __init__(
        self, agent: PhaseAgent, directory: Path | str, *, fs: FileSystem | None = None
    ) -> None:
        """Wrap an agent.

        Args:
            agent: Who answers.
            directory: Where its answers are kept, for a `RecordedAgent`; made if missing.
            fs: The file system; the real one by default.
        """
        self._agent = agent
        self.directory = Path(directory)
        self._fs: FileSystem = fs if fs is not None else OsFileSystem()

    @property
    def description(self) -> str:
        """The wrapped agent's."""
        return self._agent.description

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Ask the wrapped agent and write its answer down before it is passed on.

        What it edited in place is written down as an answer with these files, in text: without what
        was refused, and with a newline at the end of each file.

        Raises:
            AgentFailed: It gave none, or asks questions that are not in its text, or edited a file
                that no text can hold.
            WriteError: The recording could not be written.
        """
        make_durable_directory(self._fs, self.directory)  # before an answer is paid for
        answer = self._agent.answer(request)
        if answer.questions:
            raise AgentFailed(
                "an answer whose questions are not in its text can't be recorded",
                agent=self.description,
            )
        name = recording_name(request)
        usage = ""
        if answer.usage is not None:
            estimated = " estimated" if answer.usage.estimated else ""
            usage = (
                f"<!-- usage: input={answer.usage.input_tokens} "
                f"output={answer.usage.output_tokens}{estimated} -->\n"
            )
        with DirectoryLock(self._fs, self.directory, follow=True) as lock:
            replace_file(
                self._fs,
                lock.fd,
                name,
                [f"{usage}{self._as_text(answer)}".encode()],
                path=self.directory / name,
            )
        return answer

    def _as_text(self, answer: AgentAnswer) -> str:
        """Return an answer as text that gives the same files."""
        change = answer.change
        if change is None:
            return answer.text
        parts = [_FILE_MARK.sub(r"\1 \2", answer.text).rstrip()]
        for one in change.written:
            try:
                text = one.content.decode()
            except UnicodeDecodeError as error:
                raise AgentFailed(
                    f"an edit of {one.path}, which is no text, can't be recorded",
                    agent=self.description,
                ) from error
            parts.append(_block(f"text:{one.path}", text))
        if change.deleted:
            parts.append(_block("agentforge:delete", "\n".join(change.deleted)))
        return "\n\n".join(part for part in parts if part) + "\n"


def _block(mark: str, text: str) -> str:
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(4, longest + 1)
    ended = text if not text or text.endswith("\n") else f"{text}\n"
    return f"{fence}{mark}\n{ended}{fence}"
