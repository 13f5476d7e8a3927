"""The input of a phase's gate, and the earlier results it uses: the base, and the red tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from attrs import evolve, frozen

from ..documents.specification import Component, is_in_any, is_test_path
from ..gate_port import GateCommands, GateSandbox
from ..gates.command_gates import read_base, request_of
from ..gates.gates import run_gate
from ..gates.verdict import GateInput, Verdict
from ..ports import Stop, StopCause
from ..workflow import ANYTHING, Gate, Phase
from .agent_questions import AgentQuestions
from .base_record import BaseRecord, BaseRun, keep_base, kept_base
from .phase_change import PhaseChange
from .progress import Progress, works_on_repository
from .run_lock import LedSession
from .step_journal import StepKey, digest_of

MAX_BASE_BYTES: Final = 8 << 20
"""How much is stored of the base's version of the component's files, in bytes."""
_SAID_CHARS: Final = 600


@frozen(kw_only=True, eq=False)
class PhaseGates:
    """Judges the phases of one session, under its lock."""

    led: LedSession
    gates: GateSandbox
    commands: GateCommands | None
    questions: AgentQuestions

    def apply(self, phase: Phase, change: PhaseChange) -> dict[str, bytes]:
        """Apply a change to the workspace; return the files that the gate examines.

        Repeating an interrupted call gives the same files.
        """
        partly = not phase.agents_gate.in_sandbox
        there = self.led.files.read(change.touched if partly else None)
        written = {path: one.content for path, one in change.written.items()}
        self.led.files.apply(
            written,
            change.deleted,
            there=there,
            executable={path: one.executable for path, one in change.written.items()},
        )
        if partly:
            return self.led.files.read(self._places(phase, change))
        return {path: data for path, data in there.items() if path not in change.deleted} | written

    def _places(self, phase: Phase, change: PhaseChange) -> tuple[str, ...]:
        """Return the files and directories that a phase's gate examines itself."""
        component = self.led.job.component
        own = () if component is None else (*component.code_places, *component.tests)
        artifacts = (artifact.path for artifact in self.led.session.artifacts)
        written = [path for path in self.led.job.writable(phase) if path != ANYTHING]
        return (*self.led.job.required(phase), *own, *written, *change.touched, *artifacts)

    def judge(
        self,
        phase: Phase,
        progress: Progress,
        change: PhaseChange,
        files: dict[str, bytes],
        *,
        red: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """Return the gate's verdict; every kind but `approval`, which a person decides.

        Args:
            phase: The phase.
            progress: The session's progress.
            change: The attempt's changes, already applied.
            files: The return value of `apply`.
            red: The facts of the red tests that bind it; those of an earlier phase if None.

        Raises:
            GateUnavailable: The phase can't be judged on this machine.
        """
        gate = phase.agents_gate
        baseline = self.red(progress) if red is None else red
        commanded = gate.command is not None
        record = kept_base(self.led.steps) if commanded or gate.kind == "tests_fail" else None
        run = None if record is None else record.run_of(gate)
        instead = self._instead(phase, record, change)
        shown = {path: data for path, data in files.items() if path not in instead}
        shown |= {path: data for path, data in instead.items() if data is not None}
        verdict = run_gate(
            evolve(gate, require=self.led.job.required(phase)),
            GateInput(
                files=shown,
                component=self.led.job.component,
                written=tuple(change.written),
                baseline=baseline,
                base={one.target: one.content for one in self.led.job.inputs},
                answered=self.questions.answered(),
                token=_token(self.led.session.session_id, progress.key),
                folder=self.led.files.root if commanded else None,
                instead=instead,
                names=self.led.files.names() if commanded else (),
                import_root=self._import_root,
                before=None if run is None else run.outcomes,
                test_paths=self._test_paths(phase, baseline, change),
            ),
            self.gates,
            self.commands,
        )
        hidden = [path for path, data in instead.items() if data is None]
        if gate.kind != "suite" or verdict.passed or not hidden:
            return verdict
        said = (f"{path} is ignored by the repository, so no checkout has it." for path in hidden)
        return evolve(verdict, evidence=(*said, *verdict.evidence))

    def _instead(
        self, phase: Phase, record: BaseRecord | None, change: PhaseChange
    ) -> dict[str, bytes | None]:
        """Return the files that a gate sees with another content than the workspace has.

        Tests that are rewritten, after a return to their phase, must fail without the component,
        too; so their gate sees the base's version of the component, not what this session has
        written. A suite that must pass in a fresh checkout is judged without the new files that the
        repository ignores, because no checkout would have them.
        """
        component = self.led.job.component
        written = {artifact.path for artifact in self.led.session.artifacts}
        if phase.agents_gate.kind == "tests_fail" and component is not None:
            base = {} if record is None else record.files
            unkept = set() if record is None else set(record.there).difference(base)
            return {path: base.get(path) for path in written - unkept if _is_code(component, path)}
        if phase.agents_gate.kind == "suite" and works_on_repository(self.led.session):
            there = () if record is None else record.there
            return dict.fromkeys(
                self.led.files.ignored((written | {*change.written}).difference(there))
            )
        return {}

    def _test_paths(
        self, phase: Phase, baseline: Mapping[str, Any] | None, change: PhaseChange
    ) -> tuple[str, ...]:
        """Return the test files, if no component names them: those that were red."""
        if self.led.job.component is not None:
            return ()
        if phase.agents_gate.kind == "tests_fail":
            return tuple({*change.written, *(one.path for one in self.led.session.artifacts)})
        return tuple((baseline or {}).get("test_digests", ()))

    def red(self, progress: Progress) -> Mapping[str, Any] | None:
        """Return the facts of the red tests that bind the later phases."""
        return self.led.steps.passed(progress.keys[:-1], "tests_fail")

    # ------------------------------------------------------------------------------------ the base

    def ready_base(self, phase: Phase, progress: Progress) -> Stop | None:
        """Run the gates' commands on the base, once and before anything is written.

        Return None when the results are stored.
        """
        first = progress.key.serial == 1 and not self.led.steps.names()
        if not self.led.job.workflow.command_gates or not first or self.commands is None:
            return None
        names = self.led.files.names()
        runs: list[BaseRun] = []
        if names:
            self.led.gate_started(phase)
            for gate in self._distinct_gates():
                found = self._run_on_base(gate, self.commands)
                if isinstance(found, Stop):
                    return found
                runs.append(found)
        there = tuple(path for path in names if self._is_writable(path))
        record = BaseRecord(runs=tuple(runs), files=self._base_files(there), there=there)
        keep_base(self.led.steps, record)
        if runs:
            self.led.observer.base_judged(
                phase,
                said="\n".join(run.in_words for run in runs),
                failed=any(run.failed for run in runs),
            )
        return None

    def _base_files(self, there: Iterable[str]) -> dict[str, bytes]:
        """Return the base's files of the component, as far as they are stored."""
        component = self.led.job.component
        if component is None:
            return {}
        own = [path for path in there if _is_code(component, path)]
        kept: dict[str, bytes] = {}
        room = MAX_BASE_BYTES
        for path, content in self.led.files.read(own).items():
            if len(content) <= room:
                kept[path] = content
                room -= len(content)
        return kept

    def _distinct_gates(self) -> Iterator[Gate]:
        """Yield one gate for each command; that of the red tests if there is one."""
        gates = self.led.job.workflow.command_gates
        done: list[tuple[str | None, str, str | None]] = []
        for gate in sorted(gates, key=lambda one: one.kind != "tests_fail"):
            command = (gate.command, gate.report, gate.report_path)
            if command not in done:
                done.append(command)
                yield gate

    def _run_on_base(self, gate: Gate, commands: GateCommands) -> BaseRun | Stop:
        request = request_of(gate, self.led.job.component, self._import_root)
        execution = commands.run(request, files={}, folder=self.led.files.root)
        found = read_base(gate, execution)
        if isinstance(found, Verdict):
            said = " ".join(" ".join(found.evidence).split())
            more = f" ({said[:_SAID_CHARS]})" if said else ""
            return Stop(
                reason=f"{found.summary}{more}; nobody was asked; mend that, then resume",
                cause=StopCause.FAILED,
            )
        return BaseRun(
            command=request.command,
            report=request.report,
            report_path=request.report_path,
            exit_code=execution.result.exit_code,
            sealed=execution.sealed,
            outcomes=found,
        )

    @property
    def _import_root(self) -> str | None:
        """The folder where imports of the project begin, for work without a component."""
        work = self.led.job.work
        return None if work is None else work.import_root

    def _is_writable(self, path: str) -> bool:
        phases = self.led.job.workflow.phases
        return any(self.led.job.refusal(phase, path) is None for phase in phases if phase.writes)


def _is_code(component: Component, path: str) -> bool:
    """Return whether a path is one of a component's files but none of its tests."""
    return is_in_any(path, component.code_places) and not is_test_path(component, path)


def _token(session_id: str, key: StepKey) -> str:
    """Return the name of a gate's result: constant for an attempt, unknown to its tests."""
    return digest_of(f"{session_id}/{key.serial}/gate")[:24]
