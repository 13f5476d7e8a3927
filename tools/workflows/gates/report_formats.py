"""Reads test reports; pure.

JUnit's XML: every case at any depth, of any writer. The Test Anything Protocol: versions 12 to 14,
with subtests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from xml.parsers import expat

from attrs import define, field

from .test_reports import MAX_CASES, MAX_TEXT_CHARS, Case, Outcome, UnreadableReport

MAX_REPORT_BYTES: Final = 32 << 20
_MAX_DEPTH: Final = 100
_MAX_NAME_CHARS: Final = 1_000
_OUTCOMES: Final[Mapping[str, Outcome]] = {
    "failure": Outcome.FAILED,
    "error": Outcome.ERROR,
    "skipped": Outcome.SKIPPED,
    # Surefire's: it failed, and passed on a rerun.
    "flakyFailure": Outcome.FAILED,
    "flakyError": Outcome.ERROR,
    "rerunFailure": Outcome.FAILED,
    "rerunError": Outcome.ERROR,
}
_NOT_RUN: Final = frozenset({"notrun", "skipped", "disabled", "suppressed"})
_INDENT: Final = 4
_MAX_LEVELS: Final = 50
_POINT: Final = re.compile(r"(not )?ok\b(?:\s+(\d+))?(?:\s+-)?\s*(.*)")
_PLAN: Final = re.compile(r"1\.\.(\d+)(?:\s*#.*)?")
_SUBTEST: Final = re.compile(r"# Subtest(?::\s*(.*))?")
_DIRECTIVE: Final = re.compile(r"(?<!\\)#\s*(SKIP|TODO)\b", re.IGNORECASE)


def read_junit(data: bytes) -> list[Case]:
    """Return a report's cases.

    Raises:
        UnreadableReport: It is not XML, is not a report, or exceeds a limit.
    """
    if len(data) > MAX_REPORT_BYTES:
        raise UnreadableReport(f"has more than {MAX_REPORT_BYTES:,} bytes")
    return _Reader().read(data)


class _Reader:
    """One parse; expat calls the handlers in document order."""

    def __init__(self) -> None:
        self._cases: list[Case] = []
        self._elements: list[str] = []
        self._suites: list[str] = []
        self._name: str | None = None
        self._outcome = Outcome.PASSED
        self._text: list[str] = []
        self._room = 0

    def read(self, data: bytes) -> list[Case]:
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = self._refuse_type
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.buffer_text = True
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise UnreadableReport(f"is no XML ({error})") from None
        return self._cases

    @staticmethod
    def _refuse_type(*_: object) -> None:
        raise UnreadableReport("declares a document type, which no report needs")

    def _start(self, tag: str, attributes: dict[str, Any]) -> None:
        tag = tag.rpartition(":")[2]
        if not self._elements and tag not in {"testsuites", "testsuite"}:
            raise UnreadableReport(f"begins with {tag[:40]!r}, and is no report of tests")
        self._elements.append(tag)
        if len(self._elements) > _MAX_DEPTH:
            raise UnreadableReport(f"is deeper than {_MAX_DEPTH} elements")
        if tag == "testsuite":
            self._suites.append(str(attributes.get("name") or "")[:_MAX_NAME_CHARS])
        elif tag == "testcase":
            if self._name is not None:
                raise UnreadableReport("has a case within a case")
            self._begin_case(attributes)
        elif tag in _OUTCOMES:
            self._take_outcome(_OUTCOMES[tag], attributes)

    def _begin_case(self, attributes: Mapping[str, Any]) -> None:
        if len(self._cases) >= MAX_CASES:
            raise UnreadableReport(f"holds more than {MAX_CASES:,} cases")
        given = [str(attributes.get(key) or "")[:_MAX_NAME_CHARS] for key in ("classname", "name")]
        parts: list[str] = []
        for part in (*self._suites, *given):
            if part and (not parts or part != parts[-1]):
                parts.append(part)
        self._name = "::".join(parts) or "(a case without a name)"
        states = {str(attributes.get(key) or "").lower() for key in ("status", "result")}
        self._outcome = Outcome.SKIPPED if states & _NOT_RUN else Outcome.PASSED
        self._text, self._room = [], MAX_TEXT_CHARS

    def _take_outcome(self, outcome: Outcome, attributes: Mapping[str, Any]) -> None:
        said = " ".join(str(attributes[key]) for key in ("type", "message") if attributes.get(key))
        if self._name is None:  # of a whole suite, as when its file could not be loaded
            name = "::".join(filter(None, self._suites)) or "(the whole run)"
            self._cases.append(Case(name=name, outcome=outcome, text=said[:MAX_TEXT_CHARS]))
            return
        self._outcome = max(self._outcome, outcome)
        self._add(said)

    def _characters(self, text: str) -> None:
        if self._name is not None and self._elements[-1] in _OUTCOMES:
            self._add(text)

    def _add(self, text: str) -> None:
        if self._room > 0 and text.strip():
            self._text.append(text.strip()[: self._room])
            self._room -= len(self._text[-1])

    def _end(self, tag: str) -> None:
        tag = tag.rpartition(":")[2]
        self._elements.pop()
        if tag == "testsuite":
            self._suites.pop()
        elif tag == "testcase" and self._name is not None:
            self._cases.append(
                Case(name=self._name, outcome=self._outcome, text="\n".join(self._text))
            )
            self._name = None


@define
class _Level:
    """One level of points: the whole run, or a subtest."""

    name: str
    plan: int | None = None
    points: int = 0
    next_name: str | None = None
    cases: list[Case] = field(factory=list)

    def faults(self, where: str) -> str | None:
        if self.plan is None:
            return f"has no plan{where}: the run was cut short"
        if self.plan != self.points:
            return f"has {self.points} of {self.plan} planned tests{where}: the run was cut short"
        return None


def read_tap(data: bytes) -> list[Case]:
    """Return a report's cases; a subtest's names are prefixed with those of its parents.

    Raises:
        UnreadableReport: It is not a report, or was cut short.
    """
    if len(data) > MAX_REPORT_BYTES:
        raise UnreadableReport(f"has more than {MAX_REPORT_BYTES:,} bytes")
    reader = _TapReader()
    for line in data.decode("utf-8", "replace").splitlines():
        reader.take(line)
    return reader.ended()


class _TapReader:
    def __init__(self) -> None:
        self._levels = [_Level("")]
        self._cases: list[Case] = []
        self._in_block = False
        self._block: list[str] = []

    def take(self, line: str) -> None:
        text = line.strip()
        if self._in_block:
            self._in_block = text not in {"...", "---"}
            if self._in_block:
                self._block.append(text)
            else:
                self._end_block()
            return
        if text == "---":
            self._in_block = True
            return
        indent = len(line) - len(line.lstrip(" "))
        match_point = _POINT.fullmatch(text)
        match_plan = _PLAN.fullmatch(text)
        if text.startswith("Bail out!"):
            raise UnreadableReport(f"says {text[:200]!r}: the run was given up")
        subtest = _SUBTEST.fullmatch(text)
        if subtest is not None:
            self._level(indent // _INDENT).next_name = (subtest[1] or "")[:_MAX_NAME_CHARS]
        elif match_plan is not None:
            level = self._level(indent // _INDENT)
            if level.plan is not None:
                raise UnreadableReport("has two plans")
            level.plan = int(match_plan[1][:9])
        elif match_point is not None and indent % _INDENT == 0:
            self._point(self._level(indent // _INDENT), match_point)

    def ended(self) -> list[Case]:
        """Return the cases at the end of the run."""
        self._level(0)
        problem = self._levels[0].faults("")
        if problem is not None:
            raise UnreadableReport(problem)
        return self._cases

    def _level(self, depth: int) -> _Level:
        """Return the level of a depth, ending all deeper levels."""
        depth = min(depth, len(self._levels))
        if depth > _MAX_LEVELS:
            raise UnreadableReport(f"is deeper than {_MAX_LEVELS} subtests")
        while len(self._levels) > depth + 1:
            ended = self._levels.pop()
            problem = ended.faults(f" in {ended.name!r}" if ended.name else " in a subtest")
            if problem is not None:
                raise UnreadableReport(problem)
        if depth == len(self._levels):
            above = self._levels[-1]
            self._levels.append(_Level(above.next_name or ""))
        return self._levels[-1]

    def _point(self, level: _Level, match: re.Match[str]) -> None:
        level.points += 1
        level.next_name = None
        if len(self._cases) >= MAX_CASES:
            raise UnreadableReport(f"holds more than {MAX_CASES:,} cases")
        described = match[3]
        directive = _DIRECTIVE.search(described)
        name = (described[: directive.start()] if directive else described).strip()
        above = [one.name for one in self._levels[1:] if one.name]
        number = match[2] or str(level.points)
        outcome = Outcome.FAILED if match[1] else Outcome.PASSED
        if directive is not None:
            outcome = Outcome.SKIPPED
        self._cases.append(
            Case(name="::".join([*above, name[:_MAX_NAME_CHARS] or number]), outcome=outcome)
        )

    def _end_block(self) -> None:
        """Assign the block of details to the last point, which it belongs to."""
        text = "\n".join(self._block)[:MAX_TEXT_CHARS]
        self._block = []
        if self._cases:
            last = self._cases[-1]
            self._cases[-1] = Case(name=last.name, outcome=last.outcome, text=text)
