"""A session as its page shows it: attempts, time, budget, questions, files."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.base.files import ReadError
from agentforge_sessions.base.files.trees import FileChange, TreeChanges
from agentforge_sessions.base.question import Question
from agentforge_sessions.entrypoints.pages.record import MAX_HISTORY
from agentforge_sessions.entrypoints.pages.session_page import render_report, session_report
from agentforge_sessions.entrypoints.pages.values.attempts import attempts_of, with_steps
from agentforge_sessions.entrypoints.pages.values.contents import NoContent, TextContent
from agentforge_sessions.entrypoints.pages.values.material import (
    MAX_ATTEMPTS,
    PageSource,
    SessionMaterial,
)
from agentforge_sessions.entrypoints.pages.values.session_view import SessionView, view_of
from agentforge_sessions.entrypoints.pages.values.spans import SpanKind, seconds_by_kind
from agentforge_sessions.entrypoints.pages.values.texts import duration
from agentforge_sessions.harness import InvalidSession, SessionContext, SessionStore
from agentforge_sessions.harness.domain.history_events import (
    AgentAnswered,
    BudgetExtended,
    InputsPlaced,
    PhaseFailed,
    PhaseSucceeded,
    QuestionAsked,
)
from agentforge_sessions.workflows.gates.verdict import Verdict
from tests.support.agents import GOOD, GREEN, WRONG, AgentGround, ScriptedAgent, block
from tests.support.pages import BEGAN, PARENT, PageReader, eventful_view

PATCH = b"""diff --git a/made.py b/made.py
new file mode 100644
--- /dev/null
+++ b/made.py
@@ -0,0 +1 @@
+x = 1
diff --git a/spec/in.txt b/spec/in.txt
new file mode 100644
--- /dev/null
+++ b/spec/in.txt
@@ -0,0 +1 @@
+given
"""
CHANGED = TreeChanges(
    (
        FileChange("made.py", "added", "000000", "100644", 1, 0),
        FileChange("picture.png", "added", "000000", "100644", None, None),
        FileChange("spec/in.txt", "added", "000000", "100644", 1, 0),
    ),
    PATCH,
)


def developed(tmp_path: Path) -> AgentGround:
    """Return the ground of a session whose second phase took two attempts."""
    ground = AgentGround(tmp_path / "sessions")
    ground.agent = ScriptedAgent(script={**GOOD, "green": [block("adder.py", WRONG), GREEN]})
    ground.start()
    return ground


def seen(ground: AgentGround, **source: object) -> SessionView:
    store = SessionStore(ground.base)
    workspace = store.workspace_path(ground.session_id)
    given = {"workspace": workspace, **source}
    read = PageSource(ground.session, store, **given).read()  # type: ignore[arg-type]
    return view_of(ground.session, read)


def tried(times: int) -> SessionContext:
    """Return a session with so many attempts, each of which failed."""
    session = SessionContext.create("flow", "red", 10_000, now=BEGAN)
    for number in range(1, times + 1):
        now = BEGAN + timedelta(seconds=10 * number)
        session.add_event(AgentAnswered(call=1, tokens=10, seconds=4.0), now=now)
        now += timedelta(seconds=3)
        snapshot = f"{number:040x}"
        failed = PhaseFailed(attempt=number, seconds=2.0, tokens=10, snapshot=snapshot)
        session.add_event(failed, now=now, details="no; whatever")
        session.next_attempt(reason="no", now=now)
    return session


def test_attempts_have_what_was_asked_said_judged_and_changed(tmp_path: Path) -> None:
    attempts = seen(developed(tmp_path)).attempts
    assert [one.name for one in attempts] == [
        "red, attempt 1",
        "green, attempt 1",
        "green, attempt 2",
        "refactor, attempt 1",
        "verify, attempt 1",
    ]
    wrong, right = attempts[1], attempts[2]
    assert isinstance(wrong.verdict, Verdict)
    assert (wrong.outcome.value, wrong.verdict.summary) == ("failed", "1 of 1 tests does not pass")
    assert wrong.verdict.evidence
    (call,) = right.calls
    assert "adder" in (call.prompt or "")
    assert call.stored is not None
    assert call.stored.answer.text == GREEN
    assert call.event is not None
    assert call.event.tokens == right.tokens == 150
    assert right.change is not None
    (file,) = right.change.files
    assert (file.path, file.kind, file.added, file.removed) == ("adder.py", "modified", 1, 1)


def test_changes_are_those_of_the_snapshots_where_there_are_some() -> None:
    session = tried(2)
    compared: list[tuple[int | None, int]] = []

    def differences(before: int | None, after: int) -> TreeChanges:
        compared.append((before, after))
        return CHANGED

    source = PageSource(session, SessionStore("x"), differences=differences)
    first, second, last = source.read().attempts
    assert compared == [(None, 1), (1, 2)]
    assert first.change is not None
    assert second.change is not None
    assert [one.path for one in second.change.files] == ["made.py", "picture.png", "spec/in.txt"]
    assert [one.is_binary for one in second.change.files] == [False, True, False]
    assert (second.before, second.after, second.change.by_snapshots) == (1, 2, True)
    assert last.change is None, "it is under way"


def test_inputs_are_no_change_of_the_first_attempt() -> None:
    session = SessionContext.create("flow", "red", 10_000, now=BEGAN)
    session.add_event(InputsPlaced(paths=("spec/in.txt",)), now=BEGAN)
    session.add_event(PhaseSucceeded(attempt=1, snapshot="a" * 40), now=BEGAN)
    source = PageSource(session, SessionStore("x"), differences=lambda *_: CHANGED)
    (attempt,) = source.read().attempts
    assert attempt.change is not None
    assert [one.path for one in attempt.change.files] == ["made.py", "picture.png"]


def test_snapshots_that_can_not_be_compared_say_so_and_answers_stand_in(tmp_path: Path) -> None:
    ground = developed(tmp_path)

    def refuse(before: int | None, after: int) -> TreeChanges:
        raise AgentForgeError("they are elsewhere")

    without = seen(ground)
    view = seen(ground, differences=refuse)
    for attempt, known in zip(view.attempts, without.attempts, strict=True):
        if attempt.after is not None and known.change is not None:
            assert attempt.change is not None
            assert attempt.change.note == "The snapshots can't be compared: they are elsewhere"
            assert attempt.change.files == known.change.files


def test_files_have_their_last_content_and_say_why_there_is_none(tmp_path: Path) -> None:
    ground = developed(tmp_path)
    here = {one.path: one.content for one in seen(ground).files}
    assert here["adder.py"] == seen(ground).files[0].content
    assert isinstance(here["adder.py"], TextContent)
    assert "return a + b" in here["adder.py"].text
    workspace = SessionStore(ground.base).workspace_path(ground.session_id)
    (workspace / "adder.py").unlink()
    (workspace / "adder.py").symlink_to("/etc/passwd")
    (workspace / "tests" / "test_adder.py").unlink()
    files = {one.path: one.content for one in seen(ground).files}
    linked, missing = files["adder.py"], files["tests/test_adder.py"]
    assert isinstance(linked, NoContent)
    assert "symbolic link" in linked.reason
    assert missing == NoContent("it is not in the workspace any more")


def test_files_of_another_machine_are_those_of_the_answers(tmp_path: Path) -> None:
    files = {one.path: one.content for one in seen(developed(tmp_path), workspace=None).files}
    content = files["adder.py"]
    assert isinstance(content, TextContent)
    assert content.text.startswith('"""Adds."""')


def test_specification_is_shown(tmp_path: Path) -> None:
    found = seen(developed(tmp_path)).specification
    assert isinstance(found, TextContent)
    assert "component_id: adder" in found.text


def test_time_is_split_into_agent_gate_and_idle() -> None:
    session = tried(2)
    view = view_of(session, PageSource(session, SessionStore("x")).read())
    seconds = seconds_by_kind(view.spans)
    assert seconds == {
        SpanKind.AGENT: 8.0,
        SpanKind.GATE: 4.0,
        SpanKind.PERSON: 0.0,
        SpanKind.IDLE: 11.0,
    }
    assert view.seconds == 23.0
    assert [seconds_by_kind(one.spans)[SpanKind.AGENT] for one in view.attempts] == [4.0, 4.0, 0.0]


def test_question_that_waits_counts_until_now() -> None:
    view = eventful_view("words")
    assert [one.question_id for one in view.questions if one.outcome == "waiting"] == ["q-6"]
    assert view.spans[-1].kind is SpanKind.PERSON
    assert view.spans[-1].ended == BEGAN + timedelta(hours=1)


def test_questions_have_options_answers_and_how_they_ended() -> None:
    found = {one.question_id: one for one in eventful_view("words").questions}
    answered = found["q-1"].prompts[0]
    assert [one.label for one in answered.options] == ["words", "other"]
    assert answered.answer == "words; words"
    assert {name: one.outcome for name, one in found.items()} == {
        "q-1": "answered",
        "q-2": "rejected",
        "q-3": "not asked",
        "q-4": "timed_out",
        "q-5": "abandoned",
        "q-6": "waiting",
    }


def test_many_attempts_and_entries_are_cut_and_say_where_the_rest_is() -> None:
    session = tried(MAX_HISTORY // 3 + 5)
    material = PageSource(session, SessionStore("x")).read()
    reader = PageReader.of(render_report(view_of(session, material)))
    assert sum(1 for one in reader.ids if one.startswith("entry-")) == MAX_HISTORY
    count = len(material.attempts)
    assert reader.ids.count(f"attempt-{count}") == 1
    assert f"attempt-{count - MAX_ATTEMPTS}" not in reader.ids
    said = reader.text
    assert f"The first {count - MAX_ATTEMPTS} of {count} attempts are left out" in said
    total = len(session.history)
    assert f"The first {total - MAX_HISTORY} of {total:,} entries are left out" in said
    assert f"agentforge session log {session.session_id}" in said


@pytest.mark.parametrize("goal", ["Short goal", "A title\n\nand more of it", "x" * 400, None])
def test_title_is_the_goal_where_that_is_short(goal: str | None) -> None:
    session = SessionContext.create("flow", None, 100, goal=goal, now=BEGAN)
    page = render_report(view_of(session, SessionMaterial()))
    reader = PageReader.of(page)
    assert session.session_id in reader.text
    assert (goal or "") in reader.text
    assert "No phase was begun." in reader.text


def test_fork_names_its_parent() -> None:
    view = eventful_view("words")
    assert view.session.parent_id == PARENT
    assert PARENT in PageReader.of(render_report(view)).text


def test_retried_phase_counts_its_rounds() -> None:
    names = [one.label for one in eventful_view("words").attempts]
    assert names == ["attempt 1", "attempt 2", "attempt 1", "round 2", "round 3"]


def test_title_tags_and_data_of_its_user_are_shown(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    parent = SessionContext.create(
        "flow",
        None,
        100,
        goal="A goal",
        title="A title",
        tags=["blue"],
        metadata={"ticket": 1234, "links": {"a": [True, None]}},
        workflow_state={"step": "one"},
        now=BEGAN,
    )
    store.save(parent)
    child = SessionContext.create(
        None,
        None,
        100,
        title="A child",
        parent_id=parent.session_id,
        session_id="session_20260102_000000_000000",
    )
    store.save(child)
    page = session_report(PageSource(parent, store))
    assert "<title>A title</title>" in page
    assert "<h1>A title</h1>" in page
    assert '<p class="goal">A goal</p>' in page
    assert '<span class="tag">blue</span>' in page
    said = PageReader.of(page).text
    for words in ("1,234", "a: yes, none", "step", "A child", child.session_id):
        assert words in said
    assert parent.session_id in PageReader.of(session_report(PageSource(child, store))).text


def test_session_of_this_moment_has_a_page() -> None:
    session = SessionContext.create("flow", "red", 100, now=BEGAN)
    material = PageSource(session, SessionStore("x")).read()
    for now in (None, BEGAN, BEGAN + timedelta(seconds=90)):
        view = view_of(session, material, now=now)
        assert view.attempts[0].ended == (now or BEGAN), "it is under way"
        assert "red" in PageReader.of(render_report(view)).text


def test_attempt_without_a_snapshot_of_its_own_is_not_compared() -> None:
    session = SessionContext.create("flow", "red", 1_000, now=BEGAN)
    session.add_event(PhaseFailed(attempt=1, snapshot="a" * 40), now=BEGAN)
    session.next_attempt(now=BEGAN)
    session.add_event(PhaseFailed(attempt=2, unkept="a pipe"), now=BEGAN)
    source = PageSource(session, SessionStore("x"), differences=lambda *_: CHANGED)
    first, second = source.read().attempts
    assert (first.before, first.after) == (None, 1)
    assert (second.before, second.after, second.change) == (1, None, None)


def test_budget_burns_down_by_charges_and_up_by_extensions() -> None:
    session = SessionContext.create("flow", "red", 1_000, now=BEGAN)
    session.add_event(AgentAnswered(tokens=300), now=BEGAN)
    session.token_budget.record_usage(300)
    session.token_budget.extend(500)
    session.add_event(BudgetExtended(additional_tokens=500, total_budget=1_500), now=BEGAN)
    session.add_event(PhaseFailed(attempt=1, tokens=300), now=BEGAN)
    points = view_of(session, SessionMaterial()).budget
    assert [one.left for one in points] == [1_000, 700, 1_200, 1_200]


def test_answers_that_question_sessions_offer_are_shown() -> None:
    session = SessionContext.create("flow", "red", 100, now=BEGAN)
    asked = [
        Question(prompt="Which?", title="Which", options=["red", "blue"]),
        Question(prompt="Why?", title="Why"),
    ]
    for number in (1, 2):
        prompts = tuple(one.prompt for one in asked)
        session.add_event(QuestionAsked(question_id=f"q-{number}", prompts=prompts), now=BEGAN)

    def known(question_id: str) -> list[Question]:
        if question_id == "q-1":
            raise AgentForgeError("it was deleted")
        return asked

    source = PageSource(session, SessionStore("x"), questions=known)
    which, why = view_of(session, source.read()).questions[1].prompts
    assert [one.label for one in which.options] == ["red", "blue"]
    assert why.options == ()


def test_calls_are_those_of_the_history_and_those_that_are_stored() -> None:
    session = SessionContext.create("flow", "red", 100, now=BEGAN)
    session.add_event(AgentAnswered(call=10**12, tokens=5), now=BEGAN)
    (attempt,) = attempts_of(session)
    steps = {
        attempt.key.name("prompt", 2): "asked",
        attempt.key.name("answer", 2): ReadError(path="x", reason="it is no JSON"),
        "0001-green-1.3.prompt.json": "of another attempt",
        "base.json": "",
    }
    calls = with_steps(attempt, steps).calls
    assert [(one.number, one.prompt, len(one.problems)) for one in calls] == [
        (2, "asked", 1),
        (10**12, None, 0),
    ]


@pytest.mark.parametrize("seconds", [1e300, float("inf"), float("nan"), -5.0])
def test_durations_that_can_not_be_true_are_no_more_than_there_was(seconds: float) -> None:
    session = SessionContext.create("flow", "red", 100, now=BEGAN)
    now = BEGAN + timedelta(seconds=10)
    with suppress(InvalidSession):
        session.add_event(AgentAnswered(call=1, seconds=seconds), now=now)
    material = PageSource(session, SessionStore("x")).read()
    view = view_of(session, material, now=now)
    assert view.seconds == 10.0
    PageReader.of(render_report(view))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min 00 s"),
        (3_599.7, "1 h 00 min"),
        (200_000, "2 d 7 h"),
        (float("inf"), "1157407 d 9 h"),
        (-1, "0.0 s"),
    ],
)
def test_durations_read_in_two_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words
