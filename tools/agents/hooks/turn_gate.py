"""The project's own check of a turn's end, if the configuration names one: run, and recorded."""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ...base.clock import Clock, utc_now
from ...harness.domain.history_events import AgentGateJudged
from ...harness.session_domain import SessionContext
from ..programs.hook_event import NOTHING, HookEvent, HookReply
from .messages import not_done
from .recording import change_session, gates_since_prompt, kept_text
from .settings import read_settings

if TYPE_CHECKING:
    from ...harness.session_ports import LocalSessions


EVIDENCE_CHARS: Final = 4_000
_EVIDENCE_BYTES: Final = 4 * EVIDENCE_CHARS


class GateResult(NamedTuple):
    """The result of the command.

    Attributes:
        passed: Whether its exit code was 0.
        summary: The result in one line.
        evidence: The end of its output; empty if it passed.
    """

    passed: bool
    summary: str
    evidence: str


def judge_turn(
    event: HookEvent,
    sessions: "LocalSessions",
    session: SessionContext,
    data_folder: Path,
    environment: Mapping[str, str],
    *,
    clock: Clock = utc_now,
) -> HookReply:
    """Run the check, record the verdict, and send the agent back to work if it failed.

    The configuration limits how often that happens for one prompt. A command that can't be run
    never sends the agent back.
    """
    settings = read_settings(data_folder, environment)
    if settings.gate is None:
        return NOTHING
    number = gates_since_prompt(session) + 1
    if number > settings.gate_rounds:
        return NOTHING
    result = run_gate(
        settings.gate,
        data_folder.parent,
        timeout_s=settings.gate_timeout_s,
        environment=environment,
    )
    if result is None:
        return NOTHING
    judged = AgentGateJudged(
        program=event.program,
        agent_session=event.agent_session,
        passed=result.passed,
        number=number,
        summary=kept_text(result.summary),
        evidence=kept_text(result.evidence),
    )

    def change(found: SessionContext) -> bool:
        if found.state.is_terminal:
            return False
        found.add_event(judged, now=clock())
        return True

    change_session(sessions, session.session_id, change)
    if result.passed:
        return NOTHING
    most = settings.gate_rounds
    return HookReply(go_on=not_done(result.summary, result.evidence, number=number, most=most))


def run_gate(
    command: str, folder: Path, *, timeout_s: float, environment: Mapping[str, str]
) -> GateResult | None:
    """Run a command in a folder, without a shell.

    Returns:
        How it ended, or None if it can't be run; that does not send the agent back to work.
    """
    import shlex  # what can run programs is slow to load, and few configurations name a check
    import tempfile

    from ...base.program_run import ProgramRun, run_program

    with tempfile.TemporaryFile() as output:
        try:
            ended = run_program(
                ProgramRun(
                    shlex.split(command),
                    dict(environment),
                    timeout_s=timeout_s,
                    output_fd=output.fileno(),
                    mixed=True,
                    directory=folder,
                )
            )
        except (OSError, ValueError, IndexError):
            return None
        if ended.cut_short is None and ended.exit_code == 0:
            return GateResult(True, f"{command}: passed", "")
        how = f"exit code {ended.exit_code}"
        if ended.cut_short is not None:
            how = f"no end after {timeout_s:g} s"
        return GateResult(False, f"{command}: {how}", _end_of(output.fileno()))


def _end_of(fd: int) -> str:
    size = os.fstat(fd).st_size
    data = os.pread(fd, _EVIDENCE_BYTES, max(0, size - _EVIDENCE_BYTES))
    return data.decode("utf-8", "replace")[-EVIDENCE_CHARS:].strip()
