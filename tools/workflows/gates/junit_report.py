"""Reads a JUnit XML report: every case at any depth, of any writer; pure.

There is no single schema: suites may be nested, cases may be beside suites, totals are wrong. So
each `testcase` counts at any place, and the totals of suites are ignored. The judged code writes
the report: a document type, and with it every entity, is rejected, and so is a report that is too
large or too deep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from xml.parsers import expat

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
