"""Reads a report in the Test Anything Protocol, versions 12 to 14, with subtests; pure.

Each level has to declare its number of points: a run that was cut short has no plan, or one that
does not match.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import define, field

from .junit_report import MAX_REPORT_BYTES
from .test_reports import MAX_CASES, MAX_TEXT_CHARS, Case, Outcome, UnreadableReport

_INDENT: Final = 4
_MAX_LEVELS: Final = 50
_POINT: Final = re.compile(r"(not )?ok\b(?:\s+(\d+))?(?:\s+-)?\s*(.*)")
_PLAN: Final = re.compile(r"1\.\.(\d+)(?:\s*#.*)?")
_SUBTEST: Final = re.compile(r"# Subtest(?::\s*(.*))?")
_DIRECTIVE: Final = re.compile(r"(?<!\\)#\s*(SKIP|TODO)\b", re.IGNORECASE)
_MAX_NAME_CHARS: Final = 1_000


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
