"""An agent's work from its beginning to each of its ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import define, evolve

from agentforge_sessions.base.data_folder import configuration_folder
from agentforge_sessions.harness import (
    Question,
    QuestionEnded,
    SessionConflict,
    SessionState,
    SessionStore,
)
from agentforge_sessions.harness.domain.history_events import QUESTION_ENDINGS, AgentPrompted
from agentforge_sessions.workflows.agents.port import (
    AgentAnswer,
    AgentCrashed,
    AgentCutOff,
    AgentFailed,
    AgentRequest,
    AgentTimeout,
    AgentUnavailable,
    TokenUsage,
)
from agentforge_sessions.workflows.documents.specification import (
    InvalidSpecification,
    UnknownComponent,
)
from agentforge_sessions.workflows.errors import (
    AttemptsExhausted,
    BudgetTooSmall,
    InvalidWorkflow,
    NoAgent,
    NoEarlierPhase,
    NothingToRetry,
    TestsContested,
)
from agentforge_sessions.workflows.gate_port import GateUnavailable
from agentforge_sessions.workflows.job import AgentWork
from agentforge_sessions.workflows.ports import StopCause
from agentforge_sessions.workflows.workflow import FileGroup, Gate, Phase, Workflow
from tests.support.agents import (
    CODE,
    GOOD,
    GREEN,
    RED,
    TESTS,
    WRONG,
    AgentGround,
    FakePerson,
    ScriptedAgent,
    block,
    tdflow_work,
)


@pytest.fixture
def ground(tmp_path: Path) -> AgentGround:
    return AgentGround(tmp_path / "sessions")


def say(**phases: object) -> ScriptedAgent:
    return ScriptedAgent(script={**GOOD, **phases})  # type: ignore[arg-type]


def test_tdflow_ends_complete_with_every_step_in_the_history(ground: AgentGround) -> None:
    outcome = ground.start()
    assert outcome.state is SessionState.COMPLETED
    assert outcome.phases_done == ("red", "green", "refactor", "verify")
    assert outcome.reason is None
    assert ground.actions() == [
        "session_created red",
        "agent_answered red",
        "phase_succeeded red",
        "phase_advanced green",
        "agent_answered green",
        "phase_succeeded green",
        "phase_advanced refactor",
        "agent_answered refactor",
        "phase_succeeded refactor",
        "phase_advanced verify",
        "phase_succeeded verify",
        "session_completed verify",
    ]
    assert ground.files()["tests/test_adder.py"] == TESTS
    assert ground.session.token_budget.tokens_used == 3 * 150
    assert [(one.path, one.artifact_type, one.phase) for one in ground.session.artifacts] == [
        ("tests/test_adder.py", "created", "red"),
        ("adder.py", "created", "green"),
        ("adder.py", "modified", "refactor"),
    ]


def test_verdict_evidence_and_duration_are_in_the_history(ground: AgentGround) -> None:
    ground.agent = say(green=[block("adder.py", WRONG), GREEN])
    ground.start()
    failed = next(one for one in ground.session.history if one.action == "phase_failed")
    first, *evidence = (failed.details or "").splitlines()
    assert first == (
        "attempt 1; tests_pass: 1 of 1 tests does not pass; 0.25 s; 150 tokens; created adder.py"
    )
    assert "test_ac_01_two_numbers_are_added" in evidence[0]


def test_prompt_states_all_that_an_agent_needs(ground: AgentGround) -> None:
    ground.start()
    red, green, _ = ground.agent.requests
    for part in (
        "senior engineer",  # role
        "component_id: adder",  # specification
        "phase red of tdflow",
        "Mode: write failing tests",
        "Code: adder.py\nTests: tests/",
        "Acceptance criteria: AC-01",
        "python:tests/test_example.py",  # form
        "agentforge:questions",
        "Where the work stands",
    ):
        assert part in red.prompt
    assert TESTS in green.prompt
    assert green.files == {"tests/test_adder.py": TESTS}
    assert (green.turn, green.attempt, green.call) == (1, 1, 1)


def test_evidence_of_a_failed_gate_is_in_the_next_prompt(ground: AgentGround) -> None:
    ground.agent = say(green=[block("adder.py", WRONG), GREEN])
    outcome = ground.start()
    assert outcome.state is SessionState.COMPLETED
    assert outcome.attempts["green"] == 2
    again = ground.agent.requests[2]
    assert (again.phase, again.attempt) == ("green", 2)
    assert "What was wrong with the last attempt" in again.prompt
    assert "AssertionError: -1 == 3" in again.prompt
    assert "What was wrong" not in ground.agent.requests[3].prompt, "refactor starts afresh"


# ------------------------------------------------------------------------- agents that misbehave


def test_agent_that_fails_every_time_pauses_with_the_reason(ground: AgentGround) -> None:
    ground.agent = say(green=[block("adder.py", WRONG)])
    outcome = ground.start()
    assert outcome.state is SessionState.PAUSED
    assert outcome.reason == (
        "phase 'green' failed at attempt 3 of 3: 1 of 1 tests does not pass; "
        "only retry begins another attempt"
    )
    assert len(ground.agent.requests) == 4
    with pytest.raises(AttemptsExhausted):
        ground.resume()
    ground.agent = say(green=[GREEN])
    outcome = ground.worker().retry(ground.session_id, "think", ground.agent)
    assert outcome.state is SessionState.COMPLETED
    assert outcome.attempts["green"] == 4
    assert "think" in ground.agent.requests[0].prompt


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("I would rather not.", "the answer holds no file"),
        ("", "the answer holds no file"),
        ("```python\nprint(1)\n```", "the answer holds no file"),
        (block("../up.py", CODE), "not inside the workspace"),
        (block("/etc/passwd", CODE), "not inside the workspace"),
        (block("other.py", CODE), "none of the files that phase green may write: adder.py"),
        (GREEN + block("conftest.py", ""), "none of the files"),
        (GREEN + block("tests/test_adder.py", "x\n"), "one of the tests, which are fixed"),
        ("```python:adder.py\nx = 1\n", "never closed"),
        ("```agentforge:delete\ntests/test_adder.py\n```", "one of the tests, which are fixed"),
    ],
)
def test_answer_that_breaks_the_rules_is_refused_whole(
    ground: AgentGround, answer: str, words: str
) -> None:
    ground.agent = say(green=[answer, GREEN])
    outcome = ground.start()
    assert outcome.state is SessionState.COMPLETED
    failed = next(one for one in ground.session.history if one.action == "phase_failed")
    assert words in (failed.details or "")
    again = ground.agent.requests[2]
    assert words in again.prompt
    assert again.files == {"tests/test_adder.py": TESTS}, "nothing of it was applied"
    assert len(ground.gates.runs) == 4, "no gate ran for it"


def test_tests_that_change_under_green_fail_it(ground: AgentGround) -> None:
    workspace = ground.base / "x"

    def meddle(request: object) -> str:
        nonlocal workspace
        workspace = SessionStore(ground.base).workspace_path(ground.session_id)
        (workspace / "tests/test_adder.py").write_text("def test_ac_01(): pass\n")
        (workspace / "tests/conftest.py").write_text("")
        return GREEN

    def mend(request: object) -> str:
        (workspace / "tests/test_adder.py").write_text(TESTS)
        (workspace / "tests/conftest.py").unlink()
        return GREEN

    ground.agent = say(green=[meddle, mend])
    outcome = ground.start()
    assert outcome.state is SessionState.COMPLETED
    failed = next(one for one in ground.session.history if one.action == "phase_failed")
    assert "2 test files are not those of the red phase" in (failed.details or "")
    assert "changed or gone" in (failed.details or "")
    assert "tests/conftest.py" in (failed.details or "")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (block("tests/test_adder.py", "def test_ac_01(): broken test\n"), "for the wrong reason"),
        (block("tests/test_adder.py", "def test_other(): pass\n"), "AC-01 has no test"),
        (block("tests/helper.py", "x = 1\n"), "there is no test file"),
        (block("tests/test_adder.py", "x = 1\n"), "No test was collected"),
    ],
)
def test_red_is_passed_only_by_tests_that_fail_for_the_right_reason(
    ground: AgentGround, answer: str, words: str
) -> None:
    clean = "```agentforge:delete\ntests/helper.py\n```\n" + RED
    ground.agent = say(red=[answer, clean])
    outcome = ground.start()
    assert outcome.attempts["red"] == 2
    assert words in ground.agent.requests[1].prompt
    assert "tests/helper.py" not in ground.files()


@pytest.mark.parametrize(
    "error",
    [
        AgentCrashed(agent="scripted", exit_code=3, output="out of cheese", answered=True),
        AgentTimeout(agent="scripted", timeout_s=5),
    ],
)
def test_agent_that_crashes_or_hangs_is_asked_again_and_then_the_session_pauses(
    ground: AgentGround, error: Exception
) -> None:
    ground.agent = say(red=[error, RED])
    assert ground.start().state is SessionState.COMPLETED
    ground.base = ground.base.with_name("second")
    ground.agent = say(red=[error])
    outcome = ground.start()
    assert outcome.state is SessionState.PAUSED
    assert outcome.reason is not None
    assert str(error) in outcome.reason
    assert len(ground.agent.requests) == 3


def test_agent_that_ends_twice_without_a_word_can_not_be_asked(ground: AgentGround) -> None:
    crash = AgentCrashed(agent="scripted", exit_code=3, output="")
    ground.agent = say(red=[crash, RED])
    assert ground.start().state is SessionState.COMPLETED, "once may be bad luck"
    assert "agent_answered red" in ground.actions()
    ground.base = ground.base.with_name("second")
    ground.agent = say(red=[crash])
    outcome = ground.start()
    assert (outcome.state, outcome.cause) == (SessionState.PAUSED, StopCause.AGENT)
    assert "ended with exit code 3 and said nothing at two tries; mend that" in outcome.reason
    assert len(ground.agent.requests) == 2
    assert ground.session.token_budget.tokens_used == 0
    assert ground.session.attempt_number == 1
    ground.agent = ScriptedAgent()
    assert ground.resume().state is SessionState.COMPLETED


def test_answer_that_was_cut_off_is_charged_and_not_asked_for_again_unchanged(
    ground: AgentGround,
) -> None:
    spent = TokenUsage(input_tokens=90, output_tokens=200)
    cut = AgentCutOff(agent="scripted", limit=200, usage=spent)
    ground.agent = say(red=[cut, RED])
    outcome = ground.start()
    assert (outcome.state, outcome.cause) == (SessionState.PAUSED, StopCause.AGENT)
    assert "cut off at 200 tokens, its limit; raise the limit with --max-output" in outcome.reason
    assert len(ground.agent.requests) == 1
    assert ground.session.token_budget.tokens_used == 290
    assert ground.resume().state is SessionState.COMPLETED
    assert ground.agent.requests[1].attempt == 2
    assert "cut off at 200 tokens" in ground.agent.requests[1].prompt


def test_prompt_says_what_the_machine_of_the_gate_lacks(ground: AgentGround) -> None:
    ground.start()
    for request in ground.agent.requests:
        for word in ("no threads", "no processes", "no sockets", "no event loop", "no plugins"):
            assert word in " ".join(request.prompt.split())
        assert "Besides the standard library there are attrs, pytest; use no other" in " ".join(
            request.prompt.split()
        )
    red = ground.agent.requests[0].prompt
    assert "Import the component at the top of the test file by its module name" in red
    assert "a placeholder" not in ground.agent.requests[1].prompt


CONTEST = (
    "```agentforge:contest\n- test: test_ac_01_two_numbers_are_added\n  reason: 1 + 2 is 3.\n```\n"
)


def test_contested_tests_pause_the_session_for_a_person_with_the_reason(
    ground: AgentGround,
) -> None:
    ground.agent = say(green=[block("adder.py", WRONG) + CONTEST, GREEN])
    outcome = ground.start()
    assert (outcome.state, outcome.cause) == (SessionState.PAUSED, StopCause.PERSON)
    assert "no implementation can pass test_ac_01_two_numbers_are_added" in outcome.reason
    failed = next(one for one in ground.session.history if one.action == "phase_failed")
    assert "Contested: test_ac_01_two_numbers_are_added: 1 + 2 is 3." in (failed.details or "")
    before = ground.actions()
    with pytest.raises(TestsContested, match="--from red"):
        ground.resume()
    assert ground.actions() == before
    done = ground.worker().retry(ground.session_id, "the tests are right", ground.agent)
    assert done.state is SessionState.COMPLETED
    assert done.attempts["green"] == 2


def test_contested_tests_are_written_again_with_the_contest_as_evidence(
    ground: AgentGround,
) -> None:
    again = block("tests/test_adder.py", TESTS + "\n# Written again.\n")
    ground.agent = say(red=[RED, again], green=[block("adder.py", WRONG) + CONTEST, GREEN])
    ground.start()
    done = ground.worker().retry(ground.session_id, None, ground.agent, back_to="red")
    assert done.state is SessionState.COMPLETED
    asked = ground.agent.requests[2]
    assert (asked.phase, asked.attempt, asked.turn) == ("red", 1, 2)
    assert "Contested: test_ac_01_two_numbers_are_added: 1 + 2 is 3." in asked.prompt
    assert "Attempt: 1 of 3 (round 2 of this phase)" in asked.prompt
    assert "Written again" in ground.files()["tests/test_adder.py"]
    red = [files for files in ground.gates.runs if "adder.py" not in files]
    assert len(red) == 2, "the gate of red never sees what the session wrote of the component"
    succeeded = [one.details for one in ground.session.history if one.action == "phase_succeeded"]
    assert (succeeded[1] or "").startswith("round 2; tests_fail: 1 test collected")


@pytest.mark.parametrize(
    ("phase", "contest", "words"),
    [
        ("red", CONTEST, "it contests tests, and phase red has none to contest"),
        ("green", CONTEST.replace("ac_01", "ac_07"), "which is none of the tests"),
        ("green", CONTEST.replace("reason", "because"), "contest[0].reason: is missing"),
    ],
)
def test_contest_that_is_none_fails_the_attempt(
    ground: AgentGround, phase: str, contest: str, words: str
) -> None:
    ground.agent = say(**{phase: [contest, *GOOD[phase]]})
    assert ground.start().state is SessionState.COMPLETED
    failed = next(one for one in ground.session.history if one.action == "phase_failed")
    assert words in (failed.details or "")


def test_contest_of_tests_that_pass_is_no_matter(ground: AgentGround) -> None:
    ground.agent = say(green=[GREEN + CONTEST])
    assert ground.start().state is SessionState.COMPLETED


def test_session_goes_back_only_to_where_it_has_been(ground: AgentGround) -> None:
    ground.agent = say(green=[block("adder.py", WRONG)])
    ground.start()
    before = ground.actions()
    for phase in ("verify", "nowhere"):
        with pytest.raises(NoEarlierPhase, match="it has been in red, green"):
            ground.worker().retry(ground.session_id, None, ground.agent, back_to=phase)
    assert ground.actions() == before
    ground.agent = ScriptedAgent()
    done = ground.worker().retry(ground.session_id, "again", ground.agent, back_to="red")
    assert done.state is SessionState.COMPLETED
    assert "retry_reason green" in ground.actions()


def test_answer_that_failed_is_charged_as_the_agent_says(ground: AgentGround) -> None:
    spent = TokenUsage(input_tokens=900, output_tokens=16_000)
    cut = AgentFailed("the answer was cut off", agent="scripted", usage=spent)
    ground.agent = say(red=[cut, RED])
    ground.start()
    first = next(one for one in ground.session.history if one.action == "agent_answered")
    assert (first.details or "").startswith("call 1: 16900 tokens (900 in, 16000 out);")


def test_answer_that_utf_8_can_not_hold_is_an_answer_like_any_other(ground: AgentGround) -> None:
    ground.agent = say(red=["```agentforge:\ud800\n```\n\ud800", RED])
    ground.agent.usage = None
    assert ground.start().state is SessionState.COMPLETED
    told = ground.agent.requests[1].prompt
    assert r"there is no block 'agentforge:\ud800'" in told
    assert told.encode()


def test_agent_that_can_not_be_asked_pauses_at_once_and_costs_nothing(ground: AgentGround) -> None:
    ground.agent = say(red=[AgentUnavailable(agent="nobody", problem="no such command")])
    outcome = ground.start()
    assert outcome.state is SessionState.PAUSED
    assert outcome.reason == (
        "the agent (nobody) can't be asked: no such command; mend that, then resume"
    )
    assert ground.session.token_budget.tokens_used == 0
    ground.agent = say()
    assert ground.resume().state is SessionState.COMPLETED
    assert ground.session.attempt_number == 1


# --------------------------------------------------------------------------------------- the budget


def test_agent_that_overspends_is_recorded_and_not_asked_again_unless_extended(
    ground: AgentGround,
) -> None:
    spent = TokenUsage(input_tokens=150_000, output_tokens=150_000)
    ground.agent = say(red=[AgentAnswer(text=RED, usage=spent)])
    outcome = ground.start()
    assert outcome.state is SessionState.PAUSED
    assert outcome.phases_done == ("red",)
    assert "phase 'green'" in (outcome.reason or "")
    assert ground.session.token_budget.tokens_used == 300_000
    assert len(ground.agent.requests) == 1
    with pytest.raises(BudgetTooSmall):
        ground.resume()
    ground.manager().extend_budget(300_000)
    assert ground.resume().state is SessionState.COMPLETED


@pytest.mark.parametrize("spent", [11_500, 40_000])
def test_extension_that_is_asked_for_is_enough(ground: AgentGround, spent: int) -> None:
    """Nobody wants to be told at night to extend, and after that to extend again."""
    usage = TokenUsage(input_tokens=spent, output_tokens=0)
    failed = AgentAnswer(text=block("adder.py", WRONG), usage=usage)
    ground.agent = say(green=[failed, failed, GREEN])
    told = ground.start(token_budget=16_000).reason or ""
    assert "the next call of phase 'green' takes about" in told
    missing = int(told.split("extend the budget by ")[1].split(" ")[0].replace(",", ""))
    if spent > 16_000:
        with pytest.raises(BudgetTooSmall) as caught:
            ground.resume()
        # The next prompt tells of the pause as well, which may be another thousand rounded up.
        assert 0 <= caught.value.missing - missing <= 1_000
    ground.manager().extend_budget(missing)
    calls = len(ground.agent.requests)
    ground.resume()
    assert len(ground.agent.requests) > calls


def test_phase_keeps_to_its_share_of_the_budget(ground: AgentGround) -> None:
    spent = TokenUsage(input_tokens=80_000, output_tokens=9_000)
    ground.agent = say(green=[AgentAnswer(text=block("adder.py", WRONG), usage=spent)])
    outcome = ground.start()
    assert "has spent 89,000 of its share of 90,000 tokens (45% of the budget)" in (
        outcome.reason or ""
    )
    words = (outcome.reason or "").split("extend the budget by ")[1].split(" ")[0]
    ground.manager().extend_budget(int(words.replace(",", "")))
    ground.agent = say()
    assert ground.resume().state is SessionState.COMPLETED


def test_from_80_percent_on_the_prompt_says_so(ground: AgentGround) -> None:
    spent = TokenUsage(input_tokens=160_000, output_tokens=0)
    ground.agent = say(red=[AgentAnswer(text=RED, usage=spent)])
    ground.start()
    _, green, _ = ground.agent.requests
    assert "160,000 of 200,000 tokens are spent, 80 % or more" in green.prompt
    assert "NEARLY SPENT" in green.briefing
    assert "80 % or more" not in ground.agent.requests[0].prompt


def test_an_agent_is_not_shown_what_is_hidden_from_it_by_the_person(ground: AgentGround) -> None:
    path = configuration_folder() / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    ground.worker().begin(tdflow_work())
    said = AgentPrompted(program="claude-code", agent_session="one", text="secret prompt")
    ground.manager().record(said)
    try:
        path.write_text('[privacy.codex]\nhides = ["claude-code"]\n')
        assert ground.resume().state is SessionState.COMPLETED
    finally:
        path.unlink()
    for request in ground.agent.requests:
        assert "secret" not in request.briefing + request.prompt
        assert "as the person's [privacy] says" in request.prompt


def test_usage_that_nobody_told_is_estimated_and_said_to_be(ground: AgentGround) -> None:
    ground.agent.usage = None
    ground.start()
    entry = next(one for one in ground.session.history if one.action == "agent_answered")
    assert "estimated" in (entry.details or "")
    assert ground.session.token_budget.tokens_used > 1000


def test_usage_in_the_answer_itself_is_taken(ground: AgentGround) -> None:
    told = "```agentforge:usage\ninput_tokens: 7\noutput_tokens: 5\n```\n"
    ground.agent = say(red=[AgentAnswer(text=RED + told)], green=[AgentAnswer(text=GREEN + told)])
    ground.agent.script = {**ground.agent.script, "refactor": [AgentAnswer(text=GREEN + told)]}
    ground.start()
    assert ground.session.token_budget.tokens_used == 36


# ------------------------------------------------------------------------------------- questions

ASK = """\
```agentforge:questions
- prompt: How wide is an integer?
  title: Width
  options: [{label: "64 bits"}, {label: any}]
```
"""


def test_questions_go_to_the_person_and_the_answers_to_the_agent(ground: AgentGround) -> None:
    ground.person = FakePerson(answers=[("any",)])
    ground.agent = say(red=[ASK, RED])
    assert ground.start().state is SessionState.COMPLETED
    _, second, *_ = ground.agent.requests
    assert (second.phase, second.attempt, second.call) == ("red", 1, 2)
    assert "Q: How wide is an integer?\nA: any" in second.prompt
    assert "Q: How wide" in ground.agent.requests[2].prompt, "later phases know it too"
    assert ground.actions()[1:6] == [
        "agent_answered red",
        "question_asked red",
        "question_answered red",
        "agent_answered red",
        "phase_succeeded red",
    ]
    (questions,) = ground.person.asked.values()
    assert [option.label for option in questions[0].options] == ["64 bits", "any"]


def test_run_pauses_until_there_are_answers_and_asks_nobody_twice(ground: AgentGround) -> None:
    ground.person = FakePerson()
    ground.agent = say(red=[ASK, RED])
    outcome = ground.start()
    assert outcome.state is SessionState.PAUSED
    assert "waiting for an answer to question q-1" in (outcome.reason or "")
    assert ground.resume().state is SessionState.PAUSED
    assert len(ground.agent.requests) == 1
    assert len(ground.person.asked) == 1
    ground.person.answers = [("64 bits",)]
    assert ground.resume().state is SessionState.COMPLETED
    assert ground.actions().count("question_asked red") == 1
    assert "A: 64 bits" in ground.agent.requests[1].prompt


@pytest.mark.parametrize(
    ("outcome", "reason", "told"),
    [
        ("rejected", None, "(not answered)"),
        ("rejected", "you know that", "(not answered: you know that)"),
        ("timed_out", None, "(not answered: timed out)"),
        ("abandoned", "withdrawn by hand", "(not answered: abandoned: withdrawn by hand)"),
    ],
)
def test_questions_that_ended_without_an_answer_are_told_to_the_agent_and_asked_no_more(
    ground: AgentGround, outcome: str, reason: str | None, told: str
) -> None:
    ended = QUESTION_ENDINGS[outcome](question_id="", reason=reason)
    ground.person = FakePerson(answers=[ended])
    ground.agent = say(red=[ASK, RED])
    assert ground.start().state is SessionState.COMPLETED
    assert f"A: {told}" in ground.agent.requests[1].prompt
    assert f"question_{outcome} red" in ground.actions()
    assert len(ground.person.asked) == 1


def test_nobody_is_asked_while_somebody_has_the_session_paused(ground: AgentGround) -> None:
    def pause_and_ask(_: AgentRequest) -> str:
        ground.manager().pause("lunch")
        return ASK

    ground.person = FakePerson(answers=[("any",)])
    ground.agent = say(red=[pause_and_ask, RED])
    outcome = ground.start()
    assert outcome.state is SessionState.PAUSED
    assert "nobody was asked" in (outcome.reason or "")
    assert ground.person.asked == {}
    assert ground.resume().state is SessionState.COMPLETED
    assert ground.actions().count("agent_answered red") == 2


def test_run_whose_session_is_led_on_while_it_waits_ends_and_asks_no_agent(
    ground: AgentGround,
) -> None:
    @define
    class LedOn(FakePerson):
        def wait(self, question_id: str, timeout_s: float | None) -> QuestionEnded | None:
            ground.manager().advance_phase("green")
            return super().wait(question_id, timeout_s)

    ground.person = LedOn(answers=[("any",)])
    ground.agent = say(red=[ASK, RED])
    with pytest.raises(SessionConflict):
        ground.start()
    assert len(ground.agent.requests) == 1
    assert ground.actions()[-1] == "question_answered green"


def test_budget_that_is_extended_while_the_agent_thinks_stands_in_no_questions_way(
    ground: AgentGround,
) -> None:
    @define
    class Extended(FakePerson):
        def check(self, questions: Sequence[Question]) -> None:
            if "budget_extended red" not in ground.actions():
                ground.manager().extend_budget(1000)

    ground.person = Extended(answers=[("any",)])
    ground.agent = say(red=[ASK, RED])
    assert ground.start().state is SessionState.COMPLETED
    assert "budget_extended red" in ground.actions()


def test_without_a_way_to_ask_the_session_pauses_with_the_question(ground: AgentGround) -> None:
    ground.agent = say(red=[ASK, RED])
    outcome = ground.start()
    assert outcome.state is SessionState.PAUSED
    assert "How wide is an integer?" in (outcome.reason or "")
    ground.person = FakePerson(answers=[("any",)])
    assert ground.resume().state is SessionState.COMPLETED
    assert ground.actions().count("agent_answered red") == 2


def test_agent_that_only_ever_asks_comes_to_an_end(ground: AgentGround) -> None:
    ground.person = FakePerson(answers=[("any",)] * 100)
    ground.agent = say(red=[ASK])
    outcome = ground.start()
    assert outcome.state is SessionState.PAUSED
    assert "asked questions 8 times and wrote nothing" in (outcome.reason or "")


# -------------------------------------------------------------------------- being gone on with


def test_what_can_not_be_begun_leaves_nothing(ground: AgentGround, tmp_path: Path) -> None:
    with pytest.raises(InvalidWorkflow, match="specification: is missing"):
        evolve(tdflow_work(), specification=None)
    with pytest.raises(InvalidSpecification, match="is missing"):
        ground.start(evolve(tdflow_work(), specification=b"schema_version: 1\n"))
    with pytest.raises(UnknownComponent, match="it has adder"):
        ground.start(tdflow_work(component_id="subtracter"))
    assert not ground.base.exists()


def test_without_pytest_nothing_is_begun_and_no_agent_is_asked(ground: AgentGround) -> None:
    ground.gates.problem = "pytest is not installed"
    with pytest.raises(GateUnavailable, match="pytest is not installed"):
        ground.start()
    assert ground.agent.requests == []
    assert not ground.base.exists()


def test_session_without_a_named_agent_needs_one(ground: AgentGround) -> None:
    ground.start(token_budget=10)
    with pytest.raises(NoAgent, match="--agent"):
        ground.worker().resume(ground.session_id)
    with pytest.raises(NothingToRetry):
        ground.worker().retry(ground.session_id, None, ground.agent)


def test_pause_and_extension_from_outside_are_kept(ground: AgentGround) -> None:
    def meanwhile(request: object) -> str:
        other = ground.manager()
        other.extend_budget(5)
        other.pause("lunch")
        return RED

    ground.agent = say(red=[meanwhile])
    outcome = ground.start()
    assert outcome.state is SessionState.PAUSED
    assert outcome.reason == "paused while it ran: lunch"
    assert outcome.phases_done == ("red",), "the work that was under way is recorded"
    assert ground.session.token_budget.total_budget == 200_005
    assert ground.resume().state is SessionState.COMPLETED
    assert len(ground.agent.requests) == 3


# ---------------------------------------------------------------------------------- own workflows

REVIEWED = Workflow(
    name="letter",
    workflow_type="letters",
    role="You write letters.",
    groups=[FileGroup(name="letters", paths=["letters/"])],
    phases=[
        Phase(
            name="write",
            mode="write",
            prompt="Write letters/one.md.",
            writes=["letters"],
            gate=Gate(kind="files", require=["letters/one.md"]),
        ),
        Phase(
            name="check",
            mode="check",
            gate=Gate(kind="approval", require=["letters/one.md"]),
            on_failure="write",
            max_attempts=2,
        ),
    ],
)


def test_failed_gate_goes_back_to_an_earlier_phase_with_its_evidence(ground: AgentGround) -> None:
    ground.person = FakePerson(answers=[("Ask for changes; say please",), ("Approve",)])
    ground.agent = ScriptedAgent(
        script={"write": [block("letters/one.md", "Do!\n"), block("letters/one.md", "Please.\n")]}
    )
    outcome = ground.start(AgentWork(workflow=REVIEWED, name="one"))
    assert outcome.state is SessionState.COMPLETED
    assert outcome.attempts == {"write": 2, "check": 2}
    second = ground.agent.requests[1]
    assert (second.attempt, second.turn) == (1, 2)
    assert "The person's words: Ask for changes; say please" in second.prompt
    assert ground.files() == {"letters/one.md": "Please.\n"}


@pytest.mark.parametrize(
    ("words", "approves"),
    [
        *[(one, True) for one in ("Approve", "approve", " Approved. ", "yes", "Yes!")],
        *[(one, False) for one in ("Approve, but say please", "not approved", "yes?")],
        ("approve; no", False),
    ],
)
def test_only_words_that_say_nothing_else_approve(
    ground: AgentGround, words: str, approves: bool
) -> None:
    ground.person = FakePerson(answers=[(words,)])
    ground.agent = ScriptedAgent(script={"write": [block("letters/one.md", "Do!\n")]})
    outcome = ground.start(AgentWork(workflow=REVIEWED, name="one"))
    assert (outcome.state is SessionState.COMPLETED) is approves
    assert outcome.attempts["write"] == (1 if approves else 2)


def test_going_back_has_an_end(ground: AgentGround) -> None:
    ground.person = FakePerson(answers=[("no",)] * 9)
    ground.agent = ScriptedAgent(script={"write": [block("letters/one.md", "Do!\n")]})
    outcome = ground.start(AgentWork(workflow=REVIEWED, name="one"))
    assert outcome.state is SessionState.PAUSED
    assert "phase 'check' failed at attempt 2 of 2" in (outcome.reason or "")
    ground.person.answers = [("Approve",)]
    outcome = ground.worker().retry(ground.session_id, None, ground.agent)
    assert outcome.state is SessionState.COMPLETED
