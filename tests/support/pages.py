"""Sessions in which everything happened, with any words in them; and a strict reader of pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any, Final

from attrs import define, field

from agentforge_sessions.base.files import ReadError
from agentforge_sessions.base.question import InvalidQuestions, Option, Question
from agentforge_sessions.entrypoints.pages.html import ELEMENTS
from agentforge_sessions.entrypoints.pages.values.asked_questions import options_by_prompt
from agentforge_sessions.entrypoints.pages.values.attempts import Step, attempts_of, with_steps
from agentforge_sessions.entrypoints.pages.values.contents import content_of
from agentforge_sessions.entrypoints.pages.values.material import SessionMaterial
from agentforge_sessions.entrypoints.pages.values.session_view import SessionView, view_of
from agentforge_sessions.harness import SessionContext
from agentforge_sessions.harness.domain.history_events import (
    AgentAnswered,
    AgentCompacted,
    AgentEdited,
    AgentGateJudged,
    AgentPrompted,
    AgentStarted,
    AgentTurnEnded,
    AgentUsage,
    BudgetExtended,
    CheckpointTaken,
    GateJudged,
    HistoryEvent,
    InputsPlaced,
    PersonAnswer,
    PhaseAdvanced,
    PhaseFailed,
    PhaseRequest,
    PhaseResumed,
    PhaseRetried,
    PhaseSucceeded,
    PhaseSuspended,
    ProgramDropped,
    QuestionAbandoned,
    QuestionAnswered,
    QuestionAsked,
    QuestionNotAsked,
    QuestionRejected,
    QuestionTimedOut,
    RetryReason,
    SessionDescribed,
    SessionForked,
    SessionPaused,
    SessionResumed,
    SessionRewound,
    WorkspacePrepared,
)
from agentforge_sessions.workflows.agents.port import AgentAnswer, TokenUsage, WorkspaceChange
from agentforge_sessions.workflows.gates.verdict import Verdict
from agentforge_sessions.workflows.run.step_journal import StoredAnswer

PARENT = "session_20251231_000000_000000"
BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)
SNAPSHOTS: Final = ("a" * 40, "b" * 40)
FRAME: Final = frozenset({"html", "head", "meta", "title", "style", "body"})
VOID: Final = frozenset({"meta", "br", "img", "input", "col", "hr", "wbr"})
_ATTRIBUTES = (
    "aria-hidden aria-label aria-labelledby alt charset class colspan content d datetime dy height "
    "href http-equiv id lang name open preserveaspectratio role scope src tabindex title viewbox "
    "width x x1 x2 y y1 y2"
)
ATTRIBUTES: Final = frozenset(_ATTRIBUTES.split())
"""All that a report's elements may have."""


def all_events(words: str) -> list[HistoryEvent]:
    """Return an event of every kind that a session may have after its creation, with words."""
    key = words[:90]
    agent: dict[str, Any] = {"program": words, "agent_session": words}
    verdict = GateJudged(gate=words, passed=False, summary=words, counts={"passed": 3, key: 1})
    answers = (PersonAnswer(question_index=0, selected=(words,), text=words),)
    waits = PhaseRequest(id=1, kind="ask", prompt=words, title=words, options=(words,))
    back: dict[str, Any] = {"checkpoint": 1, "position": 2, "snapshot": SNAPSHOTS[0]}
    return [
        InputsPlaced(paths=(words,)),
        WorkspacePrepared(base="c" * 40, revision=words, snapshot=SNAPSHOTS[0]),
        AgentAnswered(call=1, agent=words, tokens=7, usage={"input": 3, key: 4}, seconds=0.5),
        AgentAnswered(call=2, agent=words, tokens=7, failure=words),
        PhaseFailed(attempt=1, seconds=0.2, tokens=14, problem=words, verdict=verdict),
        PhaseRetried(attempt=2, reason=words),
        PhaseSucceeded(attempt=2, seconds=0.2, snapshot=SNAPSHOTS[1], exit_code=0),
        PhaseAdvanced(from_phase="red", to_phase="green", unkept=words),
        CheckpointTaken(unkept=words),
        RetryReason(reason=words),
        QuestionAsked(question_id="q-1", key=words, prompts=(words,)),
        QuestionAnswered(question_id="q-1", text=words, answers=answers),
        QuestionAsked(question_id="q-2", key=words, prompts=(words, words)),
        QuestionRejected(question_id="q-2", reason=words),
        QuestionAsked(question_id="q-3", key=words, prompts=(words,)),
        QuestionNotAsked(question_id="q-3", key=words, problem=words),
        QuestionTimedOut(question_id="q-4", reason=words),
        QuestionAbandoned(question_id="q-5"),
        AgentStarted(**agent, source=words),
        AgentPrompted(**agent, text=words),
        AgentEdited(**agent, path=words, sha256="d" * 64),
        AgentGateJudged(**agent, summary=words, evidence=words),
        AgentCompacted(**agent, trigger=words, summary=words),
        AgentUsage(**agent, tokens=9, total=9, models={key: 9}),
        AgentTurnEnded(**agent, text=words),
        SessionPaused(reason=words, cause="budget", missing_tokens=3),
        BudgetExtended(additional_tokens=100, total_budget=1_100),
        SessionResumed(),
        SessionDescribed(changed=("title", "metadata"), title=words, metadata_set=(key,)),
        SessionForked(**back, parent_id=PARENT, parent_entries=5),
        SessionRewound(**back, succeeded=False),
        QuestionAsked(question_id="q-6", key=words, prompts=(words,)),
        PhaseSuspended(program=words, requests=(waits,), where=(words,), snapshot=SNAPSHOTS[0]),
        PhaseResumed(program=words, answered=(1,)),
        ProgramDropped(program=words, reason=words),
    ]


def eventful_session(words: str) -> SessionContext:
    """Return a session in which everything happened, with the words wherever some are."""
    line = " ".join(words.split())[:90]
    tag = "".join(one for one in words if one.isprintable() and one not in " ,")[:64]
    data = {words[:90]: [words, {"a": None, "b": True, "c": 0.5}]}
    session = SessionContext.create(
        "flow",
        "red",
        1_000,
        goal=words,
        parent_id=PARENT,
        title=line if line.isprintable() else None,
        tags=[tag] if tag else [],
        metadata=data,
        workflow_state=data,
        now=BEGAN,
    )
    for number, event in enumerate(all_events(words), 1):
        phase = event.to_phase if isinstance(event, PhaseAdvanced) else "red"
        session.add_event(event, phase=phase, now=BEGAN + timedelta(seconds=number))
    session.add_history("noted", details=words, now=BEGAN + timedelta(minutes=1))
    session.add_artifact("src/a.py", "created", "red", now=BEGAN + timedelta(minutes=1))
    return session


def eventful_view(words: str) -> SessionView:
    """Return the view of such a session, with steps and files that hold the words."""
    session = eventful_session(words)
    try:
        options = [Option(label=words, description=words), Option(label="other")]
        asked = (Question(prompt=words, title="Title", options=options),)
    except InvalidQuestions:  # no agent can ask that
        asked = ()
    answer = StoredAnswer(
        answer=AgentAnswer(
            text=f"{words}\n\n```python:src/a.py\n{words}\n```\n",
            questions=asked,
            change=WorkspaceChange(refused=[(words, words)], dropped=[words]),
        ),
        usage=TokenUsage(input_tokens=3, output_tokens=4),
        duration_s=0.5,
        agent=words,
        failure=words,
    )
    facts = {words: [words, {words: None}], "framework": True, "nothing": {}, "ratio": 0.5}
    attempts = attempts_of(session)
    verdict = Verdict(gate=words, passed=False, summary=words, evidence=[words, words], facts=facts)
    steps: dict[str, Step] = {
        attempts[0].key.name("prompt", 1): words,
        attempts[0].key.name("answer", 1): answer,
        attempts[0].key.name("verdict"): verdict,
        attempts[1].key.name("verdict"): ReadError(path="x", reason=words),
    }
    content = content_of(words.encode("utf-8", "replace"))
    return view_of(
        session,
        SessionMaterial(
            attempts=tuple(with_steps(one, steps) for one in attempts),
            contents={"src/a.py": content},
            specification=content,
            offered=options_by_prompt(asked),
        ),
        now=BEGAN + timedelta(hours=1),
    )


@define
class PageReader(HTMLParser):
    """Reads a page, and holds it to what a page that stands alone may have.

    Attributes:
        ids: The ids of its elements, in order.
        links: Where its links lead.
        texts: Its texts outside of the style sheet.
        headings: The levels of its headings.
    """

    ids: list[str] = field(factory=list)
    links: list[str] = field(factory=list)
    texts: list[str] = field(factory=list)
    headings: list[int] = field(factory=list)
    _open: list[str] = field(factory=list)

    def __attrs_pre_init__(self) -> None:
        HTMLParser.__init__(self)

    @classmethod
    def of(cls, page: str) -> PageReader:
        """Read a whole page."""
        reader = cls()
        reader.feed(page)
        reader.close()
        assert reader._open == []
        return reader

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS | FRAME, tag
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name)
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                assert (value or "").startswith("#"), value
                self.links.append((value or "")[1:])
            if name == "src":
                assert (value or "").startswith("data:image/"), value
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")

    @property
    def text(self) -> str:
        """All its texts."""
        return "".join(self.texts)
