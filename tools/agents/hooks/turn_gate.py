"""The project's own check of a turn's end, if the configuration names one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.clock import Clock, utc_now
from ...harness.domain.history_events import AgentGateJudged
from ...harness.session_domain import SessionContext
from ..programs.hook_event import NOTHING, HookEvent, HookReply
from .changes import change_session
from .messages import not_done
from .recording import gates_since_prompt, kept_text
from .settings import read_settings

if TYPE_CHECKING:
    from ...harness.session_ports import LocalSessions


def judge_turn(
    event: HookEvent,
    sessions: LocalSessions,
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
    from .gate import run_gate  # slow to load: it can run programs

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
