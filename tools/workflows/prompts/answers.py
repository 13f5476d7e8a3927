"""What an agent's answer holds: files, questions and what it cost, or why it can't be taken.

An answer is Markdown. What counts are its fenced blocks whose info string names a path
(```` ```python:src/ledger.py ````), each the whole content of one file; the blocks
`agentforge:questions`, `agentforge:delete`, `agentforge:contest` and `agentforge:usage`; everything
else is prose and stays where it is.

Strict about paths: each is a plain relative path, and one of those that the phase may write; one
that is not refuses the whole answer, for half an answer is no answer. Tolerant about everything
around: prose, CRLF, blocks in lists, longer fences, tildes, fences within a file (a file's own
fenced examples are part of it as long as they are closed), and a whole answer that stands in one
```` ```markdown ```` block. What could not be taken is said with its line.

Pure: no files are touched here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import yaml
from attrs import field, frozen

from ...base.errors import first_of
from ...base.question import InvalidQuestions
from ..agents.port import AgentOption, AgentQuestion, TokenUsage
from ..converters import as_tuple
from ..fenced_blocks import FENCE_RE, WRAPPERS, FencedBlock, fenced_blocks
from ..names import path_problem

MAX_FILES: Final = 200
MAX_FILE_BYTES: Final = 1 << 20
MAX_FAULTS: Final = 50
MAX_QUESTIONS: Final = 20
MAX_OPTIONS: Final = 20
MAX_CONTESTED: Final = 50
_MAX_TEXT: Final = 10_000
_MAX_BLOCK: Final = 64 << 10
_SPECIAL: Final = "agentforge"
_SAID: Final = frozenset({"questions", "contest", "usage"})
"""The blocks that an agent says besides editing in place."""
_LANGUAGE_RE: Final = re.compile(r"[A-Za-z0-9_+#.-]{1,40}")
_UNSAFE_RE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@frozen(kw_only=True)
class AnswerFile:
    """A file that the answer wants written.

    Attributes:
        path: Relative to the workspace.
        content: All of it.
        line: Where its block begins in the answer, from 1.
    """

    path: str
    content: str = field(repr=False)
    line: int


@frozen(kw_only=True)
class Answer:
    """An answer, taken apart.

    Attributes:
        files: What it wants written, in its order; empty if there are faults.
        deleted: Paths that it wants deleted; empty if there are faults.
        questions: What it asks.
        contested: Tests that it says no implementation can pass, each with the reason.
        usage: What it says that it cost, or None.
        faults: Why it can't be taken, each with its line; empty if it can.
        notes: What was passed over, each with its line; no reason to refuse it.
    """

    files: tuple[AnswerFile, ...] = field(default=(), converter=as_tuple)
    deleted: tuple[str, ...] = field(default=(), converter=as_tuple)
    questions: tuple[AgentQuestion, ...] = field(default=(), converter=as_tuple)
    contested: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    usage: TokenUsage | None = None
    faults: tuple[str, ...] = field(default=(), converter=as_tuple)
    notes: tuple[str, ...] = field(default=(), converter=as_tuple)

    @property
    def says_something(self) -> bool:
        """Whether it wants a file written or deleted, or contests a test."""
        return bool(self.files or self.deleted or self.contested)


def _no_refusal(path: str) -> str | None:
    del path
    return None


def parse_answer(
    text: str, *, refuse: Callable[[str], str | None] = _no_refusal, files: bool = True
) -> Answer:
    """Take an answer apart.

    Args:
        text: The answer.
        refuse: Says why a well-formed path may not be written, or None.
        files: Whether it can hold files; those of an agent that edits in place are prose.

    Returns:
        What it holds. Where there is any fault, no file is in it.
    """
    reader = _Reader(refuse, files=files)
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    reader.read(lines, first=1, depth=0)
    return reader.answer()


class _Reader:
    def __init__(self, refuse: Callable[[str], str | None], *, files: bool = True) -> None:
        self._refuse = refuse
        self._takes_files = files
        self._files: dict[str, AnswerFile] = {}
        self._deleted: dict[str, int] = {}
        self._questions: list[AgentQuestion] = []
        self._contested: list[tuple[str, str]] = []
        self._usage: TokenUsage | None = None
        self._faults: list[str] = []
        self._notes: list[str] = []

    def answer(self) -> Answer:
        above = {
            "/".join(path.split("/")[:count]): path
            for path in self._files
            for count in range(1, path.count("/") + 1)
        }
        for path, file in self._files.items():
            if path in above:
                self._fault(
                    file.line, f"{path!r} can't be a file and the directory of {above[path]!r}"
                )
        if len(self._files) > MAX_FILES:
            self._fault(0, f"it holds {len(self._files)} files; {MAX_FILES} are allowed")
        faults = first_of(self._faults, most=MAX_FAULTS)
        return Answer(
            files=() if faults else self._files.values(),
            deleted=() if faults else self._deleted,
            questions=() if faults else self._questions,
            contested=() if faults else self._contested,
            usage=self._usage,
            faults=faults,
            notes=self._notes[:MAX_FAULTS],
        )

    def _fault(self, line: int, text: str) -> None:
        self._faults.append(f"line {line}: {text}" if line else text)

    def read(self, lines: list[str], *, first: int, depth: int) -> None:
        for block in fenced_blocks(lines, first):
            language, colon, path = block.info.partition(":")
            if not colon:
                self._pathless(block, depth)
            elif language == _SPECIAL and (self._takes_files or path.strip() in _SAID):
                self._special(block, path.strip())
            elif not self._takes_files:
                self._notes.append(f"line {block.line}: a block of a file was taken for prose")
            elif _LANGUAGE_RE.fullmatch(language) or not language:
                self._file(block, path.strip())
            else:
                self._notes.append(
                    f"line {block.line}: a block marked {_short(block.info)!r} was passed over; "
                    "a file's is marked language:path"
                )

    def _pathless(self, block: FencedBlock, depth: int) -> None:
        """Look into a block that may be the wrapping of a whole answer; else it is prose."""
        inner = any(
            ":" in found[3] and _LANGUAGE_RE.match(found[3])
            for line in block.lines
            if (found := FENCE_RE.fullmatch(line)) is not None
        )
        if inner and depth == 0 and block.info.lower() in WRAPPERS:
            self.read(block.lines, first=block.line + 1, depth=1)
        elif any(line.strip() for line in block.lines):
            self._notes.append(
                f"line {block.line}: a block without a path was taken for prose"
                f"{'' if block.info else ' (```python:path/to/file.py names one)'}"
            )

    def _file(self, block: FencedBlock, path: str) -> None:
        problem = _path_fault(path)
        if problem is None and not block.closed:
            problem = (
                f"{path!r}: its block is never closed, so the answer was cut off or a fence in it "
                "is missing"
            )
        content = "".join(f"{line}\n" for line in block.lines)
        if problem is None and (found := _UNSAFE_RE.search(content)) is not None:
            problem = f"{path!r} holds the control character {found[0]!a}"
        if problem is None and len(content.encode("utf-8", "replace")) > MAX_FILE_BYTES:
            problem = f"{path!r} has more than {MAX_FILE_BYTES:,} bytes"
        if problem is None and re.search("[\ud800-\udfff]", content):
            problem = f"{path!r} holds a lone surrogate, which no file can hold as UTF-8"
        if problem is None:
            problem = self._refuse(path)
        before = self._files.get(path)
        if problem is None and before is not None and before.content != content:
            problem = f"{path!r} stands twice with different content (first on line {before.line})"
        if problem is not None:
            self._fault(block.line, problem)
        else:
            self._files.setdefault(path, AnswerFile(path=path, content=content, line=block.line))

    # --------------------------------------------------------------------------- special blocks

    def _special(self, block: FencedBlock, kind: str) -> None:
        text = "\n".join(block.lines)
        if kind not in {"questions", "usage", "delete", "contest"}:
            self._fault(
                block.line,
                f"there is no block {f'{_SPECIAL}:{_short(kind)}'!a}; there are questions, "
                "contest, usage, delete",
            )
            return
        if not block.closed:
            self._fault(block.line, f"its {kind} are never closed, so the answer was cut off")
            return
        if kind == "delete":
            self._take_deleted(block)
            return
        if len(text) > _MAX_BLOCK:
            self._fault(block.line, f"its {kind} have more than {_MAX_BLOCK:,} characters")
            return
        try:
            value = yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            self._fault(
                block.line, f"its {kind} are no YAML: {_short(' '.join(str(error).split()))}"
            )
            return
        if kind == "usage":
            self._take_usage(block.line, value)
        elif kind == "contest":
            self._take_contest(block.line, value)
        else:
            self._take_questions(block.line, value)

    def _take_deleted(self, block: FencedBlock) -> None:
        for number, line in enumerate(block.lines, block.line + 1):
            path = line.strip().removeprefix("- ").strip()
            if not path:
                continue
            problem = _path_fault(path) or self._refuse(path)
            if problem is None and path in self._files:
                problem = f"{path!r} is written and deleted by the same answer"
            if problem is not None:
                self._fault(number, problem)
            else:
                self._deleted.setdefault(path, number)

    def _take_usage(self, line: int, value: Any) -> None:
        try:
            self._usage = TokenUsage(
                input_tokens=value["input_tokens"], output_tokens=value["output_tokens"]
            )
        except (KeyError, TypeError, ValueError) as error:
            self._fault(line, f"its usage needs input_tokens and output_tokens, whole: {error}")

    def _take_contest(self, line: int, value: Any) -> None:
        items = value if isinstance(value, list) else [value]
        if len(items) > MAX_CONTESTED:
            self._fault(line, f"it contests {len(items)} tests; {MAX_CONTESTED} are allowed")
            return
        for number, item in enumerate(items, 1):
            given = item if isinstance(item, dict) else {}
            texts = [given.get(key) for key in ("test", "reason")]
            taken = [one.strip() for one in texts if isinstance(one, str) and one.strip()]
            if set(given) != {"test", "reason"} or len(taken) != len(texts):
                self._fault(line, f"contest {number}: expected test and reason, each a text")
            else:
                self._contested.append((taken[0], taken[1][:_MAX_TEXT]))

    def _take_questions(self, line: int, value: Any) -> None:
        items = value if isinstance(value, list) else [value]
        if len(items) > MAX_QUESTIONS:
            self._fault(line, f"it asks {len(items)} questions; {MAX_QUESTIONS} are allowed")
            return
        for number, item in enumerate(items, 1):
            try:
                found = _question(item)
            except InvalidQuestions as error:
                found = error.faults[0]
            if isinstance(found, str):
                self._fault(line, f"question {number}: {found}")
            else:
                self._questions.append(found)


def _question(item: Any) -> AgentQuestion | str:  # noqa: PLR0911, PLR0912 (a fault each)
    """Make a question of what YAML gave, or say why not."""
    if isinstance(item, str):
        item = {"prompt": item}
    if not isinstance(item, dict):
        return "expected keys and values"
    unknown = set(item) - {"prompt", "title", "options", "multi_select"}
    prompt = item.get("prompt")
    title = item.get("title") or (prompt[:40] if isinstance(prompt, str) else None)
    options = item.get("options") or []
    multi = item.get("multi_select", False)
    if unknown:
        return f"{', '.join(sorted(map(str, unknown)))} is no key here"
    if not isinstance(prompt, str) or not prompt.strip():
        return "prompt: expected text"
    if len(prompt) > _MAX_TEXT:
        return f"prompt: has more than {_MAX_TEXT:,} characters"
    if not isinstance(title, str) or not title.strip() or len(title) > _MAX_TEXT:
        return "title: expected text"
    if not isinstance(multi, bool):
        return "multi_select: expected true or false"
    if not isinstance(options, list) or len(options) > MAX_OPTIONS:
        return f"options: expected a list of at most {MAX_OPTIONS}"
    taken: list[AgentOption] = []
    for option in options:
        if isinstance(option, str):
            option = {"label": option}  # noqa: PLW2901 (a short spelling of the same)
        if not isinstance(option, dict) or set(option) - {"label", "description"}:
            return "options: each is a text, or label and description"
        label, description = option.get("label"), option.get("description")
        if not isinstance(label, str) or not (description is None or isinstance(description, str)):
            return "options: label and description are text"
        if not label.strip() or label in {one.label for one in taken}:
            return "options: each has a label of its own"
        taken.append(AgentOption(label=label, description=description))
    return AgentQuestion(prompt=prompt.strip(), title=title, options=taken, multi_select=multi)


def _path_fault(path: str) -> str | None:
    shown = _short(path)
    if "\\" in path:
        return f"{shown!r} holds a backslash; parts of a path are separated by /"
    if re.search(r"\s", path):
        return f"{shown!r} holds a blank; nothing but the path follows the colon"
    if re.search("[\ud800-\udfff]", path):
        return f"{shown!a} holds a lone surrogate"
    if ":" in path:
        return f"{shown!r} holds a colon"
    if path.startswith("~"):
        return f"{shown!r} is not inside the workspace; give it relative, without ~"
    return path_problem(path)


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
