"""Recorded answers as an agent, and the recorder that writes them."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from attrs import field, frozen

from ...base.files import (
    DirectoryLock,
    FileSystem,
    OsFileSystem,
    ReadError,
    make_durable_directory,
    read_regular_file,
    replace_file,
)
from ...workflows.agents.port import (
    AgentAnswer,
    AgentFailed,
    AgentIdentity,
    AgentParameters,
    AgentRequest,
    AgentUnavailable,
    EditedFile,
    PhaseAgent,
    TokenUsage,
    WorkspaceChange,
)
from ...workflows.fenced_blocks import fenced_blocks

MAX_RECORDING_BYTES: Final = 16 << 20
_NAME_RE: Final = re.compile(r"[A-Za-z0-9_.-]+-\d+(?:-\d+)?\.md")
_FILE_MARK: Final = re.compile(
    r"(?m)^([ \t>*+-]*(?:`{3,}|~{3,})[ \t]*(?!agentforge:)[^\s:`]*):([^\n]*)$"
)
"""The mark of a block that would be a file; an editing agent's output contains no files."""
_USAGE_RE: Final = re.compile(
    r"\A<!-- usage: input=(\d{1,15}) output=(\d{1,15})( estimated)? -->\r?\n"
)
_EDIT_RE: Final = re.compile(r"\A<!-- edit: (\{[^\n]*\}) -->\r?\n")
_OWN: Final = "agentforge"
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9_+#.-]{0,40}")


def recording_name(request: AgentRequest) -> str:
    """Return the file name of a request's answer: `red-1.md`, for a second call `red-1-2.md`.

    The number after the phase is the request's `turn`.
    """
    call = f"-{request.call}" if request.call > 1 else ""
    return f"{request.phase}-{request.turn}{call}.md"


def make_agent(text: str, settings: AgentParameters) -> RecordedAgent:
    """Create the agent that `recorded:DIRECTORY` names; nothing is read yet."""
    del settings
    return RecordedAgent(text.partition(":")[2])


@frozen(eq=False)
class RecordedAgent:
    """An agent that answers from files: equal requests get equal answers on every machine.

    A file may begin with a line `<!-- usage: input=1200 output=800 -->`: the cost of the answer
    when it was recorded. Without it, the usage is estimated. A line `<!-- edit: {…} -->` after it
    turns the files in the text into an edit in place and adds its other facts: see `Recorder`.

    Attributes:
        directory: The folder of the recordings.
        is_free: A call costs the person nothing.
    """

    is_free: ClassVar[bool] = True
    directory: Path = field(converter=Path)
    _fs: FileSystem = field(factory=OsFileSystem, kw_only=True)

    @property
    def description(self) -> str:
        """That it plays recordings, and which."""
        return f"recorded answers of {self.directory.name}"

    @property
    def identity(self) -> AgentIdentity:
        """The identity of recorded answers."""
        return AgentIdentity(name="recorded", provider="agentforge")

    def check(self) -> None:
        """Check that there are recordings.

        Raises:
            AgentUnavailable: The directory is missing, can't be read, or has none.
        """
        if not any(map(_NAME_RE.fullmatch, self._names())):
            raise self._unavailable(f"there is no recording in {self.directory}")

    def check_phase(self, phase: str) -> None:
        """Check that there is a recording of a phase's first answer.

        Raises:
            AgentUnavailable: There is none.
        """
        if f"{phase}-1.md" not in self._names():
            raise self._unavailable(f"there is no recording {phase}-1.md in {self.directory}")

    def _names(self) -> set[str]:
        try:
            return {path.name for path in self.directory.iterdir()}
        except OSError as error:
            raise self._unavailable(f"{self.directory}: {error.strerror}") from error

    def _unavailable(self, problem: str) -> AgentUnavailable:
        return AgentUnavailable(agent=self.description, problem=problem)

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Return the recorded answer.

        Raises:
            AgentUnavailable: None fits this phase, turn and call, or it can't be read.
        """
        path = self.directory / recording_name(request)
        try:
            data = read_regular_file(
                self._fs, os.fspath(path), path=path, max_bytes=MAX_RECORDING_BYTES
            )
        except ReadError as error:
            raise self._unavailable(str(error)) from error
        if data is None:
            raise self._unavailable(f"there is no recording {path.name} in {path.parent}")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self._unavailable(f"{path.name} is no UTF-8 (byte {error.start})") from error
        usage = None
        found = _USAGE_RE.match(text)
        if found is not None:
            usage = TokenUsage(
                input_tokens=int(found[1]), output_tokens=int(found[2]), estimated=bool(found[3])
            )
            text = text[found.end() :]
        edit = _EDIT_RE.match(text)
        if edit is None:
            return AgentAnswer(text=text, usage=usage)
        try:
            change, text = _played(json.loads(edit[1]), text[edit.end() :])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._unavailable(f"the edit in {path.name} can't be read ({error})") from error
        return AgentAnswer(text=text, usage=usage, change=change)


@frozen(eq=False)
class Recorder:
    """An agent that passes requests on to another agent and records its answers.

    Attributes:
        directory: The folder of the recordings, for a `RecordedAgent`; created if missing.
    """

    _agent: PhaseAgent
    directory: Path = field(converter=Path)
    _fs: FileSystem = field(factory=OsFileSystem, kw_only=True)

    @property
    def description(self) -> str:
        """The wrapped agent's description."""
        return self._agent.description

    @property
    def identity(self) -> AgentIdentity | None:
        """The wrapped agent's identity, if it has one."""
        found = getattr(self._agent, "identity", None)
        return found if isinstance(found, AgentIdentity) else None

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Call the wrapped agent; write its answer to disk before returning it.

        An edit in place is written as an answer with its files as text, which a person can read and
        change. A line before it has the rest: which files are executable, what was restored and
        why, what was not taken, and the exact bytes of a file that text can't represent.

        Raises:
            AgentFailed: The agent gave no answer, asked questions that are not in its text, or
                edited more than a recording may hold.
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
        content = f"{usage}{_as_text(answer)}".encode()
        if len(content) > MAX_RECORDING_BYTES:
            raise AgentFailed(
                f"an edit of more than {MAX_RECORDING_BYTES >> 20} MiB can't be recorded",
                agent=self.description,
            )
        with DirectoryLock(self._fs, self.directory, follow=True) as lock:
            replace_file(self._fs, lock.fd, name, [content], path=self.directory / name)
        return answer


def _as_text(answer: AgentAnswer) -> str:
    """Return an answer as text that yields the same files."""
    change = answer.change
    if change is None:
        return answer.text
    parts = [_FILE_MARK.sub(r"\1 \2", answer.text).rstrip()]
    for one in change.written:
        try:
            parts.append(_block(f"text:{one.path}", one.content.decode()))
        except UnicodeDecodeError:
            continue  # it is among the exact files
    if change.deleted:
        parts.append(_block(f"{_OWN}:delete", "\n".join(change.deleted)))
    text = "\n\n".join(part for part in parts if part) + "\n"
    return f"{_note(change, text)}{text}"


def _note(change: WorkspaceChange, text: str) -> str:
    """Return the line with the facts of a change that are not in the text."""
    said, _, _ = _files_in(text)
    note = {
        "executable": [one.path for one in change.written if one.executable],
        "refused": [list(one) for one in change.refused],
        "dropped": list(change.dropped),
        "sealed": change.sealed,
        "exact": {
            one.path: base64.b64encode(one.content).decode()
            for one in change.written
            if said.get(one.path) != one.content
        },
    }
    return f"<!-- edit: {json.dumps(note).replace('>', chr(92) + 'u003e')} -->\n"


def _played(note: Mapping[str, Any], text: str) -> tuple[WorkspaceChange, str]:
    """Return the change that a recording's line and text describe, and the agent's text."""
    files, deleted, words = _files_in(text)
    for path, data in note.get("exact", {}).items():
        files[path] = base64.b64decode(data, validate=True)
    executable = set(note.get("executable", ()))
    change = WorkspaceChange(
        written=[
            EditedFile(path=path, content=content, executable=path in executable)
            for path, content in files.items()
        ],
        deleted=deleted,
        refused=[(str(path), str(reason)) for path, reason in note.get("refused", ())],
        dropped=[str(one) for one in note.get("dropped", ())],
        sealed=note.get("sealed", True) is True,
    )
    return change, words


def _files_in(text: str) -> tuple[dict[str, bytes], list[str], str]:
    """Return the files in a recorder's text, the paths it names as removed, and the rest."""
    files: dict[str, bytes] = {}
    deleted: list[str] = []
    lines = text.splitlines()
    words: list[str] = []
    begun = 0
    for block in fenced_blocks(lines, 1):
        mark, colon, path = block.info.partition(":")
        if colon and mark != _OWN and _LANGUAGE.fullmatch(mark):
            files[path] = "".join(f"{line}\n" for line in block.lines).encode()
        elif colon and path == "delete":
            deleted += block.lines
        else:
            continue
        words += lines[begun : block.line - 1]
        begun = block.line + len(block.lines) + block.closed
    words += lines[begun:]
    return files, deleted, "\n".join(words).rstrip()


def _block(mark: str, text: str) -> str:
    longest = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(4, longest + 1)
    ended = text if not text or text.endswith("\n") else f"{text}\n"
    return f"{fence}{mark}\n{ended}{fence}"
