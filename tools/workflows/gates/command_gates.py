"""Gates that run a project's own tests with a command and read its report.

The command, its reporter and the tests belong to the agent and the project: a report counts only as
far as it agrees with the exit code, is new, and has every name that was there before.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import evolve

from ...base.errors import counted
from ...harness.ports import PhaseResult
from ..documents.specification import Component
from ..gate_port import CommandExecution, CommandRequest, GateCommands
from ..workflow import Gate
from .command_verdicts import judge_exit_code, judge_green, judge_red
from .report_formats import read_junit, read_tap
from .test_reports import Outcomes, UnreadableReport, gathered, named
from .verdict import GateInput, Verdict, failed, output_of

_NOTHING_COLLECTED: Final = 5
"""The exit code of pytest, and of unittest from Python 3.12 on, if no test was collected."""
_NO_TESTS: Final = re.compile(
    r"no tests (were )?(found|ran|collected|to run)|no tests? files? (were )?found|"
    r"no test files|collected 0 items|file or directory not found|could not find '[^']*test",
    re.IGNORECASE,
)
"""The messages of pytest, unittest, jest, vitest, mocha, node:test, gotestsum without tests."""


def run_command_gate(gate: Gate, given: GateInput, commands: GateCommands) -> Verdict:
    """Run a project's tests with the gate's command and judge the result.

    Raises:
        GateUnavailable: The command can't run on this machine.
    """
    request = request_of(gate, given.component, given.import_root)
    before = given.before
    seconds = 0.0
    if gate.kind == "tests_fail" and before is None and given.base:
        execution = commands.run(request, files=given.base)
        seconds += execution.result.duration_s
        found = read_base(gate, execution)
        if isinstance(found, Verdict):
            return evolve(found, duration_s=seconds)
        before = found
    execution = _run(request, given, commands)
    seconds += execution.result.duration_s
    if gate.report == "exit-code" and execution.missing is None:
        verdict = judge_exit_code(gate, given, execution)
    else:
        found = read_run(gate, execution, alone=False)
        if isinstance(found, Verdict):
            verdict = found
        elif gate.kind == "tests_fail":
            verdict = judge_red(gate, given, found, before)
        else:
            verdict = judge_green(gate, given, found, execution)
    return evolve(
        verdict,
        duration_s=seconds,
        facts={**verdict.facts, "command": gate.command, "sealed": execution.sealed},
    )


def _run(request: CommandRequest, given: GateInput, commands: GateCommands) -> CommandExecution:
    """Run the command on the files that the gate judges."""
    if given.folder is None:
        return commands.run(request, files=given.files)
    return commands.run(
        request,
        files={path: data for path, data in given.instead.items() if data is not None},
        folder=given.folder,
        left_out=[path for path, data in given.instead.items() if data is None],
    )


def read_base(gate: Gate, execution: CommandExecution) -> Outcomes | Verdict:
    """Return the cases of a run on the base, or the verdict on an unusable base."""
    found = read_run(gate, execution, alone=True)
    code = execution.result.exit_code
    if gate.kind == "tests_fail" and gate.report == "exit-code" and code != 0:
        found = failed(
            gate,
            f"the command failed already (exit code {code}), so its failing now would say nothing",
            output_of(execution.result),
        )
    elif gate.report != "exit-code" and isinstance(found, Outcomes):
        found = _unexplained(gate, execution, found) or found
    if isinstance(found, Verdict):
        return evolve(found, summary=f"on the base, before anything was written: {found.summary}")
    return found


def _unexplained(gate: Gate, execution: CommandExecution, found: Outcomes) -> Verdict | None:
    """Return the verdict on a base whose command fails for another reason than its tests.

    No agent can fix such a command with the files it writes: an unwritable cache, a broken
    configuration, an error outside of any test. A base without tests is not such a failure.
    """
    result = execution.result
    if result.exit_code == 0 or found.bad or (not found.cases and _has_no_test(result)):
        return None
    return failed(
        gate,
        f"the command ended with {result.exit_code}, and names no test that failed",
        output_of(result),
    )


def _has_no_test(result: PhaseResult) -> bool:
    """Return whether a run failed for lack of tests, by its exit code or its output."""
    said = f"{result.stdout}\n{result.stderr}"
    return result.exit_code == _NOTHING_COLLECTED or _NO_TESTS.search(said) is not None


def request_of(
    gate: Gate, component: Component | None = None, import_root: str | None = None
) -> CommandRequest:
    """Return the request to the port for a gate and the component it judges.

    Args:
        gate: The gate.
        component: The component, or None.
        import_root: Where imports of the project's Python begin, if no component says.
    """
    assert gate.command is not None  # noqa: S101 (the workflow was checked)
    if component is not None:
        import_root = component.root if component.is_python else None
    return CommandRequest(
        command=gate.command,
        report=gate.report,
        report_path=gate.report_path,
        deadline_s=gate.deadline_s,
        import_root=import_root,
    )


# ------------------------------------------------------------------------------------- the report


def read_run(gate: Gate, execution: CommandExecution, *, alone: bool) -> Outcomes | Verdict:
    """Return the cases of a run, or the verdict on an unusable run.

    Args:
        gate: The gate.
        execution: The run.
        alone: Whether this is the baseline, which may have no tests.
    """
    result = execution.result
    output = output_of(result)
    halted = _halted(gate, execution)
    if halted is not None:
        return halted
    if gate.report == "exit-code":
        return gathered(())
    if not execution.reports:
        if alone and result.exit_code != 0:
            return gathered(())  # without tests many runners fail and report nothing
        return failed(
            gate,
            f"the command left no report (exit code {result.exit_code}), so nothing is known of "
            "the tests",
            [f"It has to write {_where(gate)}.", *output],
        )
    try:
        outcomes = gathered(
            case for data in execution.reports.values() for case in _READERS[gate.report](data)
        )
    except UnreadableReport as error:
        return failed(gate, f"the report {error.problem}", output)
    return outcomes if alone else (_disagreement(gate, execution, outcomes) or outcomes)


def _halted(gate: Gate, execution: CommandExecution) -> Verdict | None:
    """Return the verdict if the tests were ended early or never started."""
    result, output = execution.result, output_of(execution.result)
    if result.trapped is not None:
        limits = ", ".join(result.limit_problems())
        return failed(gate, f"the tests did not come to their end: {limits}", output)
    if execution.missing is not None:
        summary = f"a program of the command was not found (exit code {result.exit_code})"
        return failed(gate, summary, [execution.missing, *output])
    return None


_READERS: Final = {"junit": read_junit, "tap": read_tap}


def _where(gate: Gate) -> str:
    if gate.report == "tap":
        return "its report to standard output, in the Test Anything Protocol"
    if gate.report_path is not None:
        return f"{gate.report_path}, as JUnit XML"
    return "JUnit XML to the file that the variable AGENTFORGE_REPORT names"


def _disagreement(gate: Gate, execution: CommandExecution, outcomes: Outcomes) -> Verdict | None:
    """Return the verdict if exit code and report disagree."""
    code, bad = execution.result.exit_code, outcomes.bad
    if not outcomes.cases:
        return failed(
            gate,
            f"the report names no test (exit code {code})",
            ["A run of nothing is no evidence.", *output_of(execution.result)],
        )
    if code == 0 and bad:
        return failed(
            gate,
            f"the command ended with 0, and its report says that {counted(len(bad), 'test')} "
            "failed",
            [f"These failed: {named(bad)}", "An exit code of 0 has to mean that all passed."],
        )
    if code != 0 and not bad:
        return failed(
            gate,
            f"the command ended with {code}, and its report names no test that failed",
            output_of(execution.result),
        )
    return None
