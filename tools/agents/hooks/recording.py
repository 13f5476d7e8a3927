"""Record an agent program's event in its session, and save the session."""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from ...base.settings.spending import Amount
from ...base.text.masking import Masked, mask
from ...harness.domain.history_events import (
    BUDGET_CAUSE,
    QUESTION_ENDINGS,
    AgentCompacted,
    AgentEdited,
    AgentGateJudged,
    AgentPrompted,
    AgentStarted,
    AgentTurnEnded,
    AgentUsage,
    CheckpointTaken,
    QuestionAsked,
    SessionForked,
    SessionPaused,
    SessionRewound,
)
from ...harness.domain.session_checks import MAX_GOAL_CHARS, MAX_PATH_CHARS, storable
from ...harness.session_domain import SessionContext, SessionState
from ..ledger import Purse, Standing
from ..programs.hook_event import AskedQuestion, HookEvent, Moment, Spent
from ..programs.tokens import NO_TOKENS, Charged, Cost, Tokens

if TYPE_CHECKING:
    from ...harness.session_ports import LocalSessions

MAX_TEXT_CHARS: Final = 8_000
"""How much of a prompt, a last message or a summary is stored: its beginning and its end."""
MAX_TITLE_CHARS: Final = 60
_OUTCOMES: Final = {"completed": "answered"}
"""Outcomes whose name differs from the question's status."""
_LEAST_OF_AN_ID: Final = 8
_ROUNDS: Final = 8
"""How often a change is tried while other processes save the session."""
_WITH_FILES: Final = frozenset({CheckpointTaken, SessionForked, SessionRewound})
_NO_FILES: Final = (None, None)
_NOTHING_NEW: Final = frozenset({"checkpoint", "agent_usage", "agent_started"})


class RecordedEdit(NamedTuple):
    """A file of the project that the agent wrote.

    Attributes:
        path: Relative to the project.
        change: "created" or "modified".
        sha256: The digest of its content, or None.
    """

    path: str
    change: str
    sha256: str | None


class FilesStored(NamedTuple):
    """The result of storing the files of a session's work tree.

    Attributes:
        snapshot: Their snapshot, or None.
        unkept: Why there is none, or None.
    """

    snapshot: str | None = None
    unkept: str | None = None


class Recorded(NamedTuple):
    """The result of recording an event.

    Attributes:
        changed: Whether the session has to be saved.
        charged: What of the conversation is charged.
        warned: Whether the event crossed 80 % of the budget.
        near: The person's limits of which the event crossed 80 %.
        over: The first of these limits that is spent, or None.
        spent: What the session had spent before the event, and after it.
    """

    changed: bool
    charged: Charged
    warned: bool
    near: Sequence[Standing]
    over: Standing | None
    spent: tuple[Amount, Amount]


def record(
    session: SessionContext,
    event: HookEvent,
    spent: Spent,
    *,
    now: datetime,
    edited: Sequence[RecordedEdit] = (),
    summary: str = "",
    files: FilesStored | None = None,
    purse: Purse | None = None,
) -> Recorded:
    """Record an event in a session that has not ended.

    Args:
        session: The session, in memory.
        event: What happened.
        spent: What the program has reported so far.
        now: The time.
        edited: The files that the event reports as written.
        summary: The summary of a compaction, for an event that has none.
        files: The files of the work tree, if they were stored for this event.
        purse: The person's limits, if they apply.
    """
    entries, was_warning = len(session.history), session.token_budget.is_warning
    state = session.state
    before = _spent(session)
    charged = _charge(session, event, spent, now)
    after = _spent(session)
    earlier, limits = ((), ()) if purse is None else purse.standings(before, after)
    over = next((one for one in limits if one.is_spent), None)
    if event.moment is Moment.PROMPTED and over is None:
        _go_on_if_extended(session, now)
    stop_if_spent(session, now, over)
    is_end = event.moment is not Moment.PROMPTED
    if files is not None and not is_end:
        record_files(session, files, now)
    if not _refused(session, event, over):
        _record_moment(session, event, now=now, edited=edited, summary=summary)
    if files is not None and is_end:
        record_files(session, files, now)
    return Recorded(
        changed=len(session.history) != entries or session.state is not state,
        charged=charged,
        warned=session.token_budget.is_warning and not was_warning,
        near=[one for one, was in zip(limits, earlier, strict=True) if one.is_near > was.is_near],
        over=over,
        spent=(before, after),
    )


def _spent(session: SessionContext) -> Amount:
    return Amount(session.token_budget.tokens_used, session_cost(session))


def record_files(session: SessionContext, files: FilesStored, now: datetime) -> bool:
    """Record a checkpoint with the stored files, unless they are the last recorded ones.

    Returns:
        Whether it was recorded.
    """
    for entry in reversed(session.history):
        if entry.event_type in _WITH_FILES:
            event = entry.event
            last = FilesStored(getattr(event, "snapshot", None), getattr(event, "unkept", None))
            if last == files or (files.snapshot == last.snapshot and files.unkept is None):
                return False
            if last != _NO_FILES:
                break
    session.add_event(CheckpointTaken(snapshot=files.snapshot, unkept=files.unkept), now=now)
    return True


def charged_total(session: SessionContext, program: str, agent_session: str) -> int:
    """Return a conversation's total charge, as the program counts it; 0 without one."""
    return next((one.total for one in _charges(session, program, agent_session)), 0)


def session_cost(session: SessionContext) -> int:
    """Return what the conversations of a session cost, in millionths of a US dollar."""
    return next((one.session_micro_usd for one in _charges(session)), 0)


def _charges(session: SessionContext, *conversation: str) -> Iterator[AgentUsage]:
    """Yield the charges of a conversation, or of all, newest first."""
    for entry in reversed(session.history):
        if entry.event_type is not AgentUsage or not isinstance(event := entry.event, AgentUsage):
            continue
        if not conversation or conversation == (event.program, event.agent_session):
            yield event


class _New(NamedTuple):
    """What was reported since the last charge: tokens by model and by kind, and their cost."""

    models: Mapping[str, int]
    kinds: Mapping[str, int]
    micro_usd: int | None
    unpriced: int
    priced_by: str


def _charge(session: SessionContext, event: HookEvent, spent: Spent, now: datetime) -> Charged:
    """Charge usage beyond what the session's own record already charges.

    So it is charged once, even after a kill or a lost binding.
    """
    total, charged = spent.usage.total, spent.charged
    before = max(charged_total(session, event.program, event.agent_session), spent.baseline)
    tokens = total - before
    if tokens < 0:
        return charged
    is_known = charged.usage.total == before
    cost = spent.price(charged if is_known else Charged())
    known = charged.costs if is_known else {}
    costs = {**known, **{name: known.get(name, 0) + one for name, one in cost.models.items()}}
    if is_known:
        new = _since(charged, spent, cost)
    else:
        new = _beyond(_charges(session, event.program, event.agent_session), spent, cost, tokens)
    if tokens or (is_known and new.micro_usd):
        charge = tokens
        if new.kinds:
            charge = round(sum(spent.weights.get(one, 1) * new.kinds[one] for one in new.kinds))
        session.add_event(
            AgentUsage(
                program=event.program,
                agent_session=event.agent_session,
                tokens=charge,
                total=total,
                session_micro_usd=session_cost(session) + (new.micro_usd or 0),
                **new._asdict(),
            ),
            now=now,
        )
        if charge > 0:
            session.spend(charge, now=now)
    return Charged(spent.usage, costs)


def _since(charged: Charged, spent: Spent, cost: Cost) -> _New:
    """Return what is new, from what is remembered of the last charge."""
    known = charged.usage.models
    added = {
        name: one.minus(known.get(name, NO_TOKENS)) for name, one in spent.usage.models.items()
    }
    models = {name: one.total for name, one in added.items()}
    micro_usd = sum(cost.models.values()) if cost.models else None
    return _New(_named(models), _kinds(added), micro_usd, cost.unpriced, cost.by)


def _beyond(charges: Iterable[AgentUsage], spent: Spent, cost: Cost, tokens: int) -> _New:
    """Return what is new, from the session's own record of the conversation.

    A part that the record does not divide exactly has no kinds, and no known cost.
    """
    models = Counter(_named({name: one.total for name, one in spent.usage.models.items()}))
    kinds = Counter(_kinds(spent.usage.models))
    micro_usd, unpriced = sum(cost.models.values()), cost.unpriced
    for one in charges:
        models.subtract(one.models)
        kinds.subtract(one.kinds)
        micro_usd -= one.micro_usd or 0
        unpriced -= one.unpriced
    if min(kinds.values(), default=0) < 0 or kinds.total() != tokens:
        return _New({}, {}, None, tokens, "")
    exact = min(models.values(), default=0) >= 0 and models.total() == tokens
    return _New(
        {name: count for name, count in models.items() if count} if exact else {},
        {name: count for name, count in kinds.items() if count},
        micro_usd if cost.models else None,
        max(0, unpriced),
        cost.by,
    )


def _kinds(models: Mapping[str, Tokens]) -> dict[str, int]:
    """Return the tokens of all models by kind, without kinds that have none."""
    found = NO_TOKENS
    for one in models.values():
        found = found.plus(one)
    return {name: count for name, count in found._asdict().items() if count}


def _named(models: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, count in models.items():
        if count:
            key = storable(name)[:100]
            found[key] = found.get(key, 0) + count
    return found


def stop_if_spent(session: SessionContext, now: datetime, over: Standing | None = None) -> None:
    """Pause an active session whose budget, or a limit of the person, is spent."""
    budget = session.token_budget
    if session.state is not SessionState.ACTIVE:
        return
    if budget.is_exhausted:
        session.apply(
            "pause",
            details=f"the budget is spent: {budget.tokens_used:,} of "
            f"{budget.total_budget:,} tokens",
            cause=BUDGET_CAUSE,
            missing_tokens=1 - budget.tokens_remaining,
            now=now,
        )
    elif over is not None:
        session.apply("pause", details=f"the limit is spent: {over}", cause=BUDGET_CAUSE, now=now)


def _go_on_if_extended(session: SessionContext, now: datetime) -> None:
    """Resume a session that was paused for its budget, once some budget is left."""
    if session.state is SessionState.PAUSED and not session.token_budget.is_exhausted:
        for entry in reversed(session.history):
            if isinstance(event := entry.event, SessionPaused):
                if event.cause == BUDGET_CAUSE:
                    session.apply("resume", now=now)
                return


def _refused(session: SessionContext, event: HookEvent, over: Standing | None) -> bool:
    is_spent = session.token_budget.is_exhausted or over is not None
    return event.moment is Moment.PROMPTED and is_spent


def _record_moment(
    session: SessionContext,
    event: HookEvent,
    *,
    now: datetime,
    edited: Sequence[RecordedEdit],
    summary: str,
) -> None:
    who = {"program": event.program, "agent_session": event.agent_session}
    said = storable_text(event.text)
    text, masked = said.text, said.secrets or None
    match event.moment:
        case Moment.STARTED if event.source != "compact":
            session.add_event(AgentStarted(**who, source=kept_text(event.source)), now=now)
        case Moment.PROMPTED if text and event.by_person:
            if not session.goal:
                session.goal = text[:MAX_GOAL_CHARS]
                session.title = session.title or title_of(text)
            session.add_event(AgentPrompted(**who, text=text, masked=masked), now=now)
        case Moment.TURN_ENDED if text:
            session.add_event(AgentTurnEnded(**who, text=text, masked=masked), now=now)
        case Moment.COMPACTED if text or summary:
            _compacted(session, event, said if text else storable_text(summary), now)
        case Moment.COMPACTION_FOUND:
            _checkpoint(session, now)
            _compacted(session, event, said, now)
        case Moment.BEFORE_COMPACTION:
            _checkpoint(session, now)
    if event.question is not None:
        _record_question(session, event.question, now)
    for file in edited:
        name = storable(file.path)
        if len(name) <= MAX_PATH_CHARS and not _is_recorded(session, name, file.sha256):
            session.add_artifact(name, file.change, now=now)
            session.add_event(
                AgentEdited(**who, path=name, change=file.change, sha256=file.sha256), now=now
            )


def _compacted(session: SessionContext, event: HookEvent, summary: Masked, now: datetime) -> None:
    session.add_event(
        AgentCompacted(
            program=event.program,
            agent_session=event.agent_session,
            trigger=kept_text(event.source),
            summary=summary.text,
            masked=summary.secrets or None,
        ),
        now=now,
    )


def _is_recorded(session: SessionContext, path: str, sha256: str | None) -> bool:
    """Return whether the last record of a file has this content."""
    edits = (one.event for one in reversed(session.history) if one.event_type is AgentEdited)
    for event in edits:
        if isinstance(event, AgentEdited) and event.path == path:
            return sha256 is not None and event.sha256 == sha256
    return False


def _record_question(session: SessionContext, question: AskedQuestion, now: datetime) -> None:
    """Record that a question was asked, and how it ended, each once."""
    from ...harness.views.question_entries import find_reply, questions_asked

    asked, known = storable(question.question_id), questions_asked(session)
    if asked not in known:  # a program may have only the beginning of the id
        asked = next((one for one in sorted(known) if _begin_alike(one, asked)), asked)
    if asked not in known:
        prompts = tuple(kept_text(one) for one in question.prompts)
        session.add_event(QuestionAsked(question_id=asked, prompts=prompts), now=now)
    ended = QUESTION_ENDINGS.get(_OUTCOMES.get(question.status, question.status))
    if ended is not None and find_reply(session, asked) is None:
        session.add_event(ended(question_id=asked, text=kept_text(question.text)), now=now)


def _begin_alike(one: str, other: str) -> bool:
    """Return whether two ids can be the same, one of which may be cut off."""
    shorter = min(len(one), len(other))
    return shorter >= _LEAST_OF_AN_ID and one[:shorter] == other[:shorter]


def _checkpoint(session: SessionContext, now: datetime) -> None:
    """Record a checkpoint, unless nothing happened since the last one."""
    for entry in reversed(session.history):
        if entry.event_type is CheckpointTaken:
            return
        if entry.action not in _NOTHING_NEW:
            session.add_event(CheckpointTaken(), now=now)
            return


def gates_since_prompt(session: SessionContext) -> int:
    """Return how often a gate judged since the person's last prompt."""
    count = 0
    for entry in reversed(session.history):
        if entry.event_type is AgentPrompted:
            return count
        count += entry.event_type is AgentGateJudged
    return count


def kept_text(text: str) -> str:
    """Return a text that can be stored: valid, without secrets, at most `MAX_TEXT_CHARS` long."""
    return storable_text(text).text


def storable_text(text: str) -> Masked:
    """Return a text that can be stored, as `kept_text`, and how many secrets are masked in it.

    What is cut off may be a part of a secret, so more is masked than stays.
    """
    found = mask(_with_its_ends(text, 4 * MAX_TEXT_CHARS))
    return found._replace(text=storable(_with_its_ends(found.text, MAX_TEXT_CHARS).strip()))


def _with_its_ends(text: str, most: int) -> str:
    """Return a text, or its beginning and its end if it is too long."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}\n…\n{text[-half + 3 :]}"


def title_of(text: str) -> str | None:
    """Return a title made of the first line of a prompt; None if nothing of it can be shown."""
    line = next((one for one in text.splitlines() if one.strip()), "")
    shown = " ".join("".join(one if one.isprintable() else " " for one in line).split())
    return f"{shown[: MAX_TITLE_CHARS - 1]}…" if len(shown) > MAX_TITLE_CHARS else shown or None


def change_session(
    sessions: "LocalSessions", session_id: str, change: Callable[[SessionContext], bool]
) -> SessionContext | None:
    """Change a session, and save it if the change asks for that.

    `change` changes the loaded session and returns whether to save it; it is called again with the
    newer session if another process saved meanwhile.

    Returns:
        The session as it is stored now; None if it does not exist or `change` was not called.

    Raises:
        SessionConflict: Other processes saved it at every try.
        SessionCorrupted: Its file can't be read as a session.
        WriteError: It could not be saved.
    """
    from ...base.event_log import get_logger  # a call that records nothing does not need these
    from ...harness.events.session_events import SessionEvents
    from ...harness.services.session_recording import SessionChanges

    changes = SessionChanges(sessions, SessionEvents(get_logger("agentforge.session")))
    last: list[tuple[SessionContext, bool]] = []

    def noted(session: SessionContext) -> bool:
        changed = change(session)
        last[:] = [(session, changed)]
        return changed

    for _ in range(_ROUNDS):
        last.clear()
        saved = changes.change_elsewhere(session_id, noted)
        if saved or not last or not last[0][1]:
            break
    return last[0][0] if last else None
