"""Events of the history: each is an entry, the data of a file, and the same event again."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentforge_sessions.harness import (
    InvalidSession,
    SessionContext,
    SessionCorrupted,
    SessionHistory,
)
from agentforge_sessions.harness.domain.history_events import (
    EVENTS,
    AgentAnswered,
    BudgetExtended,
    GateJudged,
    HistoryEvent,
    PersonAnswer,
    PhaseFailed,
    QuestionAnswered,
    QuestionAsked,
    SessionCreated,
    SessionPaused,
)
from agentforge_sessions.harness.domain.session_data import EntryData
from agentforge_sessions.harness.domain.session_entries import spelled
from agentforge_sessions.harness.format.session_codec import (
    decode_ours,
    decode_session,
    encode_session,
)
from tests.support.clock import START
from tests.support.ids import sid
from tests.support.sessions import without_digest

PATH = Path("/nowhere/session.yaml")
FULL: tuple[HistoryEvent, ...] = (
    AgentAnswered(
        call=2,
        agent="claude -p",
        tokens=150,
        usage={"input": 100, "output": 50},
        estimated=True,
        seconds=1e-05,
        answer_sha256="ab" * 32,
    ),
    PhaseFailed(
        attempt=3,
        seconds=0.25,
        tokens=150,
        problem="no\ntests",
        verdict=GateJudged(gate="tests_pass", passed=False, summary="no", counts={"passed": 0}),
    ),
    QuestionAsked(question_id="q-1", key="1.1", prompts=("How wide?\n\n  And deep?", "yes")),
    QuestionAnswered(
        question_id="q-1",
        text="1. How wide?\n→ any",
        answers=(PersonAnswer(question_index=0, selected=("a: b", "- c"), text="null"),),
    ),
)


def session(*entries: SessionHistory) -> SessionContext:
    return SessionContext(session_id=sid("s"), created_at=START, history=list(entries))


def saved(made: SessionContext) -> SessionContext:
    data = encode_session(made)
    assert decode_ours(data, data.decode())[0] == made, "the quick reader reads it"
    return decode_session(data, path=PATH)


@pytest.mark.parametrize(
    "event", [*(kind() for kind in EVENTS.values()), *FULL], ids=lambda one: one.action
)
def test_event_is_the_same_after_a_save(event: HistoryEvent) -> None:
    made = session(SessionHistory.of(event, START, "red", details="anything"))
    (entry,) = saved(made).history
    assert entry.event == event
    assert entry.event_type is type(event)


def test_every_field_may_be_missing_in_what_another_program_wrote() -> None:
    for kind in EVENTS.values():
        for one in fields(kind):
            assert one.default is not MISSING or one.default_factory is not MISSING, kind


def test_fields_of_a_newer_version_are_passed_over_and_kept() -> None:
    data = {"additional_tokens": 5, "total_budget": 15, "approved_by": "ann"}
    (entry,) = saved(session(SessionHistory(START, "budget_extended", data=data))).history
    assert entry.event == BudgetExtended(additional_tokens=5, total_budget=15)
    assert entry.data == data


@pytest.mark.parametrize(
    "data",
    [
        {"additional_tokens": "5"},
        {"additional_tokens": True},
        {"total_budget": None},
        {"note": True, "additional_tokens": 5},
    ],
)
def test_data_that_is_no_event_s_makes_none(data: dict[str, Any]) -> None:
    assert (
        SessionHistory(START, "budget_extended", None, "by 5 to 9 tokens", data=data).event is None
    )


@pytest.mark.parametrize("kind", EVENTS.values(), ids=lambda one: one.action)
def test_entry_without_data_is_its_event_with_no_field_known_whatever_its_details(
    kind: type[HistoryEvent],
) -> None:
    told = "question q-1, key k; by 5 to 9 tokens; call 1: 7 tokens; 3.00 s; 9 tokens"
    made = session(SessionHistory(START, kind.action, "red", told))
    (entry,) = saved(made).history
    assert entry.event == kind()
    assert b"data:" not in encode_session(saved(made))


def test_note_that_is_called_as_an_event_is_none_after_a_save() -> None:
    made = session(SessionHistory.of(SessionCreated(), START, None))
    for action in ("phase_succeeded", "question_asked", "session_paused"):
        made.add_history(action, details="question q-1, key k")
    for entry in saved(made).history[1:]:
        assert (entry.event, entry.event_type) == (None, None)
    assert made.add_history("noted").data == {}


def test_words_from_elsewhere_are_spelled_out() -> None:
    event = spelled(SessionPaused(reason="a\udcff", question_id="q"))
    assert event == SessionPaused(reason="a\\udcff", question_id="q")
    with pytest.raises(InvalidSession, match=r"data\.reason: holds a lone surrogate"):
        SessionHistory.of(SessionPaused(reason="a\udcff"), START, None)


def test_data_can_not_be_changed() -> None:
    given: dict[str, Any] = {"usage": {"input": 1}, "names": ["a"]}
    entry = SessionHistory(START, "noted", data=given)
    given["usage"]["input"] = 2
    given["names"].append("b")
    assert entry.data == {"usage": {"input": 1}, "names": ("a",)}
    data: Any = entry.data
    for change in (
        lambda: data.update(a=1),
        lambda: data["usage"].__setitem__("input", 2),
        lambda: data.pop("names"),
        data.clear,
    ):
        with pytest.raises(TypeError, match="can't be changed"):
            change()


def test_entry_is_copied_with_its_data() -> None:
    entry = SessionHistory.of(FULL[0], START, "red")
    for again in (
        copy.deepcopy(entry),
        pickle.loads(pickle.dumps(entry)),
        SessionHistory(**asdict(entry)),
        replace(entry, details=entry.details),
    ):
        assert again == entry
        assert isinstance(again.data, EntryData)
    assert json.loads(json.dumps(asdict(entry)["data"])) == json.loads(json.dumps(entry.data))


def test_everything_that_is_wrong_with_data_is_told() -> None:
    deep: Any = 1
    for _ in range(9):
        deep = {"a": deep}
    data: Any = {
        "nan": float("nan"),
        "big": 2**70,
        "object": object(),
        "deep": deep,
        3: 4,
        "many": [0] * 1001,
        "k" * 101: "a\ud800",
    }
    with pytest.raises(InvalidSession) as caught:
        SessionHistory(START, "noted", data=data)
    told = str(caught.value)
    for fault in ("nan", "big: is more", "object: object", "deeper", "3 is no name", "1,001 items"):
        assert fault in told
    assert "101 characters" in told
    assert "lone surrogate" in told
    with pytest.raises(InvalidSession, match="expected a mapping"):
        SessionHistory(START, "noted", data=[1])  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------- the file


def test_data_stands_in_the_file_as_block_yaml() -> None:
    made = session(SessionHistory.of(FULL[3], START, "red", details="told"))
    assert without_digest(encode_session(made)).decode().partition("history:\n")[2] == (
        '  - timestamp: "2026-03-01T09:30:00.000000+00:00"\n'
        "    action: question_answered\n"
        "    phase: red\n"
        "    details: told\n"
        "    data:\n"
        "      question_id: q-1\n"
        "      reason: null\n"
        "      text: |-\n"
        "        1. How wide?\n"
        "        → any\n"
        "      answers:\n"
        "        - question_index: 0\n"
        "          selected:\n"
        '            - "a: b"\n'
        '            - "- c"\n'
        '          text: "null"\n'
        "...\n"
    )


def test_data_in_any_form_of_yaml_is_read() -> None:
    made = session(*(SessionHistory.of(one, START, "red") for one in FULL))
    for flow in (True, False, None):
        dumped = yaml.safe_dump(
            yaml.safe_load(encode_session(made)), default_flow_style=flow, allow_unicode=True
        )
        assert decode_session(dumped.encode(), path=PATH) == made


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ("2026-01-01", "expected keys and values"),
        ("[1]", "expected keys and values"),
        ("{day: 2026-01-01}", "put it in quotes"),
        ("{count: 0x1F}", "put it in quotes"),
    ],
)
def test_what_is_no_data_is_told_with_its_line(data: str, fault: str) -> None:
    made = session(SessionHistory(START, "noted", data={"a": 1}))
    text = encode_session(made).decode().replace("\n      a: 1", f" {data}")
    with pytest.raises(SessionCorrupted, match=rf"line \d+: history\[0\]\.data: .*{fault}"):
        decode_session(text.encode(), path=PATH)
