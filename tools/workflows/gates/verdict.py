"""The input and the verdict of gates: values, no effects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field, frozen

from ...harness import PhaseResult
from ..converters import as_tuple, plain
from ..documents.specification import Component, is_python_test, is_test_path
from ..workflow import Gate
from .test_reports import Outcomes

MAX_PIECE_CHARS: Final = 1_500
"""The longest excerpt of one text in a verdict."""


def _frozen_facts(value: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(value))


@frozen(kw_only=True)
class Verdict:
    """The decision of a gate.

    Attributes:
        gate: Its kind.
        passed: Whether the phase is passed.
        summary: The reason, in one line.
        evidence: What the agent needs to know to do better; empty if there is nothing to say.
        duration_s: How long the gate ran in the sandbox, in seconds.
        facts: Counts, digests and names, as JSON data.
    """

    gate: str
    passed: bool
    summary: str
    evidence: tuple[str, ...] = field(default=(), converter=as_tuple)
    duration_s: float = 0.0
    facts: Mapping[str, Any] = field(factory=dict, converter=_frozen_facts, hash=False)

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON data."""
        found: dict[str, Any] = plain(self)
        return found

    @property
    def outcome(self) -> str:
        """Whether the phase passed, in one word."""
        return "passed" if self.passed else "failed"


@frozen(kw_only=True)
class GateInput:
    """The input of a gate.

    Attributes:
        files: All files of the workspace, by path.
        component: The component that is developed, or None.
        written: The files written by the phase's answer.
        baseline: The facts of the last passed `tests_fail` gate, or None.
        base: The files before the first phase, by path.
        answered: Questions that the person answered, with the answers.
        token: A text that no test can predict: it names the gate's result.
        folder: The workspace, for a gate whose command sees more of it than `files`; or None.
        instead: Files that the command sees with another content than the workspace has, or not at
            all (None).
        names: The paths of all files of the workspace, if `files` is not complete.
        before: The result of the gate's command on the base, or None if unknown.
        test_paths: The test files, if no component names them.
        import_root: The folder where imports of the project's Python begin, if no component says.
    """

    files: Mapping[str, bytes] = field(repr=False)
    component: Component | None = None
    written: tuple[str, ...] = field(default=(), converter=as_tuple)
    baseline: Mapping[str, Any] | None = None
    base: Mapping[str, bytes] = field(factory=dict, repr=False)
    answered: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    token: str = "result"  # noqa: S105 (part of a file name)
    folder: Path | None = None
    instead: Mapping[str, bytes | None] = field(factory=dict, repr=False)
    names: tuple[str, ...] = field(default=(), converter=as_tuple, repr=False)
    before: Outcomes | None = field(default=None, repr=False)
    test_paths: tuple[str, ...] = field(default=(), converter=as_tuple)
    import_root: str | None = None

    @property
    def locked(self) -> dict[str, str]:
        """The SHA-256 of each test file."""
        return {
            path: hashlib.sha256(data).hexdigest()
            for path, data in sorted(self.files.items())
            if (self.component is not None and is_test_path(self.component, path))
            or path in self.test_paths
        }

    @property
    def test_files(self) -> tuple[str, ...]:
        """The Python test files."""
        return tuple(path for path in self.locked if is_python_test(path))


def failed(gate: Gate, summary: str, evidence: Iterable[str] = (), **facts: Any) -> Verdict:
    """Return the verdict of a gate that is not passed."""
    return Verdict(gate=gate.kind, passed=False, summary=summary, evidence=evidence, facts=facts)


def not_taken(summary: str, evidence: Iterable[str], **facts: Any) -> Verdict:
    """Return the verdict on an answer that is rejected before its gate runs."""
    return Verdict(gate="answer", passed=False, summary=summary, evidence=evidence, facts=facts)


def passed(gate: Gate, summary: str, **facts: Any) -> Verdict:
    """Return the verdict of a gate that is passed."""
    return Verdict(gate=gate.kind, passed=True, summary=summary, facts=facts)


@define
class Objections:
    """The objections against a phase.

    Attributes:
        short: Each kind of objection in a few words, for the summary.
        evidence: All of them, for the next prompt.
    """

    short: list[str] = field(factory=list)
    evidence: list[str] = field(factory=list)

    def add(self, short: str, evidence: Sequence[str]) -> None:
        """Add one kind of objection; do nothing without evidence."""
        if evidence:
            self.short.append(short)
            self.evidence += evidence

    def uncovered(self, test: str, evidence: Sequence[str]) -> None:
        """Add acceptance criteria that have no test of a kind."""
        one, many = f"criterion has no {test}", f"criteria have no {test}"
        self.add(f"{len(evidence)} acceptance {one if len(evidence) == 1 else many}", evidence)

    def verdict(self, gate: Gate, success: str, facts: Mapping[str, Any]) -> Verdict:
        """Return the verdict: passed, with the words of `success`, if there is no objection."""
        if self.short or self.evidence:
            return failed(gate, "; ".join(self.short), self.evidence, **facts)
        return passed(gate, success, **facts)


def do_not(number: int) -> str:
    """Return the verb for a count: "1 of 3 tests does not pass", "2 of 3 tests do not pass"."""
    return "does not" if number == 1 else "do not"


def output_of(result: PhaseResult) -> list[str]:
    """Return the ends of a run's output, for the evidence."""
    pieces = []
    for name, text in (("stderr", result.stderr), ("stdout", result.stdout)):
        if text.strip():
            pieces.append(f"{name} (its end):\n{text.strip()[-MAX_PIECE_CHARS:]}")
    return pieces
