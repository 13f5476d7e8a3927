"""Gates: decide whether a phase passes, from its files and from running them.

The decisions are pure: files and a test run's result in, a verdict out. `run_gate` is the one
function with an effect, the call of the sandbox between the two. A gate sees a copy of the files,
so running it twice, as after a kill, gives the same verdict and leaves nothing behind.
"""

from __future__ import annotations

from typing import Final

from attrs import evolve

from ...base.errors import counted
from ..documents.specification_document import read_specification
from ..gate_port import GateCommands, GateSandbox, GateUnavailable
from ..workflow import TEST_GATES, Gate
from .command_gates import run_command_gate
from .gate_guest import script_code
from .suite_gates import run_tests
from .verdict import MAX_PIECE_CHARS, GateInput, Objections, Verdict, failed, output_of, passed

MAX_EVIDENCE_CHARS: Final = 12_000
"""The longest evidence of a verdict in all, because it goes into the next prompt."""


def run_gate(
    gate: Gate, given: GateInput, sandbox: GateSandbox, commands: GateCommands | None = None
) -> Verdict:
    """Judge a phase.

    Args:
        gate: The gate; every kind but `approval`, which only a person can decide.
        given: What to judge.
        sandbox: Runs the gate's code.
        commands: Runs the gate's command, if it has one.

    Raises:
        GateUnavailable: The phase can't be judged on this machine.
    """
    early = _before(gate, given)
    if early is not None:
        return early
    if gate.command is not None:
        if commands is None:
            raise GateUnavailable("it runs a command, and this runner has no jail for commands")
        return _bounded(run_command_gate(gate, given, commands))
    if gate.kind in TEST_GATES:
        return _bounded(run_tests(gate, given, sandbox))
    if gate.kind == "specification":
        return _bounded(_judge_specification(gate, given))
    if gate.kind == "script":
        return _bounded(_run_script(gate, given, sandbox))
    said = {"plan": "there is a plan", "unchecked": "nothing was checked"}
    return passed(gate, said.get(gate.kind) or f"{', '.join(gate.require)} there and not empty")


def _before(gate: Gate, given: GateInput) -> Verdict | None:
    """Judge what needs no run."""
    missing = [path for path in gate.require if not given.files.get(path, b"").strip()]
    if missing:
        return failed(
            gate,
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing or empty",
            [f"The phase needs {path}; write it, with content." for path in missing],
        )
    if gate.tests_unchanged:
        return _changed_tests(gate, given)
    return None


def _changed_tests(gate: Gate, given: GateInput) -> Verdict | None:
    before = (given.baseline or {}).get("test_digests", {})
    now = given.locked
    changed = sorted(path for path in before if now.get(path) != before[path])
    added = sorted(path for path in now if path not in before)
    if not changed and not added:
        return None
    problems = [
        f"changed or gone since the tests were passed as they are: {path}" for path in changed
    ]
    problems += [f"added since then: {path}" for path in added]
    return failed(gate, f"{len(problems)} test files are not those of the red phase", problems)


def _bounded(verdict: Verdict) -> Verdict:
    kept: list[str] = []
    room = MAX_EVIDENCE_CHARS
    for number, piece in enumerate(verdict.evidence):
        cut = piece if len(piece) <= MAX_PIECE_CHARS else _middle_out(piece)
        if len(cut) > room:
            kept.append(f"({len(verdict.evidence) - number} more are not shown.)")
            break
        kept.append(cut)
        room -= len(cut)
    return evolve(verdict, evidence=tuple(kept))


def _middle_out(text: str) -> str:
    half = MAX_PIECE_CHARS // 2
    return f"{text[:half]}\n[…]\n{text[-half:]}"


def _judge_specification(gate: Gate, given: GateInput) -> Verdict:
    evidence: list[str] = []
    components = criteria = 0
    for path in gate.require:
        specification, faults = read_specification(given.files[path])
        evidence += [f"{path}: {fault}" for fault in faults]
        if specification is None:
            continue
        components += len(specification.components)
        criteria += sum(len(one.criteria) for one in specification.components)
        written = {_flat(question): _flat(said) for question, said in specification.clarifications}
        evidence += [
            f"{path}: clarifications lacks what the person answered: {question!r} was answered "
            f"with {answer!r}; write both word for word"
            for question, answer in dict(given.answered).items()  # asked again: the last answer
            if written.get(_flat(question)) != _flat(answer)
        ]
    facts = {"components": components, "criteria_count": criteria, "faults": len(evidence)}
    found = Objections()
    found.add(f"{counted(len(evidence), 'fault')} in the specification", evidence)
    success = f"{components} components, {criteria} acceptance criteria, no fault"
    return found.verdict(gate, success, facts)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _run_script(gate: Gate, given: GateInput, sandbox: GateSandbox) -> Verdict:
    assert gate.code is not None  # noqa: S101 (the workflow was checked)
    execution = sandbox.run(
        script_code(gate.code, sorted(given.files)),
        files=given.files,
        report=f".gate-{given.token}.json",
        deadline_s=gate.deadline_s,
    )
    result = execution.result
    if result.success:
        verdict = passed(gate, "exit code 0")
    else:
        problems = result.limit_problems()
        if result.trapped is None:
            problems.insert(0, f"exit code {result.exit_code}")
        verdict = failed(gate, ", ".join(problems), output_of(result))
    return evolve(verdict, duration_s=result.duration_s)
