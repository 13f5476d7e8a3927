"""Parse an agent's answer: files, questions and cost, or why it is rejected; pure.

An answer is Markdown. Only these fenced blocks count: those whose info string names a path
(```` ```python:src/ledger.py ````), each the whole content of one file; and
`agentforge:questions`, `agentforge:delete`, `agentforge:contest` and `agentforge:usage`. All other
text is prose.

Paths are checked strictly: each is a plain relative path that the phase may write; one bad path
rejects the whole answer, because half an answer is no answer. Everything around is tolerated:
prose, CRLF, blocks in lists, longer fences, tildes, fences within a file (a file's own fenced
examples are part of it if they are closed), and a whole answer within one ```` ```markdown ````
block. Whatever is not taken is reported with its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from attrs import field, frozen

from ...base.errors import first_of
from ...base.question import InvalidQuestions
from ...base.reading.fields import Fields, filled
from ...base.reading.nodes import Faults, Node, Scalar, as_whole
from ...base.reading.yaml_nodes import read_node
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
"""The blocks that count for an agent that edits in place."""
_LANGUAGE_RE: Final = re.compile(r"[A-Za-z0-9_+#.-]{1,40}")
_UNSAFE_RE: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@frozen(kw_only=True)
class AnswerFile:
    """A file that the answer asks to write.

    Attributes:
        path: Relative to the workspace.
        content: The complete content.
        line: The line of the answer its block begins on, from 1.
    """

    path: str
    content: str = field(repr=False)
    line: int


@frozen(kw_only=True)
class Answer:
    """The parts of an answer.

    Attributes:
        files: The files to write, in the answer's order; empty if there are faults.
        deleted: The paths to delete; empty if there are faults.
        questions: Its questions.
        contested: Tests that it says no implementation can pass, each with the reason.
        usage: The cost it states, or None.
        faults: Why it is rejected, each with its line; empty if it is accepted.
        notes: What was ignored, each with its line; no reason to reject it.
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
        """Whether it writes or deletes a file, or contests a test."""
        return bool(self.files or self.deleted or self.contested)


def _no_refusal(path: str) -> str | None:
    del path
    return None


def parse_answer(
    text: str, *, refuse: Callable[[str], str | None] = _no_refusal, files: bool = True
) -> Answer:
    """Parse an answer.

    Args:
        text: The answer.
        refuse: Returns why a well-formed path may not be written, or None.
        files: Whether it can contain files; those of an agent that edits in place are prose.

    Returns:
        Its parts; no files if there is any fault.
    """
    reader = _AnswerReader(refuse, files=files)
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    reader.read(lines, first=1, depth=0)
    return reader.answer()


class _AnswerReader:
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
        """Read a block that may wrap a whole answer; any other is prose."""
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
        faults = Faults()
        take = {
            "usage": self._take_usage,
            "contest": self._take_contest,
            "questions": self._take_questions,
        }[kind]
        above = "\n" * block.line  # shifts node lines to the answer's
        read_node(above + text, faults, lambda root: take(root, faults), kind)
        self._faults += faults.sorted()

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

    def _take_usage(self, root: Node, faults: Faults) -> None:
        fields = Fields(root, "usage", faults)
        given, made = (
            fields.read(name, "a whole number", as_whole, required=True)
            for name in ("input_tokens", "output_tokens")
        )
        if given is None or made is None:
            return
        try:
            self._usage = TokenUsage(input_tokens=given, output_tokens=made)
        except ValueError as error:
            fields.fault("", str(error))

    def _take_contest(self, root: Node, faults: Faults) -> None:
        tests = Fields({"contest": _listed(root)}, "", faults)
        for fields in tests.each("contest", most=MAX_CONTESTED):
            test, reason = (
                fields.text(key, required=True, judge=filled) for key in ("test", "reason")
            )
            fields.done()
            if test is not None and reason is not None:
                self._contested.append((test.strip(), reason.strip()[:_MAX_TEXT]))

    def _take_questions(self, root: Node, faults: Faults) -> None:
        asked = [_spelled(one, "prompt") for one in _listed(root)]
        for fields in Fields({"questions": asked}, "", faults).each(
            "questions", most=MAX_QUESTIONS
        ):
            question = _question(fields)
            if question is not None:
                self._questions.append(question)


def _listed(root: Node) -> list[Node]:
    return root if isinstance(root, list) else [root]


def _spelled(node: Node, name: str) -> Node:
    """Return the mapping that a text abbreviates; any other node unchanged."""
    return {name: node} if isinstance(node, Scalar) and node.is_text else node


def _prose(text: str) -> str | None:
    over = f"has more than {_MAX_TEXT:,} characters" if len(text) > _MAX_TEXT else None
    return filled(text) or over


def _question(fields: Fields) -> AgentQuestion | None:
    """Return a question; None if it has faults, which are recorded."""
    before = len(fields.faults)
    prompt = fields.text("prompt", required=True, judge=_prose)
    title = fields.text("title", judge=_prose)
    multi = fields.flag("multi_select")
    labels: dict[str, str | None] = {}
    nodes = [_spelled(one, "label") for one in fields.items("options", most=MAX_OPTIONS)]
    for option in Fields({"options": nodes}, fields.where, fields.faults).each("options"):
        label = option.text("label", required=True, judge=filled)
        if label in labels:
            option.fault("label", f"{label!r} stands twice; each option has a label of its own")
        elif label is not None:
            labels[label] = option.text("description")
        option.done()
    fields.done()
    if prompt is None or len(fields.faults) > before:
        return None
    try:
        options = [AgentOption(label=one, description=about) for one, about in labels.items()]
        return AgentQuestion(
            prompt=prompt.strip(), title=title or prompt[:40], options=options, multi_select=multi
        )
    except InvalidQuestions as error:
        for fault in error.faults:
            fields.fault("", fault)
    return None


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
