from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionConflict, SessionManager, SessionState
from tests.unit.cli.conftest import CommandLine, Ended, Terminal

# ------------------------------------------------------------------------- pause, abort, complete


def test_pause_keeps_the_reason_and_says_how_to_go_on(agentforge: CommandLine) -> None:
    session_id = agentforge.new()
    ended = agentforge("session", "pause", session_id, "--reason", "lunch")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        f"Session {session_id} is paused.\n"
        f"To go on: agentforge --base {agentforge.base} resume {session_id}\n"
    )
    session = agentforge.session(session_id)
    assert session.state is SessionState.PAUSED
    assert (session.history[-1].action, session.history[-1].details) == ("session_paused", "lunch")


def test_the_next_command_leaves_out_a_base_that_the_environment_names(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTFORGE_BASE", str(agentforge.base))
    session_id = agentforge.new()
    assert (
        f"To go on: agentforge resume {session_id}\n"
        in agentforge("session", "pause", session_id).out
    )


def test_complete_ends_a_session_well(agentforge: CommandLine) -> None:
    session_id = agentforge.new()
    assert (
        agentforge("session", "complete", session_id[-8:]).out
        == f"Session {session_id} is completed.\n"
    )
    assert agentforge.session(session_id).state is SessionState.COMPLETED


def test_abort_with_yes_asks_nothing(agentforge: CommandLine) -> None:
    session_id = agentforge.new()
    ended = agentforge("session", "abort", session_id, "--yes", "-r", "no use")
    assert (ended.code, ended.out, ended.err) == (0, f"Session {session_id} is aborted.\n", "")
    session = agentforge.session(session_id)
    assert session.history[-1].details == "no use"


@pytest.mark.parametrize(
    ("answer", "code", "state"),
    [
        ("y\n", 0, SessionState.ABORTED),
        ("YES\n", 0, SessionState.ABORTED),
        ("n\n", 1, SessionState.ACTIVE),
        ("\n", 1, SessionState.ACTIVE),
        ("", 1, SessionState.ACTIVE),
        ("yesterday\n", 1, SessionState.ACTIVE),
    ],
)
def test_abort_asks_and_takes_only_yes_for_yes(
    agentforge: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    state: SessionState,
) -> None:
    session_id = agentforge.new()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    ended = agentforge("session", "abort", session_id)
    assert ended.code == code
    assert f"Abort session {session_id} for good? [y/N] " in ended.err
    assert "y/N" not in ended.out
    assert agentforge.session(session_id).state is state


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_abort_that_can_ask_nobody_does_nothing(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    session_id = agentforge.new()
    monkeypatch.setattr(sys, "stdin", Terminal("y\n") if options else io.StringIO("y\n"))
    ended = agentforge("session", "abort", session_id, *options)
    assert ended.code == 2
    assert "Add --yes" in (ended.document["error"]["message"] if options else ended.err)
    assert agentforge.session(session_id).state is SessionState.ACTIVE


@pytest.mark.parametrize(
    "command", [["session", "pause"], ["session", "complete"], ["session", "abort", "--yes"]]
)
def test_acting_in_json_tells_the_new_state(agentforge: CommandLine, command: list[str]) -> None:
    session_id = agentforge.new()
    document = agentforge(*command, session_id, "--json").document
    assert document["session_id"] == session_id
    assert document["revision"] == 2
    assert document["state"] in {"paused", "completed", "aborted"}
    assert document["path"] == str(agentforge.store.session_path(session_id))


@pytest.mark.parametrize(
    "command",
    [
        ["session", "pause"],
        ["session", "complete"],
        ["session", "abort"],
        ["session", "budget", "--extend", "5"],
        ["resume"],
        ["session", "retry"],
    ],
)
def test_what_the_state_does_not_allow_is_refused(
    agentforge: CommandLine, command: list[str]
) -> None:
    session_id = agentforge.new()
    agentforge.manager(session_id).complete()
    before = agentforge.store.session_path(session_id).read_bytes()
    ended = agentforge(*command, session_id)
    assert (ended.code, ended.out) == (6, "")
    assert f"session {session_id}: it is completed; it has ended for good" in ended.err
    error = agentforge(*command, session_id, "--json").document["error"]
    assert (error["type"], error["current_state"]) == ("InvalidStateTransition", "completed")
    assert agentforge.store.session_path(session_id).read_bytes() == before


# ------------------------------------------------------------------------------------- conflicts


def conflicting(
    agentforge: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    session_id: str,
    times: int,
) -> list[int]:
    """Let somebody else save the session just before `method` does, so many times."""
    original: Callable[..., object] = getattr(SessionManager, method)
    calls: list[int] = []

    def late(manager: SessionManager, *arguments: object) -> object:
        calls.append(1)
        if len(calls) <= times:
            other = SessionManager(agentforge.store)
            other.load(session_id)
            other.add_history("noted", str(len(calls)))
        return original(manager, *arguments)

    monkeypatch.setattr(SessionManager, method, late)
    return calls


@pytest.mark.parametrize("times", [1, 3])
def test_a_persons_word_is_repeated_after_a_conflict(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    session_id = agentforge.new()
    calls = conflicting(agentforge, monkeypatch, "pause", session_id, times)
    ended = agentforge("session", "pause", session_id)
    assert (ended.code, ended.err) == (0, "")
    assert len(calls) == times + 1
    session = agentforge.session(session_id)
    assert [one.action for one in session.history].count("noted") == times
    assert session.history[-1].action == "session_paused"


def test_after_four_conflicts_the_error_is_told(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = agentforge.new()
    calls = conflicting(agentforge, monkeypatch, "complete", session_id, 99)
    ended = agentforge("session", "complete", session_id, "--json")
    assert ended.code == 5
    assert len(calls) == 4
    error = ended.document["error"]
    assert error["type"] == SessionConflict.__name__
    assert (error["expected_revision"], error["actual_revision"]) == (4, 5)
    assert agentforge.session(session_id).state is SessionState.ACTIVE


def test_a_session_deleted_meanwhile_is_told(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = agentforge.new()

    def gone(manager: SessionManager, *_: object) -> None:
        manager.store.delete(session_id)
        manager.save()

    monkeypatch.setattr(SessionManager, "pause", gone)
    assert agentforge("session", "pause", session_id).code == 3


# ---------------------------------------------------------------------------------------- budget


def test_budget_shows_what_is_left(agentforge: CommandLine) -> None:
    manager = agentforge.begin(token_budget=2000)
    manager.record_tokens(500)
    session_id = agentforge.new_id(manager)
    out = agentforge("session", "budget", session_id).out
    assert "25 %  500 of 2,000 tokens" in out
    assert "1,500 tokens are left." in out
    session = agentforge.session(session_id)
    assert session.revision == 2, "looking must not save"


def test_budget_extends_and_records(agentforge: CommandLine) -> None:
    session_id = agentforge.new(token_budget=100)
    document = agentforge(
        "session", "budget", session_id, "--extend", 900, "--record", 850, "--json"
    ).document
    assert document["token_budget"] == {
        "total_budget": 1000,
        "tokens_used": 850,
        "remaining": 150,
        "tokens_remaining": 150,
        "utilization_percent": 85.0,
        "is_warning": True,
        "is_exhausted": False,
    }


def test_budget_says_when_it_is_spent(agentforge: CommandLine) -> None:
    session_id = agentforge.new(token_budget=10)
    ended = agentforge("session", "budget", session_id, "--record", 12)
    assert "120 %  12 of 10 tokens  spent" in ended.out
    assert "-2 tokens are left." in ended.out
    assert ended.err.startswith("warning: session.budget.warning ")


@pytest.mark.parametrize(
    "options", [["--extend", "0"], ["--extend", "-5"], ["--record", "-1"], ["--record", "x"]]
)
def test_budget_refuses_what_is_no_count(agentforge: CommandLine, options: list[str]) -> None:
    session_id = agentforge.new()
    ended = agentforge("session", "budget", session_id, *options)
    assert ended.code == 2
    assert "Try 'agentforge session budget --help'." in ended.err


def test_budget_refuses_a_sum_that_can_not_be_kept(agentforge: CommandLine) -> None:
    session_id = agentforge.new()
    ended = agentforge("session", "budget", session_id, "--extend", 2**63 - 1)
    assert ended.code == 2
    assert "token_budget.total_budget: is more than" in ended.err


def test_limits_of_the_person_are_shown_and_extended(
    agentforge: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "config" / "agentforge").mkdir(parents=True)
    limits = "[budget]\nday_usd = 3\nday_tokens = 9000\nsession_usd = 1\n"
    (tmp_path / "config" / "agentforge" / "config.toml").write_text(limits)
    session_id = agentforge.new(token_budget=100)
    words = ("session", "budget")
    assert agentforge(*words, "--of", "day", "--extend", "2.5usd").code == 0
    assert agentforge(*words, session_id, "--extend", "$2").code == 0
    assert agentforge(*words, session_id, "--extend", "200k").code == 0
    out = agentforge(*words, session_id).out
    assert "200,100 tokens are left." in out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "session 0 $0.0000 $3.00" in lines
    assert "day 0 $0.0000 9,000 tokens; $5.50" in lines
    assert "person 0 $0.0000 no limit" in lines
    shown = agentforge(*words, "--json").document["spending"]
    assert [one["scope"] for one in shown] == ["project", "day", "person"]
    assert shown[1]["limit"] == {"tokens": 9_000, "micro_usd": 5_500_000}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--extend", "5"], "name the session"),
        (["--record", "5"], "name the session"),
        (["--of", "person", "--extend", "5usd"], "no limit person_usd"),
        (["--of", "day", "--extend", "lots"], "is not tokens, as 200000"),
    ],
)
def test_what_can_not_be_extended_is_refused(
    agentforge: CommandLine, words: list[str], said: str
) -> None:
    ended = agentforge("session", "budget", *words)
    assert ended.code == 2
    assert said in " ".join(ended.err.split())


def test_an_interrupted_command_says_so(
    agentforge: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    session_id = agentforge.new()
    monkeypatch.setattr(SessionManager, "pause", interrupt)
    ended: Ended = agentforge("session", "pause", session_id)
    assert (ended.code, ended.out, ended.err) == (130, "", "interrupted\n")
    assert (
        agentforge("session", "pause", session_id, "--json").document["error"]["type"]
        == "Interrupted"
    )
