"""The state of the work: folded from the session's history and the ends of its transcripts."""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...harness.domain.history_events import (
    AgentGateJudged,
    AgentPrompted,
    AgentTurnEnded,
    OfAgent,
)
from ...harness.views.work_state import (
    NOTHING_KNOWN,
    DecisionMade,
    FailedCommand,
    PlanItem,
    WorkState,
)
from ..programs.meter import object_of, str_of
from .entries import head_of, stream_of

if TYPE_CHECKING:
    from ...harness.session_domain import SessionContext
    from ...harness.session_ports import LocalSessions

_CONVERSATIONS: Final = 3
_TAIL: Final = 400
"""How many last entries of a conversation are looked at."""
_MOST_BYTES: Final = 1 << 20
_KINDS: Final = frozenset({"agent", "tool", "plan"})
_SHELLS: Final = frozenset({"Bash", "bash", "exec_command", "shell", "run_shell_command"})
_ASKS: Final = ("AskUserQuestion", "request_user_input", "ask_user", "ask_user_questions")
_STATUS: Final = {"done": "completed", "active": "in_progress"}
_DROPPED: Final = frozenset({"cancelled", "deleted"})
_LAST_LINES: Final = 12
_MOST_SAID: Final = 10
_MOST_CHARS: Final = 300
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+|\n+")
_STANDING: Final = re.compile(
    r"\b(?:always|never|from now on|do not|don.t|must|make sure|prefer|only use|at no time)\b",
    re.IGNORECASE,
)
"""Words of a sentence that is meant for all of the work, and not for one prompt."""
_DECIDED: Final = re.compile(
    r"\b(?:decided|decision:|chose|settled on|going with|opted for)\b", re.IGNORECASE
)


class _Said(NamedTuple):
    """An entry of a conversation's own."""

    kind: str
    program: str
    body: dict[str, Any]


def work_state(
    sessions: "LocalSessions",
    session_id: str,
    session: "SessionContext | None" = None,
    *,
    may_show: Callable[[str], bool] = lambda _: True,
) -> WorkState:
    """Return the state of the work of a session, from its last conversations.

    If text of some program may not be shown, it is that of the newest conversation's program alone.

    Args:
        sessions: The sessions.
        session_id: The session.
        session: The session, if it is loaded already.
        may_show: Returns whether text from a program's conversations may be shown; for "", text of
            any program.

    Raises:
        AgentForgeError: A transcript is damaged, or the store refused.
    """
    session = sessions.load(session_id) if session is None else session
    if session is None:
        return NOTHING_KNOWN
    talks = [one for one in _conversations(session) if may_show(one[0])]
    if not may_show(""):
        talks = [one for one in talks if one[0] == talks[0][0]]
    said: list[_Said] = []
    used = []
    for program, name in talks[:_CONVERSATIONS]:
        found = list(_read(sessions, session_id, program, name))
        said = [*found, *said]
        used += [program] if found else []
    programs = {*used, *[one for one, _ in talks[:1]]}
    return WorkState(
        instructions=_instructions(session, {program for program, _ in talks}),
        prompt=_unfinished(session, talks),
        plan=_plan(said),
        decisions=_decisions(said),
        failed=_failed(said),
        program=programs.pop() if len(programs) == 1 else "",
    )


def _conversations(session: "SessionContext") -> list[tuple[str, str]]:
    """Return the conversations, the last one in which something was asked or answered first."""
    found = dict.fromkeys(
        (event.program, event.agent_session)
        for entry in reversed(session.history)
        if entry.event_type in {AgentPrompted, AgentTurnEnded}
        and isinstance(event := entry.event, OfAgent)
    )
    return list(found)


def _read(
    sessions: "LocalSessions", session_id: str, program: str, conversation: str
) -> Iterator[_Said]:
    """Yield the last entries of a conversation's own that matter here, oldest first."""
    stream = stream_of(program, conversation)
    tail = sessions.read_last(session_id, stream, _TAIL)
    room, wanted = _MOST_BYTES, []
    for entry in reversed(tail.entries):
        head = head_of(entry.head)
        if head.get("kind") in _KINDS and not head.get("child") and entry.size:
            room -= entry.size
            if room < 0:
                break
            wanted.append((str_of(head["kind"]), entry))
    wanted.reverse()
    entries = [entry for _, entry in wanted]
    bodies = sessions.read_bodies(session_id, stream, entries, mark=tail.mark)
    for (kind, _), body in zip(wanted, bodies, strict=True):
        yield _Said(kind, program, object_of(body) or {})


def _instructions(session: "SessionContext", programs: set[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for entry in session.history:
        event = entry.event if entry.event_type is AgentPrompted else None
        if isinstance(event, AgentPrompted) and event.program in programs:
            for sentence in _sentences(event.text, _STANDING):
                found.pop(sentence, None)
                found[sentence] = None
    return tuple(found)[-_MOST_SAID:]


def _sentences(text: str, words: re.Pattern[str]) -> list[str]:
    said = (one.strip() for one in _SENTENCE.split(text))
    return [one[:_MOST_CHARS] for one in said if words.search(one)]


def _unfinished(session: "SessionContext", talks: list[tuple[str, str]]) -> str:
    """Return the last prompt of the last conversation if its turn is open, or failed the gate."""
    judged, failed = {AgentPrompted, AgentTurnEnded, AgentGateJudged}, False
    for entry in reversed(session.history):
        event = entry.event if entry.event_type in judged else None
        if isinstance(event, OfAgent) and [(event.program, event.agent_session)] == talks[:1]:
            if isinstance(event, AgentGateJudged):
                failed = failed or not event.passed
            elif isinstance(event, AgentPrompted) or not failed:
                return event.text if isinstance(event, AgentPrompted) else ""
    return ""


def _plan(said: list[_Said]) -> tuple[PlanItem, ...]:
    """Return the last plan; steps with ids change those of the same id."""
    steps: dict[str, PlanItem] = {}
    for entry in said:
        items = entry.body.get("items") if entry.kind == "plan" else None
        found = [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []
        if found and not all(one.get("id") for one in found):
            steps = {}
        for number, one in enumerate(found):
            key = str_of(one.get("id")) or str(number)
            status = str_of(one.get("status"))
            known = steps.pop(key, None) if status in _DROPPED else steps.get(key)
            text = str_of(one.get("text")) or (known.text if known else "")
            if text and status not in _DROPPED:
                steps[key] = PlanItem(text, _STATUS.get(status, status))
    return tuple(steps.values())


def _decisions(said: list[_Said]) -> tuple[DecisionMade, ...]:
    found: dict[DecisionMade, None] = {}
    for entry in reversed(said):
        if entry.kind == "agent":
            for sentence in reversed(_sentences(str_of(entry.body.get("text")), _DECIDED)):
                found[DecisionMade(sentence, entry.program)] = None
        elif entry.kind == "tool" and str_of(entry.body.get("name")).endswith(_ASKS):
            answer = str_of(entry.body.get("result")).strip()
            if answer and not entry.body.get("is_error"):
                found[DecisionMade(answer[:_MOST_CHARS], "person")] = None
    return tuple(found)[:_MOST_SAID]


def _failed(said: list[_Said]) -> FailedCommand | None:
    """Return the last command that failed and did not succeed since."""
    succeeded: set[str] = set()
    for entry in reversed(said):
        body = entry.body
        if entry.kind != "tool" or body.get("name") not in _SHELLS or "result" not in body:
            continue
        command = str_of(body.get("input"))
        if not body.get("is_error"):
            succeeded.add(command)
        elif command not in succeeded:
            code = body.get("exit_code")
            lines = str_of(body.get("result")).rstrip().splitlines()[-_LAST_LINES:]
            return FailedCommand(command, code if type(code) is int else None, "\n".join(lines))
    return None
