"""Questions answered and declined from a page; the service's rules judge what is sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from agentforge_sessions.questions import Question, SessionStatus
from tests.support.questions import DATABASE, FEATURES
from tests.unit.ui.conftest import Site
from tests.unit.ui.test_pages import Page

FREE = Question(prompt="What is it called?", title="Name")


def answered(site: Site, asked: str) -> list[tuple[object, ...]]:
    found = site.questions.get(asked)
    assert found.status is SessionStatus.COMPLETED
    assert found.answers is not None
    return [
        (one.question_index, one.selected_option, one.selected_options, one.custom_text)
        for one in found.answers.answers
    ]


@pytest.mark.parametrize(
    ("question", "fields", "answer"),
    [
        (DATABASE, {"choice-0": "1"}, (0, "SQLite", None, None)),
        (DATABASE, {"choice-0": "other", "text-0": " MySQL "}, (0, None, None, "MySQL")),
        (DATABASE, {"text-0": "MySQL"}, (0, None, None, "MySQL")),
        (DATABASE, {"choice-0": "0", "text-0": "typed before"}, (0, "PostgreSQL", None, None)),
        (FEATURES, {"choice-0": ["0", "2"]}, (0, None, ("Auth", "Export"), None)),
        (FEATURES, {}, (0, None, (), None)),
        (FEATURES, {"choice-0": "1", "text-0": "and more"}, (0, None, ("Search",), "and more")),
        (FREE, {"text-0": "two\r\nlines"}, (0, None, None, "two\nlines")),
    ],
)
def test_each_kind_of_question_is_answered(
    site: Site, question: Question, fields: dict[str, object], answer: tuple[object, ...]
) -> None:
    asked = site.ask(question)
    assert site.post(f"/do/questions/{asked}/answer", **fields).status_code == 200
    assert answered(site, asked) == [answer]


@pytest.mark.parametrize(
    ("ask", "words"), [("elaborate", "[ELABORATE_REQUEST]"), ("rephrase", "[REPHRASE_REQUEST]")]
)
def test_a_person_asks_back_instead(site: Site, ask: str, words: str) -> None:
    asked = site.ask(DATABASE)
    fields = {"choice-0": "0", "ask-0": ask, "note-0": "why at all?"}
    assert site.post(f"/do/questions/{asked}/answer", **fields).status_code == 200
    ((_, option, _, text),) = answered(site, asked)
    assert option is None
    assert str(text).startswith(words)
    assert "why at all?" in str(text)


def test_what_is_missing_is_said_beside_its_question_and_nothing_is_sent(site: Site) -> None:
    asked = site.ask(DATABASE, FEATURES, FREE)
    refused = site.post(f"/do/questions/{asked}/answer", **{"choice-1": "0"})
    assert refused.status_code == 422
    page = Page(refused.text)
    marks = [page.by_id(f"fault-{asked}-{index}") for index in range(3)]
    assert [(one or {}).get("hx-swap-oob") for one in marks] == ["true"] * 3
    assert page.text.count("Choose one, or write an answer in your own words.") >= 2
    assert site.questions.get(asked).status is SessionStatus.PENDING


def test_an_answer_that_is_too_long_is_refused_by_the_rules_of_the_service(site: Site) -> None:
    asked = site.ask(FREE)
    refused = site.post(f"/do/questions/{asked}/answer", **{"text-0": "x" * 20_001})
    assert refused.status_code == 422
    assert "more than 20,000 characters" in refused.text


@pytest.mark.parametrize("choice", ["2", "99", "-1", "x", "1e0", "\u0660"])
def test_what_was_not_offered_is_no_choice(site: Site, choice: str) -> None:
    asked = site.ask(DATABASE)
    assert site.post(f"/do/questions/{asked}/answer", **{"choice-0": choice}).status_code == 422
    assert site.questions.get(asked).status is SessionStatus.PENDING


def test_a_question_is_declined_with_a_reason(site: Site) -> None:
    asked = site.ask()
    assert site.post(f"/do/questions/{asked}/reject", reason="not mine").status_code == 200
    found = site.questions.get(asked)
    assert found.status is SessionStatus.REJECTED
    assert found.rejection_reason == "not mine"


@pytest.mark.parametrize("name", ["answer", "reject"])
def test_what_was_answered_elsewhere_is_said_and_stays(site: Site, name: str) -> None:
    asked = site.ask(FREE)
    site.post(f"/do/questions/{asked}/answer", **{"text-0": "first"})
    refused = site.post(f"/do/questions/{asked}/{name}", **{"text-0": "second"})
    assert refused.status_code == 409
    assert "completed" in refused.text or "answered" in refused.text
    assert answered(site, asked) == [(0, None, None, "first")]


@pytest.mark.parametrize("asked", ["...", "x", "00000000-0000-4000-8000-000000000000"])
def test_what_is_no_question_is_not_reached(site: Site, asked: str) -> None:
    assert site.post(f"/do/questions/{asked}/answer").status_code in {404, 422}


def test_an_asker_that_ended_is_left_alone_where_the_server_is_read_only(
    make_site: Callable[..., Site],
) -> None:
    site = make_site(read_only=True)
    ended = site.begin()
    asked = site.ask(session_id=ended)
    site.lead(ended).abort()
    site.view("/questions")
    assert site.questions.get(asked).status is SessionStatus.PENDING


def test_a_question_whose_time_is_limited_says_how_long_it_waits(
    make_site: Callable[..., Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[questions]\nsession_timeout_s = 3600\n")
    monkeypatch.setenv("AGENTFORGE_CONFIG", str(config))
    site = make_site()
    asked = site.questions.get(site.ask(FREE))
    end = asked.created_at + timedelta(hours=1)
    assert "waits until" in site.view("/questions")
    assert f"{end:%Y-%m-%d %H:%M:%S}Z" in site.view("/questions")
