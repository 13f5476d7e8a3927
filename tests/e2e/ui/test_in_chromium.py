"""Every page and action of `agentforge ui` in a real browser, by mouse and by keyboard."""

from __future__ import annotations

import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from agentforge_sessions.harness import SessionState
from agentforge_sessions.questions import Option, Question, SessionStatus
from tests.e2e.ui.conftest import REBOUND, ROOT, Project, Visit
from tests.support.contrast import FAINT
from tests.support.page_address import code_of, exchange, key_of
from tests.support.profile_files import files_with
from tests.support.questions import DATABASE, FEATURES

HOSTILE = '"><img src=x onerror="alert(1)"><script>alert(2)</script>{{7*7}}\' onfocus=alert(3) x=\''


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.id"))


def tab_to(page: Any, name: str) -> None:
    """Press Tab until an element has the keyboard."""
    for _ in range(200):
        page.keyboard.press("Tab")
        if focused(page) == name:
            return
    raise AssertionError(f"the keyboard does not reach {name}")


# ---------------------------------------------------------------------------------- the list


def test_the_list_is_narrowed_while_one_types_and_opened_by_keyboard(
    visit: Visit, project: Project
) -> None:
    one = project.begin("Find the leak in the importer")
    project.begin("Something else")
    page = visit.open()
    page.wait_for_selector(f"#row-{one}")
    page.keyboard.press("/")
    assert focused(page) == "q"
    page.keyboard.type("leak importer")
    page.wait_for_selector("#pages:has-text('1 session'):not(:has-text('1 sessions'))")
    assert page.locator(".row").count() == 1
    page.wait_for_url("**/?q=leak+importer")
    assert focused(page) == "q"
    page.reload()
    page.wait_for_selector(f"#row-{one}")
    assert page.locator(".row").count() == 1
    assert page.input_value("#q") == "leak importer"
    page.keyboard.press("j")
    assert focused(page) == f"to-{one}"
    page.keyboard.press("Enter")
    page.wait_for_selector("#history")
    assert page.url.endswith(f"/sessions/{one}")
    page.go_back()
    page.wait_for_selector(f"#row-{one}")


def test_states_and_orders_are_chosen_by_mouse_and_keyboard(visit: Visit, project: Project) -> None:
    one = project.begin("A session that is paused")
    project.lead(one).pause()
    page = visit.open()
    page.click("label[data-standing=paused]")
    page.wait_for_url("**/?standing=paused")
    assert page.locator(".row .badge:not([data-state=paused])").count() == 0
    page.focus("#standing-paused")
    page.keyboard.press("Space")
    page.wait_for_url(f"{project.origin}/")
    page.select_option("#order", "created")
    page.wait_for_url("**/?order=created")
    page.wait_for_selector(f"#row-{one}:first-child")


def test_what_changes_is_seen_at_once_and_takes_nothing_from_the_keyboard(
    visit: Visit, project: Project
) -> None:
    one = project.begin("It changes while one looks")
    page = visit.open()
    page.focus(f"#to-{one}")
    page.evaluate("window.sameDocument = true")
    project.lead(one).record_tokens(90_000)
    page.wait_for_selector(f"#row-{one} rect.near")
    assert focused(page) == f"to-{one}"
    new = project.begin("It appears while one looks")
    page.wait_for_selector(f"#row-{new}")
    project.lead(new).complete()
    page.wait_for_selector(f"#row-{new} .badge[data-state=completed]")
    project.lead(new).delete(new)
    page.wait_for_selector(f"#row-{new}", state="detached")
    assert focused(page) == f"to-{one}"
    assert page.evaluate("window.sameDocument") is True


def test_what_was_filtered_is_searched_in_histories_and_questions_by_keyboard(
    visit: Visit, project: Project
) -> None:
    one = project.begin("It has a history", workflow_type="searched")
    project.lead(one).add_history("note", f"the ledger {HOSTILE}")
    asked = project.ask(evolve(DATABASE, prompt="Which ledger?"), session_id=one)
    page = visit.open()
    page.keyboard.press("/")
    page.keyboard.type("ledger")
    page.wait_for_selector("#none")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=ledger")
    page.wait_for_selector(f"#row-{one} mark:has-text('ledger')")
    page.wait_for_selector(f"#row-{asked} mark")
    assert "<script>alert(2)</script>" in page.inner_text(f"#row-{one}")
    assert page.locator("#view img, #view script").count() == 0
    tab_to(page, f"to-{asked}")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#question-{asked}")
    project.questions.reject_session(asked)
    page.go_back()
    page.wait_for_selector(f"#row-{one}")
    page.keyboard.press("/")
    page.keyboard.type(" nowhere")
    page.keyboard.press("Enter")
    page.wait_for_selector("#summary:has-text('Nothing has all')")


# ------------------------------------------------------------------------------- one session


def test_a_session_is_paused_by_mouse_and_aborted_by_keyboard(
    visit: Visit, project: Project
) -> None:
    one = project.begin("To be paused, then aborted")
    page = visit.open(f"/sessions/{one}")
    page.click("#to-pause")
    page.fill("#dialog-pause textarea", "till tomorrow")
    page.click("#dialog-pause button[type=submit]")
    page.wait_for_selector("#session .badge:has-text('paused')")
    page.wait_for_selector("#toasts p:has-text('paused')")
    assert project.session(one).history[-1].details == "till tomorrow"
    tab_to(page, "to-abort")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    page.wait_for_selector("#dialog-abort", state="hidden")
    assert focused(page) == "to-abort"
    page.keyboard.press("Enter")
    page.keyboard.type("no longer needed")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#session .badge:has-text('aborted')")
    assert project.session(one).state is SessionState.ABORTED


def test_a_budget_is_extended_and_what_is_wrong_is_said_in_the_dialog(
    visit: Visit, project: Project
) -> None:
    one = project.begin("It needs more", token_budget=1_000)
    page = visit.open(f"/sessions/{one}")
    page.click("#to-extend")
    page.fill("#dialog-extend input", "0")
    page.keyboard.press("Enter")
    page.wait_for_selector("#dialog-extend .alarm:has-text('write tokens, as 200000')")
    page.fill("#dialog-extend input", "2,000")
    page.keyboard.press("Enter")
    page.wait_for_selector("#overview:has-text('of 3,000')")
    assert project.session(one).token_budget.total_budget == 3_000
    visit.complaints.clear()  # the browser notes each answer that refuses


def test_what_another_process_did_first_is_said(visit: Visit, project: Project) -> None:
    one = project.begin("Ended elsewhere")
    page = visit.open(f"/sessions/{one}")
    page.click("#to-pause")
    project.lead(one).complete()
    page.click("#dialog-pause button[type=submit]")
    page.wait_for_selector("#dialog-pause .alarm:has-text('it has ended for good')")
    page.keyboard.press("Escape")
    page.wait_for_selector("#session .badge:has-text('completed')")  # put off while it was open
    visit.complaints.clear()


def test_what_one_opened_and_selected_stays_while_the_session_goes_on(
    visit: Visit, project: Project
) -> None:
    one = project.begin("It goes on")
    page = visit.open(f"/sessions/{one}")
    page.click("#briefing summary")
    project.lead(one).record_tokens(5_000)
    page.wait_for_selector("#overview:has-text('5,000 of')")
    page.wait_for_selector("#briefing:has-text('95,000')")
    assert page.evaluate("document.querySelector('#briefing details').open") is True
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#overview dl'))")
    project.lead(one).record_tokens(1_000)
    page.wait_for_selector("#briefing:has-text('94,000')")
    assert "5,000" in page.evaluate("String(getSelection())")
    page.evaluate("getSelection().removeAllRanges()")
    page.wait_for_selector("#overview:has-text('6,000 of')")


def test_every_action_on_a_session_is_done_by_keyboard_alone(
    visit: Visit, project: Project
) -> None:
    one = project.begin("All by keyboard", initial_phase="red", token_budget=1_000)
    file = project.base / one / "workspace" / "a.txt"
    file.parent.mkdir(exist_ok=True)
    file.write_text("first")
    project.lead(one, keeping=True).checkpoint_session()
    file.write_text("second")
    page = visit.open(f"/sessions/{one}")

    def act(name: str, typed: str, keys: tuple[str, ...] = ("Enter",)) -> None:
        page.wait_for_selector(f"#to-{name}")
        tab_to(page, f"to-{name}")
        page.keyboard.press("Enter")
        page.wait_for_selector(f"#dialog-{name.partition('-')[0]}[open]")
        page.keyboard.type(typed)
        for key in keys:
            page.keyboard.press(key)

    act("extend", "500")
    page.wait_for_selector("#overview:has-text('of 1,500')")
    act("rewind-1", "", ("Tab", "Enter"))  # it begins at Cancel
    page.wait_for_selector("#toasts p:has-text('back at checkpoint 1')")
    assert file.read_text() == "first"
    act("pause", "till tomorrow", ("Tab", "Tab", "Enter"))
    page.wait_for_selector("#session .badge:has-text('paused')")
    assert project.session(one).history[-1].details == "till tomorrow"
    act("fork-1", "700")
    page.wait_for_url(lambda url: "/sessions/" in url and one not in url)
    page.wait_for_selector(f"#session a[href='/sessions/{one}']")
    fork = page.url.rpartition("/")[2]
    assert project.session(fork).token_budget.total_budget == 700
    act("abort", "enough", ("Tab", "Tab", "Enter"))
    page.wait_for_selector("#session .badge:has-text('aborted')")
    assert project.session(fork).state is SessionState.ABORTED


# --------------------------------------------------------------------------------- questions


def test_a_question_appears_and_is_answered_by_mouse(visit: Visit, project: Project) -> None:
    page = visit.open("/questions")
    asked = project.ask(DATABASE, FEATURES)
    card = page.locator(f"#question-{asked}")
    card.wait_for()
    card.locator("button[type=submit]").first.click()
    page.wait_for_selector(f"#fault-{asked}-0:has-text('Choose one')")
    card.locator("label:has-text('SQLite')").click()
    card.locator("label:has-text('Auth')").click()
    card.locator("button[type=submit]").first.click()
    card.wait_for(state="detached")
    answers = project.questions.get(asked).answers
    assert answers is not None
    assert [one.selected_option for one in answers.answers] == ["SQLite", None]
    assert answers.answers[1].selected_options == ("Auth",)
    visit.complaints.clear()


def test_a_question_is_answered_by_keyboard_in_own_words(visit: Visit, project: Project) -> None:
    one = project.begin("It asks")
    asked = project.ask(DATABASE, session_id=one)
    page = visit.open(f"/sessions/{one}")
    tab_to(page, f"text-{asked}-0")
    page.keyboard.type("MySQL")
    assert page.is_checked(f"#choice-{asked}-0-other")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#question-{asked}", state="detached")
    answers = project.questions.get(asked).answers
    assert answers is not None
    assert answers.answers[0].custom_text == "MySQL"


def test_a_question_is_declined_by_keyboard_with_a_reason(visit: Visit, project: Project) -> None:
    asked = project.ask(DATABASE)
    page = visit.open("/questions")
    tab_to(page, f"to-decline-{asked}")
    page.keyboard.press("Enter")
    page.keyboard.type("not mine to say")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#question-{asked}", state="detached")
    assert project.questions.get(asked).rejection_reason == "not mine to say"


def test_what_is_typed_outlives_live_changes_a_reload_and_the_end_of_the_question(
    visit: Visit, project: Project
) -> None:
    asked = project.ask(DATABASE)
    page = visit.open("/questions")
    page.fill(f"#text-{asked}-0", "half an ans")
    other = project.ask(FEATURES)
    page.wait_for_selector(f"#question-{other}")
    assert page.input_value(f"#text-{asked}-0") == "half an ans"
    page.reload()
    page.wait_for_selector(f"#question-{asked}")
    assert page.input_value(f"#text-{asked}-0") == "half an ans"
    assert page.is_checked(f"#choice-{asked}-0-other")
    project.questions.reject_session(asked)
    page.wait_for_selector(f"#question-{asked} .ended")
    assert page.input_value(f"#text-{asked}-0") == "half an ans"
    page.click(f"#question-{asked} button[type=submit] >> nth=0")
    page.wait_for_selector(f"#outcome-{asked} .alarm")
    assert project.questions.get(asked).status is SessionStatus.REJECTED
    project.questions.reject_session(other)
    visit.complaints.clear()


# ----------------------------------------------------------------------------- other pages


def test_the_rules_of_a_prune_are_tried_and_nothing_is_removed(
    visit: Visit, project: Project
) -> None:
    one, newer = project.begin("Long done"), project.begin("Just done")
    for each in (one, newer):
        project.lead(each).complete()
    page = visit.open("/prune")
    page.fill("#keep_last", "1")
    page.keyboard.press("Enter")
    page.wait_for_url("**/prune?keep_last=1")
    page.wait_for_selector("#kind-agent:has-text('too many')")
    assert "agentforge prune --keep-last 1" in page.inner_text("#command")
    assert project.session(one) is not None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_page_fits_a_phone_in_light_and_dark_with_contrast_enough(
    visits: Callable[..., Visit], project: Project, chromium: Any, scheme: str
) -> None:
    one = project.begin("A goal with a longwordthatcannotbebrokenanywhere" * 3, initial_phase="red")
    project.lead(one).add_artifact("tests/" + "very-long-name-" * 12 + ".py", "created")
    asked = project.ask(session_id=one)
    visit = visits(viewport={"width": 360, "height": 740}, color_scheme=scheme, has_touch=True)
    for path in ("/", f"/sessions/{one}", "/questions", "/prune"):
        page = visit.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(int(part) for part in background[4:-1].split(",")) > 3 * 128
        assert light is (scheme == "light")
        assert page.evaluate(FAINT) == {}, path
        page.close()
    report = project.folder / "report.html"
    subprocess.run(
        [
            *(sys.executable, "-m", "agentforge_sessions.entrypoints.cli"),
            *("session", "report", one, "--out", str(report)),
        ],
        cwd=project.folder,
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    page = chromium.new_context(color_scheme=scheme).new_page()
    page.goto(report.as_uri())
    assert page.evaluate(FAINT) == {}
    page.context.close()
    project.questions.reject_session(asked)


def test_hostile_text_runs_nowhere(visit: Visit, project: Project) -> None:
    one = project.begin(HOSTILE, initial_phase=HOSTILE[:60], workflow_type="<b>x")
    project.lead(one).add_artifact("<img src=x onerror=alert(4)>.png", "created")
    project.lead(one).pause(HOSTILE)
    option = Option(label=HOSTILE, description=HOSTILE)
    question = Question(prompt=HOSTILE, title=HOSTILE[:40], options=(option, Option(label="b")))
    asked = project.ask(question, session_id=one)
    for path in ("/", f"/sessions/{one}", "/questions", "/prune?keep_last=1"):
        page = visit.open(path)
        if path != "/prune?keep_last=1":
            assert "<script>alert(2)</script>" in page.inner_text("#view"), path
        assert page.locator("#view img, #view script").count() == 0
    page = visit.open("/questions")
    page.click(f"#choice-{asked}-0-0")
    page.click(f"#question-{asked} button[type=submit] >> nth=0")
    page.wait_for_selector(f"#question-{asked}", state="detached")
    answers = project.questions.get(asked).answers
    assert answers is not None
    assert answers.answers[0].selected_option == HOSTILE


# ---------------------------------------------------------------------------------- attacks


@contextmanager
def foreign_site(page: str) -> Iterator[str]:
    """Serve a page on another port of this machine."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


ATTACK = """
async ({origin, one, asked, key}) => {
  const said = [];
  const targets = ["/view/", `/view/sessions/${one}`, `/do/sessions/${one}/abort`,
    `/do/questions/${asked}/reject`, "/events"];
  for (const path of targets) {
    for (const options of [
      {}, {method: "POST", body: new URLSearchParams({reason: "x"})},
      {method: "POST", mode: "no-cors", body: new URLSearchParams({reason: "x"})},
      {method: "POST", headers: {"X-Agentforge-Key": key}}, {headers: {"X-Agentforge-Key": key}},
    ]) {
      try {
        const answer = await fetch(origin + path, options);
        said.push(answer.type === "opaque" ? "opaque" : answer.status);
      } catch { said.push("refused"); }
    }
  }
  for (const path of targets) {
    const frame = Object.assign(document.createElement("iframe"), {name: "f", src: origin + path});
    document.body.append(frame);
    const form = Object.assign(document.createElement("form"),
      {method: "post", action: origin + path, target: "f"});
    document.body.append(form);
    form.submit();
    await new Promise(done => frame.addEventListener("load", done, {once: true}));
  }
  const framed = document.createElement("iframe");
  framed.src = origin + "/";
  document.body.append(framed);
  await new Promise(done => framed.addEventListener("load", done, {once: true}));
  return said;
}
"""


def test_a_page_of_another_port_reads_nothing_and_changes_nothing_even_with_the_key(
    chromium: Any, project: Project
) -> None:
    one, asked = project.begin("Not to be touched"), project.ask(DATABASE)
    before = project.session(one).revision
    context = chromium.new_context()
    try:
        with foreign_site("<!doctype html><body>evil") as url:
            own = context.new_page()  # where a person has the pages open in the same browser
            own.goto(project.address())
            own.wait_for_selector("#view > *")
            page = context.new_page()
            page.goto(url)
            key = key_of(project.address())
            said = page.evaluate(
                ATTACK, {"origin": project.origin, "one": one, "asked": asked, "key": key}
            )
            assert set(said) <= {"refused", "opaque"}
            assert page.evaluate("sessionStorage.length + document.cookie.length") == 0
    finally:
        context.close()
    assert project.session(one).revision == before
    assert project.questions.get(asked).status is SessionStatus.PENDING
    project.questions.reject_session(asked)


def test_a_name_that_was_rebound_to_this_machine_reaches_nothing(
    chromium: Any, project: Project
) -> None:
    context = chromium.new_context()
    try:
        page = context.new_page()
        answer = page.goto(project.url.replace("127.0.0.1", REBOUND))
        assert answer.status == 421
        assert "names of this machine only" in page.inner_text("body")
        status = page.evaluate(
            "async key => (await fetch('/view/', {headers: {'X-Agentforge-Key': key}})).status",
            key_of(project.address()),
        )
        assert status == 421
    finally:
        context.close()


def test_without_the_key_the_page_says_what_to_open_and_shows_nothing(
    visits: Callable[..., Visit], project: Project
) -> None:
    project.begin("A secret goal")
    visit = visits()
    page = visit.open(key=False)
    page.wait_for_selector("#refused:not([hidden])")
    assert "agentforge ui" in page.inner_text("#refused")
    assert "A secret goal" not in page.content()
    wrong = visit.context.new_page()
    wrong.goto(f"{project.origin}/#code=wrong")
    wrong.wait_for_selector("#refused:not([hidden])")
    visit.complaints.clear()


def test_the_key_leaves_the_address_and_a_new_tab_has_it_from_the_others(
    visit: Visit, project: Project
) -> None:
    one = project.begin("In a tab of its own")
    page = visit.open()
    assert page.url == f"{project.origin}/"
    page.wait_for_selector(f"#row-{one}")
    with visit.context.expect_page() as opened:
        page.click(f"#to-{one}", modifiers=["Control"])
    tab = opened.value
    tab.wait_for_selector("#history")
    key = key_of(project.address())
    kept = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, history.state])")
    assert key not in "".join(visit.requested) + kept
    assert page.evaluate("localStorage.length + document.cookie.length") == 0


def test_the_key_is_in_no_file_of_the_browser(
    project: Project, chromium_profile: Callable[[], Any], tmp_path: Path
) -> None:
    """After pages, links, a reload and a second tab; what is on disk can't be exchanged for it."""
    one = project.begin("Seen by a browser that keeps all it can")
    url = project.address()
    with chromium_profile() as context:
        page = context.new_page()
        page.goto(url)
        page.click(f"#to-{one}")
        page.wait_for_selector("#history")
        page.reload()
        page.wait_for_selector("#history")
        page.go_back()
        page.wait_for_selector(f"#row-{one}")
        kept = page.evaluate("sessionStorage.getItem('agentforge-codes')")
        with context.expect_page() as opened:
            page.click(f"#to-{one}", modifiers=["Control"])
        opened.value.wait_for_selector("#history")
        page.wait_for_selector("#link[data-state=live]")
    key = key_of(project.address())
    assert files_with(tmp_path / "profile", key) == []
    assert files_with(tmp_path / "profile", code_of(url)), "the search finds the address"
    assert exchange(url)[0] == 403
    assert len(kept.split()) == 1


def test_links_that_are_followed_faster_than_pages_load_keep_the_key(
    visit: Visit, project: Project
) -> None:
    page = visit.open()
    for _ in range(10):
        for path in ("/questions", "/prune", "/"):
            page.goto(f"{project.origin}{path}", wait_until="commit")
    page.goto(f"{project.origin}/prune")
    page.wait_for_selector("#command")
    assert page.locator("#refused").is_hidden()


def test_an_address_that_was_used_says_what_to_do_and_the_next_one_connects_the_same_tab(
    visits: Callable[..., Visit], project: Project
) -> None:
    url = project.address()
    assert key_of(url)
    visit = visits()
    page = visit.context.new_page()
    page.goto(url)
    page.wait_for_selector("#refused:not([hidden])")
    assert "Press Enter" in page.inner_text("#refused")
    another = project.address()
    page.evaluate(f"location.href = {another!r}")  # it differs in its fragment alone: no new load
    page.wait_for_selector("#view > *")
    page.wait_for_selector("#link[data-state=live]")
    assert page.locator("#refused").is_hidden()
    second = visit.context.new_page()
    second.goto(another)  # used, but a tab is open that has the key
    second.wait_for_selector("#view > *")
    assert second.url == f"{project.origin}/"
