"""What is done from a page, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.agents.hooks.recording import stop_if_spent
from agentforge_sessions.agents.ledger import Standing
from agentforge_sessions.entrypoints.ui.views.actions import ACTS
from agentforge_sessions.harness import SessionEvent, SessionState, SessionStore
from agentforge_sessions.harness.steps.program_sessions import steps_of
from agentforge_sessions.harness.store.sessions_place import OwnSessions
from tests.support.observers import Remembering
from tests.support.recorded_programs import begin_program, recording
from tests.unit.ui.conftest import KEY, ORIGIN, Site
from tests.unit.ui.test_pages import HOSTILE, assert_nothing_runs


def test_a_session_is_paused_with_its_reason(site: Site) -> None:
    one = site.begin()
    done = site.post(f"/do/sessions/{one}/pause", reason=" till tomorrow ")
    assert done.status_code == 200
    assert json.loads(done.headers["HX-Trigger"])["done"]["say"].startswith("The session is paused")
    session = site.session(one)
    assert session.state is SessionState.PAUSED
    assert session.history[-1].details == "till tomorrow"


def test_a_session_is_aborted_and_its_budget_extended(site: Site) -> None:
    one = site.begin()
    assert site.post(f"/do/sessions/{one}/extend", more="12,000").status_code == 200
    assert site.post(f"/do/sessions/{one}/abort").status_code == 200
    session = site.session(one)
    assert session.state is SessionState.ABORTED
    assert session.token_budget.total_budget == 112_000


def test_what_the_state_forbids_is_said_as_the_command_line_says_it(site: Site) -> None:
    one = site.begin()
    site.lead(one).abort()
    refused = site.post(f"/do/sessions/{one}/pause")
    assert refused.status_code == 409
    assert "it has ended for good. Nothing was changed." in refused.text
    assert 'role="alert"' in refused.text


def test_an_action_is_done_on_what_another_process_saved_meanwhile(
    make_site: Callable[..., Site],
) -> None:
    def be_late(event: SessionEvent) -> None:
        if event.name == "session.loaded" and len(observer.events) == 0:
            site.lead(one).record_tokens(10)

    observer = Remembering(at_each=be_late)
    site = make_site(observers=[observer])
    one = site.begin()
    assert site.post(f"/do/sessions/{one}/extend", more="5").status_code == 200
    session = site.session(one)
    assert session.token_budget.tokens_used == 10
    assert session.token_budget.total_budget == 100_005


@pytest.mark.parametrize("tokens", ["", "0", "-5", "1e3", "abc", "9" * 40, "٣"])
def test_what_is_no_number_of_tokens_is_said_beside_the_field(site: Site, tokens: str) -> None:
    one = site.begin()
    refused = site.post(f"/do/sessions/{one}/extend", more=tokens)
    assert refused.status_code == 422
    assert "write tokens, as 200000 or 200k, or dollars" in refused.text
    assert site.session(one).revision == 1


def test_a_limit_of_the_person_is_shown_and_extended(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = site.begin()
    assert 'id="extend-of"' not in site.view(f"/sessions/{one}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "config" / "agentforge").mkdir(parents=True)
    limits = tmp_path / "config" / "agentforge" / "config.toml"
    limits.write_text("[budget]\nday_usd = 3\nsession_usd = 1\n")
    page = site.view(f"/sessions/{one}")
    assert "$0.0000 of $1.00 for this session; $0.0000 of $3.00 for today." in page
    assert 'id="extend-of"' in page
    extend = f"/do/sessions/{one}/extend"
    done = site.post(extend, more="$2.50", of="day")
    assert json.loads(done.headers["HX-Trigger"])["done"]["say"] == (
        "$2.50 more may be spent for today."
    )
    assert site.post(extend, more="5usd").status_code == 200
    page = site.view(f"/sessions/{one}")
    assert "$0.0000 of $6.00 for this session; $0.0000 of $5.50 for today." in page
    refused = site.post(extend, more="200k", of="day")
    assert refused.status_code == 422
    assert "no limit day_tokens in [budget]" in refused.text
    assert site.post(extend, more="5usd", of="week").status_code == 422
    assert site.session(one).token_budget.total_budget == 100_000


def test_a_session_that_a_limit_stopped_says_so(site: Site) -> None:
    one = site.begin()
    session = site.session(one)
    stop_if_spent(session, site.clock(), Standing("day", "micro_usd", 5_000_000, 5_000_000))
    SessionStore(site.base).save(session)
    page = site.view(f"/sessions/{one}")
    assert "the limit is spent: $5.00 of $5.00 for today. Extend it first" in page


@pytest.mark.parametrize("name", ["rewind", "fork"])
def test_a_checkpoint_has_to_be_named_and_be_there(site: Site, name: str) -> None:
    one = site.begin()
    assert site.post(f"/do/sessions/{one}/{name}").status_code == 422
    refused = site.post(f"/do/sessions/{one}/{name}", checkpoint="7")
    assert refused.status_code >= 400
    assert "nothing was changed" in refused.text


def test_a_session_goes_back_and_is_forked_at_a_checkpoint(site: Site) -> None:
    one = site.begin("Go back", initial_phase="red")
    manager = site.services.manager()
    manager.open(one)
    workspace = site.base / one / "workspace"
    workspace.mkdir(exist_ok=True)
    (workspace / "a.txt").write_text("first")
    manager.checkpoint_session()
    (workspace / "a.txt").write_text("second")
    assert site.post(f"/do/sessions/{one}/rewind", checkpoint="1").status_code == 200
    assert (workspace / "a.txt").read_text() == "first"
    forked = site.post(f"/do/sessions/{one}/fork", checkpoint="1", tokens="500")
    assert forked.status_code == 200
    go = json.loads(forked.headers["HX-Trigger"])["done"]["go"]
    child = site.session(go.removeprefix("/sessions/"))
    assert child.token_budget.total_budget == 500


def test_a_program_goes_back_and_is_forked_before_a_step(site: Site) -> None:
    store = SessionStore(site.base)
    one = begin_program(store)
    with recording(store, one) as record:
        record("outline#1", "draft#1", "a b#1")
    shown = site.view(f"/sessions/{one}")
    for button in ("Go back: step draft#1", "Fork: step a b#1"):
        assert button in shown
    for name in ("rewind-step", "fork-step"):
        assert site.post(f"/do/sessions/{one}/{name}").status_code == 422
        refused = site.post(f"/do/sessions/{one}/{name}", step="other")
        assert "Nothing was changed" in refused.text
    forked = site.post(f"/do/sessions/{one}/fork-step", step="a b#1", tokens="500")
    child = json.loads(forked.headers["HX-Trigger"])["done"]["go"].removeprefix("/sessions/")
    assert site.session(child).token_budget.total_budget == 500
    assert [step.path for step in steps_of(store, child)] == ["outline#1", "draft#1"]
    done = site.post(f"/do/sessions/{one}/rewind-step", step="draft#1")
    assert "2 steps run again" in done.headers["HX-Trigger"]
    assert [step.path for step in steps_of(store, one)] == ["outline#1"]


@pytest.mark.parametrize("name", ["rewind-step", "fork-step"])
def test_a_program_that_is_not_adopted_is_not_taken_up(site: Site, name: str) -> None:
    store = SessionStore(site.base)
    one = begin_program(store)
    with recording(store, one) as record:
        record("outline#1")
    OwnSessions(site.base).remove([one])
    refused = site.post(f"/do/sessions/{one}/{name}", step="outline#1")
    assert f"agentforge session adopt {one}" in refused.text
    assert store.list_sessions() == [one]
    assert len(steps_of(store, one)) == 1


@pytest.mark.parametrize("name", ["rewind", "fork"])
def test_what_a_session_carries_that_is_not_adopted_is_not_taken_up(site: Site, name: str) -> None:
    one = site.begin(initial_phase="red")
    manager = site.services.manager()
    manager.open(one)
    manager.checkpoint_session()
    OwnSessions(site.base).remove([one])
    refused = site.post(f"/do/sessions/{one}/{name}", checkpoint="1")
    assert refused.status_code >= 400
    assert f"agentforge session adopt {one}" in refused.text
    assert list(SessionStore(site.base).list_sessions()) == [one]


@pytest.mark.parametrize("name", ["delete", "complete", "pause/x", "save"])
def test_what_is_no_action_does_nothing(site: Site, name: str) -> None:
    one = site.begin()
    assert site.post(f"/do/sessions/{one}/{name}").status_code == 404


@pytest.mark.parametrize("session_id", ["...", "%2e%2e%2f%2e%2e", "session_20260301_093000_000001"])
def test_what_is_no_session_is_not_reached(site: Site, session_id: str) -> None:
    refused = site.post(f"/do/sessions/{session_id}/abort")
    assert refused.status_code in {404, 422}


@pytest.mark.parametrize("name", ACTS)
def test_asking_with_get_changes_nothing(site: Site, name: str) -> None:
    one = site.begin()
    found = site.get(f"/do/sessions/{one}/{name}?tokens=5&checkpoint=1")
    assert found.status_code in {404, 405}
    assert site.session(one).revision == 1


def test_the_form_of_a_foreign_page_changes_nothing(site: Site) -> None:
    one, asked = site.begin(), site.ask()
    for path in (f"/do/sessions/{one}/abort", f"/do/questions/{asked}/reject"):
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "http://127.0.0.1:9999", "X-Agentforge-Key": KEY},
            {"Origin": ORIGIN},
            {"X-Agentforge-Key": KEY},
            {},
        ):
            refused = site.client.post(path, data={"reason": "x"}, headers=headers)
            assert refused.status_code in {401, 403}, headers
    assert site.session(one).revision == 1
    assert [one.session_id for one in site.questions.pending()] == [asked]


def test_read_only_there_is_no_address_that_changes_anything(
    make_site: Callable[..., Site],
) -> None:
    site = make_site(read_only=True)
    one, asked = site.begin(), site.ask()
    for path in (
        *(f"/do/sessions/{one}/{name}" for name in ACTS),
        f"/do/questions/{asked}/answer",
        f"/do/questions/{asked}/reject",
    ):
        assert site.post(path, tokens="5", checkpoint="1").status_code in {404, 405}
    assert site.session(one).revision == 1
    assert [one.session_id for one in site.questions.pending()] == [asked]


def test_a_hostile_reason_is_kept_as_text(site: Site) -> None:
    one = site.begin()
    assert site.post(f"/do/sessions/{one}/abort", reason=HOSTILE).status_code == 200
    assert_nothing_runs(site.view(f"/sessions/{one}"))


def test_a_form_with_too_much_in_it_is_refused(site: Site) -> None:
    one = site.begin()
    many = {f"f{number}": "x" for number in range(2000)}
    assert site.post(f"/do/sessions/{one}/abort", **many).status_code == 422

    def endless() -> object:
        for _ in range(40):
            yield b"x" * 65_536

    refused = site.client.post(
        f"/do/sessions/{one}/abort",
        content=endless(),  # type: ignore[arg-type]
        headers={"X-Agentforge-Key": KEY, "Origin": ORIGIN},
    )
    assert refused.status_code == 422
    assert site.session(one).revision == 1


def test_what_the_page_does_is_told_to_those_who_observe(make_site: Callable[..., Site]) -> None:
    observer = Remembering()
    site = make_site(observers=[observer])
    one = site.begin()
    site.view(f"/sessions/{one}")
    assert observer.names == []
    assert site.post(f"/do/sessions/{one}/pause", reason="later").status_code == 200
    assert [event.session_id for event in observer.events] == [one] * len(observer.events)
    assert observer.names == ["session.loaded", "session.paused"]
