"""What the pages show, whatever the sessions hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.agents.ledger import Payer, day_of, opened
from agentforge_sessions.base.settings.spending import Amount
from agentforge_sessions.harness import SessionStore
from agentforge_sessions.harness.domain.history_events import AgentPrompted
from agentforge_sessions.harness.stream_port import NewEntry
from agentforge_sessions.questions import Option, Question
from tests.unit.ui.conftest import Site

HOSTILE = (
    '"><script>alert(1)</script><img src=x onerror=alert(2)> javascript:alert(3) '
    "{{7*7}} </textarea></template><!-- \u202e \x1b[31m ' onclick='alert(4)"
)
RUNS = {"script", "iframe", "object", "embed", "link", "style", "base", "meta", "template"}


class Page(HTMLParser):
    """The elements of a page, their attributes and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def by_id(self, name: str) -> dict[str, str | None] | None:
        return next((found for _, found in self.elements if found.get("id") == name), None)


def assert_nothing_runs(text: str) -> None:
    for tag, attributes in Page(text).elements:
        assert tag not in RUNS
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style"
            assert "javascript:" not in (value or "") or name in {
                "value",
                "aria-label",
                "data-title",
            }
            if name in {"href", "src", "action"} or name.startswith("hx-p"):
                assert (value or "/").startswith(("/", "#", "?", "data:image/")), (tag, name, value)


def test_the_list_shows_each_session_with_what_it_is(site: Site) -> None:
    one = site.begin("Add retries\nto everything", workflow_type="tdflow", initial_phase="red")
    site.lead(one).record_tokens(81_000)
    site.lead(site.begin(None)).pause("later")
    text = site.view("/")
    page = Page(text)
    assert page.by_id(f"row-{one}") is not None
    for words in ("Add retries", "tdflow", "red", "81,000 of 100,000", "paused", "2 sessions"):
        assert words in page.text


def test_the_list_shows_what_agents_spent_today(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    site.begin("Add retries")
    assert Page(site.view("/")).by_id("spent-today") is None
    for day, cost in ((day_of(site.clock()), 3_250_000), ("2020-02-02", 9_000_000)):
        with opened(os.environ) as ledger:
            ledger.charge(Payer(day, "p", day), Amount(), Amount(12_000, cost))
    page = Page(site.view("/"))
    assert page.by_id("spent-today") is not None
    assert "Spent by your agents today: 12,000 tokens, $3.25" in page.text


def test_the_briefing_on_a_sessions_page_has_the_state_of_the_work(site: Site) -> None:
    one = site.begin("Add retries")
    asked = AgentPrompted(program="codex", agent_session="1", text="Count the words")
    site.lead(one).record(asked)
    body = json.dumps({"items": [{"text": "Write the parser", "status": "pending"}]}).encode()
    SessionStore(site.base).append_entries(
        one, "agent-codex-1", [NewEntry(json.dumps({"kind": "plan"}).encode(), body)]
    )
    page = Page(site.view(f"/sessions/{one}"))
    assert "Write the parser" in page.text
    assert "and not done: “Count the words" in page.text


def test_the_prune_page_names_old_transcripts(site: Site) -> None:
    assert Page(site.view("/prune")).by_id("kind-transcripts") is None
    one = site.begin("Add retries")
    head = json.dumps({"copied": "2020-02-02T00:00:00+00:00"}).encode()
    SessionStore(site.base).append_entries(one, "agent-codex-1", [NewEntry(head, b"{}")])
    page = Page(site.view("/prune"))
    assert page.by_id("kind-transcripts") is not None
    assert f"{one}/agent-codex-1" in page.text


def test_the_list_is_narrowed_and_says_by_which_address(site: Site) -> None:
    one, _ = site.begin("Add retries"), site.begin("Write docs")
    found = site.get("/view/?q=retries&standing=active&order=spent&workflow=")
    assert found.headers["X-Address"] == "/?q=retries&standing=active&order=spent"
    page = Page(found.text)
    assert page.by_id(f"row-{one}") is not None
    assert "1 session" in page.text
    assert "Write docs" not in page.text


def test_page_after_page_is_linked(site: Site) -> None:
    for _ in range(51):
        site.begin(None)
    page = Page(site.view("/"))
    following = page.by_id("next-page")
    assert following is not None
    last = Page(site.view(str(following["href"])))
    assert len([one for tag, one in last.elements if tag == "li"]) == 1
    first = last.by_id("first-page")
    assert first is not None
    assert first["href"] == "/"


def test_where_there_is_nothing_the_list_says_how_to_begin(site: Site) -> None:
    assert "There is no session in" in Page(site.view("/")).text
    site.begin()
    site.services.watch.look()
    assert "No session fits." in Page(site.view("/?q=nothing+of+this")).text


def test_a_session_that_can_not_be_read_hides_none_of_the_others(site: Site) -> None:
    good, bad = site.begin("A good one"), site.begin("A bad one")
    (site.base / bad / "session.yaml").write_text("state: [")
    page = Page(site.view("/"))
    assert page.by_id(f"row-{good}") is not None
    assert page.by_id(f"row-{bad}") is None
    assert "1 can't be read" in page.text
    assert bad in page.text


def test_a_question_that_waits_lifts_its_session_to_the_top(site: Site) -> None:
    asks, _ = site.begin("It asks"), site.begin("It works")
    site.ask(session_id=asks)
    text = Page(site.view("/")).text
    assert text.index("It asks") < text.index("It works")
    assert "waits for you1" in text.replace(" ", "").replace("waitsforyou", "waits for you")


@pytest.mark.parametrize(
    "path", ["/sessions/session_20260301_093000_000001", "/sessions/x", "/none"]
)
def test_what_is_not_there_is_said(site: Site, path: str) -> None:
    found = site.get(f"/view{path}")
    assert found.status_code in {404, 422}
    assert "can't be shown" in found.text or "Not shown" in found.text


def test_a_session_has_all_of_its_parts_each_to_be_exchanged_alone(site: Site) -> None:
    one = site.begin("Add retries", workflow_type="tdflow", initial_phase="red")
    site.lead(one).record_tokens(500)
    page = Page(site.view(f"/sessions/{one}"))
    for name in ("overview", "timeline", "budget", "checkpoints", "history", "briefing"):
        assert page.by_id(name) is not None, name
    assert (page.by_id("sections") or {}).get("data-keyed") == ""
    assert (page.by_id("view") or {})["data-topics"] == f"session:{one} questions"


def test_hostile_text_is_text_on_every_page(site: Site) -> None:
    one = site.begin(HOSTILE, workflow_type="a<b>", initial_phase='"><script>')
    leader = site.lead(one)
    leader.add_artifact("<img src=x onerror=alert(1)>.py", "created")
    leader.add_history("note<script>", HOSTILE)
    leader.pause(HOSTILE)
    option = Option(label="<script>alert(5)</script>", description=HOSTILE)
    question = Question(prompt=HOSTILE, title="<b>T</b>", options=(option, Option(label="b")))
    site.ask(question, session_id=one)
    site.ask(question)
    for path in ("/", f"/sessions/{one}", "/questions", "/prune", "/?q=%3Cscript%3E"):
        text = site.view(path)
        assert_nothing_runs(text)
        if path != "/prune":
            assert "<script>" in Page(text).text or "script" in path


def test_nothing_offers_a_change_where_the_server_is_read_only(
    make_site: Callable[..., Site],
) -> None:
    site = make_site(read_only=True)
    one = site.begin()
    site.ask(session_id=one)
    for path in ("/", f"/sessions/{one}", "/questions"):
        page = Page(site.view(path))
        offered = [one for _, one in page.elements if "hx-post" in one or "data-dialog" in one]
        assert offered == []
    assert "Which database?" in Page(site.view("/questions")).text


def test_a_fault_of_our_own_is_said_without_its_place_and_logged(
    make_site: Callable[..., Site],
) -> None:
    def broken() -> datetime:
        raise RuntimeError("what broke")

    site = make_site(pages_clock=broken)
    one = site.begin()
    with capture_logs() as logged:
        found = site.get(f"/view/sessions/{one}")
    assert found.status_code == 500
    assert "what broke" in found.text
    assert "Traceback" not in found.text
    (fault,) = [entry for entry in logged if entry["event"] == "ui.fault"]
    assert "Traceback" in fault["where"]
