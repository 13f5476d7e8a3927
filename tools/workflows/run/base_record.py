"""What the gates' commands reported on the base, before anything was written: run once, and stored.

It is a step of the session's journal, so that a later return to a red phase is compared with the
same base, and the later phases know what already failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import field, frozen

from ...base.errors import counted
from ..converters import made, plain
from ..gate_port import CommandRequest
from ..gates.test_reports import Case, Outcome, Outcomes, gathered, named
from ..workflow import Gate, Script
from .step_journal import StepJournal

BASE_STEP: Final = "0000-base.json"


@frozen(kw_only=True)
class BaseRun:
    """One command's run on the base.

    Attributes:
        command: The command.
        report: The form of its report.
        report_path: The path of its report, or None.
        exit_code: Its exit code.
        sealed: Whether it was cut off from every network.
        outcomes: Its tests.
    """

    command: str
    report: str
    report_path: str | None
    exit_code: int | None
    sealed: bool
    outcomes: Outcomes = field(repr=False)

    def is_of(self, gate: Gate | CommandRequest) -> bool:
        """Return whether this is the run of a gate's command."""
        return (self.command, self.report, self.report_path) == (
            gate.command,
            gate.report,
            gate.report_path,
        )

    @property
    def failed(self) -> bool:
        """Whether a test failed, or the command where no test has a name."""
        return bool(self.outcomes.bad) or (self.report == "exit-code" and self.exit_code != 0)

    @property
    def in_words(self) -> str:
        """Its result, in words for people and agents."""
        begin = f"Before anything was written, `{self.command}` ended with {self.exit_code}"
        if self.report == "exit-code":
            return f"{begin}."
        cases = self.outcomes
        if not cases.cases:
            return f"{begin}, and there was no test."
        counts = [f"{len(cases.having(Outcome.PASSED))} passed", f"{len(cases.bad)} failed"]
        skipped = len(cases.having(Outcome.SKIPPED))
        if skipped:
            counts.append(f"{skipped} {'was' if skipped == 1 else 'were'} skipped")
        text = f"{begin}: of {counted(len(cases.cases), 'test')} {', '.join(counts)}."
        return f"{text} These failed: {named(cases.bad)}." if cases.bad else text


@frozen(kw_only=True)
class BaseRecord:
    """The known facts of the base.

    Attributes:
        runs: The runs of the gates' commands.
        files: The base's version of the component's files.
        there: The files of the base that a phase may write.
    """

    runs: tuple[BaseRun, ...] = ()
    files: Mapping[str, bytes] = field(factory=dict, repr=False, hash=False)
    there: tuple[str, ...] = ()

    def run_of(self, gate: Gate) -> BaseRun | None:
        """Return the run of a gate's command, or None."""
        return next((run for run in self.runs if run.is_of(gate)), None)


def kept_base(steps: StepJournal) -> BaseRecord | None:
    """Return the stored record of the base; None if there is none.

    Raises:
        ReadError: It can't be read.
    """
    found = steps.read(BASE_STEP)
    return None if found is None else steps.made(BASE_STEP, lambda: _record(found))


def keep_base(steps: StepJournal, record: BaseRecord) -> None:
    """Save the record of the base.

    Raises:
        WriteError: The disk or its permissions.
    """
    steps.write(
        BASE_STEP,
        {
            "text": "\n".join(run.in_words for run in record.runs) or "No command was run on it.",
            "runs": [
                {
                    **plain(run),
                    "outcomes": None,
                    "cases": {
                        name: case.outcome.in_words for name, case in run.outcomes.cases.items()
                    },
                    "duplicates": dict(run.outcomes.duplicates),
                }
                for run in record.runs
            ],
            "files": plain(record.files),
            "there": plain(record.there),
        },
    )


def base_in_words(record: BaseRecord | None, gate: Gate | Script) -> str | None:
    """Return what a gate's command reported on the base, or None."""
    if record is None or not isinstance(gate, Gate) or gate.command is None:
        return None
    run = record.run_of(gate)
    return None if run is None else run.in_words


def _record(found: Mapping[str, Any]) -> BaseRecord:
    runs = [
        made(BaseRun, run, outcomes=_outcomes(run["cases"], run["duplicates"]))
        for run in found["runs"]
    ]
    return made(BaseRecord, found, runs=tuple(runs))


def _outcomes(cases: Mapping[str, str], duplicates: Mapping[str, int]) -> Outcomes:
    def each() -> Iterable[Case]:
        for name, outcome in cases.items():
            yield from [Case(name=name, outcome=Outcome[outcome.upper()])] * duplicates.get(name, 1)

    return gathered(each())
