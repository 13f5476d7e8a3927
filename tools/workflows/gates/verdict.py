"""What gates judge and what they decide: values, no effects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from attrs import define, field, frozen

from ...harness import PhaseResult
from ..converters import as_tuple, plain
from ..documents.component_files import is_python_test, is_test_path
from ..documents.specification import Component
from ..workflow import Gate
from .suite_outcomes import Outcomes

MAX_PIECE_CHARS: Final = 1_500
"""The most that a verdict shows of one text."""


def _frozen_facts(value: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(value))


@frozen(kw_only=True)
class Verdict:
    """What a gate decided.

    Attributes:
        gate: Its kind.
        passed: Whether the phase is passed.
        summary: Why, in one line.
        evidence: What the agent needs to know to do better; empty when there is nothing to say.
        duration_s: How long the gate ran in the sandbox, in seconds.
        facts: Counts, digests and names, as JSON has them.
    """

    gate: str
    passed: bool
    summary: str
    evidence: tuple[str, ...] = field(default=(), converter=as_tuple)
    duration_s: float = 0.0
    facts: Mapping[str, Any] = field(factory=dict, converter=_frozen_facts, hash=False)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        found: dict[str, Any] = plain(self)
        return found

    @property
    def outcome(self) -> str:
        """Whether it was passed, in a word."""
        return "passed" if self.passed else "failed"


@frozen(kw_only=True)
class GateInput:
    """What a gate judges.

    Attributes:
        files: All files of the workspace, by path.
        component: The component that is developed, or None.
        written: The files that the phase's answer wrote.
        baseline: The facts of the last passed `tests_fail` gate, or None.
        base: The files that there were before the first phase, by path.
        answered: Questions that the person answered, with the answers.
        token: A text that no test can know beforehand: it names the gate's result.
        folder: The workspace, for a gate whose command sees more of it than `files`; or None.
        instead: Files that the command sees otherwise than the workspace has them: their content,
            or None where they are not to be there.
        names: The paths of all files of the workspace, where `files` are not all.
        before: What the gate's command said of the base, or None where that is not known.
        test_paths: The files that are tests, where no component says it.
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

    @property
    def locked(self) -> dict[str, str]:
        """The SHA-256 of each file that belongs to the tests."""
        return {
            path: hashlib.sha256(data).hexdigest()
            for path, data in sorted(self.files.items())
            if (self.component is not None and is_test_path(self.component, path))
            or path in self.test_paths
        }

    @property
    def test_files(self) -> tuple[str, ...]:
        """The files that hold tests of Python."""
        return tuple(path for path in self.locked if is_python_test(path))


def failed(gate: Gate, summary: str, evidence: Iterable[str] = (), **facts: Any) -> Verdict:
    """Return the verdict of a gate that is not passed."""
    return Verdict(gate=gate.kind, passed=False, summary=summary, evidence=evidence, facts=facts)


def not_taken(summary: str, evidence: Iterable[str], **facts: Any) -> Verdict:
    """Return the verdict on an answer that the gate is not asked about."""
    return Verdict(gate="answer", passed=False, summary=summary, evidence=evidence, facts=facts)


def passed(gate: Gate, summary: str, **facts: Any) -> Verdict:
    """Return the verdict of a gate that is passed."""
    return Verdict(gate=gate.kind, passed=True, summary=summary, facts=facts)


@define
class Objections:
    """What speaks against a phase.

    Attributes:
        short: Each kind of it in a few words, for the summary.
        evidence: All of it, for the next prompt.
    """

    short: list[str] = field(factory=list)
    evidence: list[str] = field(factory=list)

    def add(self, short: str, evidence: Sequence[str]) -> None:
        """Take one kind of it; nothing where there is no evidence."""
        if evidence:
            self.short.append(short)
            self.evidence += evidence

    def uncovered(self, test: str, evidence: Sequence[str]) -> None:
        """Take the acceptance criteria that have no test of a kind."""
        one, many = f"criterion has no {test}", f"criteria have no {test}"
        self.add(f"{len(evidence)} acceptance {one if len(evidence) == 1 else many}", evidence)

    def verdict(self, gate: Gate, success: str, facts: Mapping[str, Any]) -> Verdict:
        """Return the verdict: passed, with these words, where nothing speaks against it."""
        if self.short or self.evidence:
            return failed(gate, "; ".join(self.short), self.evidence, **facts)
        return passed(gate, success, **facts)


def do_not(number: int) -> str:
    """Return what so many do not: "1 of 3 tests does not pass", "2 of 3 tests do not pass"."""
    return "does not" if number == 1 else "do not"


def output_of(result: PhaseResult) -> list[str]:
    """Return the ends of what was printed, for the evidence."""
    pieces = []
    for name, text in (("stderr", result.stderr), ("stdout", result.stdout)):
        if text.strip():
            pieces.append(f"{name} (its end):\n{text.strip()[-MAX_PIECE_CHARS:]}")
    return pieces
