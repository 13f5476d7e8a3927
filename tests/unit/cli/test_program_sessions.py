"""Sessions of people's programs on the command line: how far they came, back, fork, signal."""

from __future__ import annotations

import json

import pytest

from agentforge_sessions.base.settings.spending import Amount
from agentforge_sessions.harness import SessionState
from agentforge_sessions.harness.steps.program_sessions import led, steps_of
from tests.support.clock import FakeClock
from tests.support.recorded_programs import begin_program, fail_attempt, recording
from tests.unit.cli.conftest import START, CommandLine

STEPS = ("outline#1", "draft#1", "draft#2")


@pytest.fixture
def session_id(agentforge: CommandLine) -> str:
    clock = FakeClock(START)
    session_id = begin_program(agentforge.store, clock=clock)
    with recording(agentforge.store, session_id, clock=clock) as record:
        record(*STEPS)
    return session_id


def paths(agentforge: CommandLine, session_id: str) -> tuple[str, ...]:
    return tuple(one.path for one in steps_of(agentforge.store, session_id))


def test_show_has_the_last_steps(agentforge: CommandLine, session_id: str) -> None:
    shown = agentforge("show", session_id).out
    assert "program    report\nkey        AI\n" in shown
    assert "\nSteps\n" in shown
    lines = [line.split() for line in shown.splitlines() if line.startswith("draft#2")]
    assert lines[0][:5] == ["draft#2", "ok", "1.50", "s", "100"]
    document = agentforge("show", session_id, "--json").document["program"]
    assert [one["step"] for one in document["steps"]] == [*STEPS]
    assert (document["workflow"], document["key"]) == ("report", "AI")
    assert (document["recorded"], document["tokens"], document["micro_usd"]) == (3, 300, 3_000)


def test_show_has_what_was_recorded_since_the_file_was_written(
    agentforge: CommandLine, session_id: str
) -> None:
    with led(agentforge.store, session_id) as log:
        log.record("last#1", 3, codec="json", body=b"1", started=START, took_us=0)
        document = agentforge("show", session_id, "--json").document
    assert document["program"]["steps"][-1]["step"] == "last#1"
    assert document["program"]["recorded"] == 4


def test_list_has_what_a_program_that_died_had_spent(
    agentforge: CommandLine, session_id: str
) -> None:
    with led(agentforge.store, session_id) as log:
        spent = Amount(50)
        log.record("last#1", 3, codec="json", body=b"1", spent=spent, started=START, took_us=0)
    [row] = agentforge("list", "--json").document["sessions"]
    assert row["interrupted"] is True
    assert row["token_budget"]["tokens_used"] == 350


def test_a_step_that_failed_says_why(agentforge: CommandLine, session_id: str) -> None:
    with recording(agentforge.store, session_id) as record:
        record("publish#1", error=("builtins.ValueError", "no\x1b[31m place"))
    fail_attempt(agentforge.store, session_id, "mail#1", "TimeoutError: slow")
    shown = agentforge("show", session_id).out
    assert "\x1b" not in shown
    assert "publish#1: builtins.ValueError: no" in shown
    assert "mail#1: TimeoutError: slow" in shown
    steps = agentforge("show", session_id, "--json").document["program"]["steps"]
    assert [one["outcome"] for one in steps[-2:]] == ["failed", "failing"]


def test_a_program_that_died_is_interrupted_and_says_how_it_goes_on(
    agentforge: CommandLine, session_id: str
) -> None:
    run = "session run MODULE:FUNCTION --key AI"
    assert (
        f"interrupted  no worker is at it; go on with: agentforge --base {agentforge.base} {run}"
        in (agentforge("show", session_id).out)
    )
    [row] = agentforge("list", "--json").document["sessions"]
    assert row["interrupted"] is True
    with led(agentforge.store, session_id):
        assert agentforge("show", session_id, "--json").document["interrupted"] is False


def test_resume_makes_a_paused_one_active_and_says_how_it_goes_on(
    agentforge: CommandLine, session_id: str
) -> None:
    agentforge("session", "pause", session_id)
    ended = agentforge("resume", session_id)
    assert ended.code == 0
    assert "session run MODULE:FUNCTION --key AI" in ended.out
    assert agentforge.session(session_id).state is SessionState.ACTIVE
    refused = agentforge("session", "retry", session_id)
    assert refused.code == 2
    assert "session rewind ID STEP" in " ".join(refused.err.split())


def test_rewind_goes_back_before_a_step(agentforge: CommandLine, session_id: str) -> None:
    unsaid = agentforge("session", "rewind", session_id, "draft")
    assert unsaid.code == 2
    assert paths(agentforge, session_id) == STEPS
    ended = agentforge("session", "rewind", session_id, "draft", "--yes", "--json")
    assert ended.document == {"session_id": session_id, "step": "draft", "steps_again": 2}
    assert paths(agentforge, session_id) == STEPS[:1]
    assert agentforge("session", "rewind", session_id, "draft", "--yes").code == 3
    mixed = agentforge("session", "rewind", session_id, "outline", "--to", "1", "--yes")
    assert mixed.code == 2


def test_fork_begins_a_session_of_its_own_at_a_step(
    agentforge: CommandLine, session_id: str
) -> None:
    ended = agentforge("session", "fork", session_id, "draft#2", "--key", "AI, again", "--json")
    fork = ended.document["session_id"]
    assert ended.document == {"session_id": fork, "parent_id": session_id, "key": "AI, again"}
    assert paths(agentforge, fork) == STEPS[:2]
    assert paths(agentforge, session_id) == STEPS
    taken = agentforge("session", "fork", session_id, "draft#2", "--key", "AI, again")
    assert taken.code == 5
    assert agentforge("session", "fork", session_id).code == 2


@pytest.mark.parametrize(
    ("value", "sent"), [((), None), (("--value", '{"pages": 3}'), {"pages": 3})]
)
def test_signal_reaches_the_program(
    agentforge: CommandLine, session_id: str, value: tuple[str, ...], sent: object
) -> None:
    ended = agentforge("session", "signal", session_id, "approved", *value)
    assert (ended.code, ended.out) == (0, f"Sent approved to session {session_id}.\n")
    with led(agentforge.store, session_id) as log:
        [number] = log.history.signals["approved"]
        assert json.loads(log.body_at(number)) == sent


def test_a_signal_that_can_not_be_sent_is_refused(agentforge: CommandLine, session_id: str) -> None:
    assert agentforge("session", "signal", session_id, "approved", "--value", "yes").code == 2
    assert agentforge("session", "signal", agentforge.new(), "approved").code == 3
    agentforge("session", "complete", session_id)
    assert agentforge("session", "signal", session_id, "approved").code == 6


def test_the_briefing_has_the_last_steps_quoted(agentforge: CommandLine, session_id: str) -> None:
    with recording(agentforge.store, session_id) as record:
        record("publish#1", error=("builtins.ValueError", "ignore ”all” it"))
    text = agentforge("session", "brief", session_id).out
    assert "## Steps of the program, newest first\n- 4 recorded by the program report" in text
    assert '“publish#1” failed, 100 tokens, $0.0010: “builtins.ValueError: ignore "all" it”' in text
