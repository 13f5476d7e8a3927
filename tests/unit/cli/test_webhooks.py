"""Who is told of events, by commands: the configuration, what waits, a test, a delivery."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.integrations.observers.delivery import signature
from tests.support.trusting import trusted
from tests.support.webhook_receiver import answers, receiving, status
from tests.unit.cli.conftest import CommandLine

Configure = Callable[[str], None]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Writes the configuration of the project that is the working directory."""
    monkeypatch.delenv("AGENTFORGE_CONFIG", raising=False)
    root = tmp_path / "project"
    (root / ".agentforge").mkdir(parents=True)
    monkeypatch.chdir(root)

    def write(text: str) -> None:
        trusted(root, text)

    return write


def hook(url: str, *more: str) -> str:
    return "\n".join(["[[webhooks]]", 'name = "team"', f'url = "{url}"', *more, ""])


def test_a_command_that_changes_a_session_tells_of_it_before_it_ends(
    agentforge: CommandLine, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    session_id = agentforge.new()
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    with receiving() as receiver:
        configure(hook(receiver.url, 'secret_env = "HOOK_SECRET"'))
        assert agentforge("session", "pause", session_id, "--reason", "lunch").err == ""

    [told] = receiver.received
    body = json.loads(told.body)
    assert (body["type"], body["session_id"]) == ("session.paused", session_id)
    assert body["data"]["reason"] == "lunch"
    assert told.headers["webhook-signature"] == signature(
        "s3cret", told.headers["webhook-id"], told.headers["webhook-timestamp"], told.body
    )


def test_a_receiver_that_is_down_fails_no_command_and_is_told_by_the_next_one(
    agentforge: CommandLine, configure: Configure
) -> None:
    session_id = agentforge.new()
    with receiving(answers(status(503), status(204))) as receiver:
        configure(hook(receiver.url))
        ended = agentforge("session", "pause", session_id)
        assert ended.code == 0
        assert ended.err.startswith("warning: webhook.waiting webhook=team")
        [row] = agentforge("webhooks", "list", "--json").document["webhooks"]
        assert (row["waiting"], row["problem"]) == (1, "it answered 503")
        done = agentforge("webhooks", "deliver")
        assert (done.code, done.out) == (0, "team: 1 delivered, 0 waiting.\n")
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body


def test_what_is_still_not_taken_waits_on_and_is_said(
    agentforge: CommandLine, configure: Configure
) -> None:
    session_id = agentforge.new()
    with receiving(answers(status(500))) as receiver:
        configure(hook(receiver.url))
        agentforge("session", "pause", session_id)
        told = agentforge("webhooks", "deliver")
        assert told.code == 1
        assert told.err == (
            "error: the webhook team was not reached: it answered 500. "
            "Waiting for the next try: 1 event.\n"
        )
        as_json = agentforge("webhooks", "deliver", "--json")
    assert as_json.code == 1
    assert as_json.document["webhooks"][0]["waiting"] == 1


def test_what_happened_before_the_receiver_was_named_is_not_told(
    agentforge: CommandLine, configure: Configure
) -> None:
    session_id = agentforge.new()
    agentforge("session", "pause", session_id)
    with receiving() as receiver:
        configure(hook(receiver.url))
        for command in (["list"], ["show", session_id], ["session", "log", session_id]):
            assert agentforge(*command).code == 0
    assert not receiver.received


def test_a_test_says_what_was_answered(agentforge: CommandLine, configure: Configure) -> None:
    with receiving(answers(status(200), status(404))) as receiver:
        configure(hook(receiver.url))
        assert agentforge("webhooks", "test", "team").out == "team took it: 200.\n"
        failed = agentforge("webhooks", "test")
    assert failed.code == 1
    assert "it answered 404" in failed.err
    assert [json.loads(one.body)["type"] for one in receiver.received] == ["webhook.test"] * 2
    assert agentforge("webhooks", "list", "--json").document["webhooks"][0]["waiting"] == 0


def test_a_webhook_that_there_is_not_is_refused(
    agentforge: CommandLine, configure: Configure
) -> None:
    configure("")
    assert agentforge("webhooks", "test").code == 2
    assert "nobody is told" in agentforge("webhooks", "list").out
    configure(hook("https://example.com/x"))
    ended = agentforge("webhooks", "deliver", "other")
    assert (ended.code, ended.err) == (
        3,
        "error: the configuration has no webhook 'other'; there is team. Nothing was done.\n",
    )


def test_what_is_kept_for_a_webhook_that_is_no_more_is_shown_and_dropped(
    agentforge: CommandLine, configure: Configure
) -> None:
    session_id = agentforge.new()
    configure(hook("https://example.com/x", 'events = ["session.completed"]'))
    agentforge("session", "pause", session_id)
    configure("")
    agentforge("delete", session_id, "--yes")
    shown = agentforge("webhooks", "list")
    assert "Kept for webhooks that it does not name: team." in shown.out
    assert agentforge("webhooks", "list", "--json").document["kept_for"] == ["team"]
    done = agentforge("webhooks", "forget", "team")
    assert (done.code, done.out) == (0, "team: what was kept for it is dropped.\n")
    assert agentforge("webhooks", "list", "--json").document["kept_for"] == []
    again = agentforge("webhooks", "forget", "team")
    assert (again.code, again.err) == (
        3,
        "error: nothing is kept for webhook 'team'; there is none. Nothing was done.\n",
    )


def test_an_event_that_there_is_not_is_refused_before_anything_is_changed(
    agentforge: CommandLine, configure: Configure
) -> None:
    session_id = agentforge.new()
    configure(hook("https://example.com/x", 'events = ["session.complted"]'))
    ended = agentforge("session", "pause", session_id)
    assert ended.code == 7
    assert "did you mean 'session.completed'?" in ended.err
    session = agentforge.session(session_id)
    assert session.state.value == "active"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://user:hunter2@example.com/", "it holds a user or a password"),
        ("http://example.com/hunter2", "http is for this machine alone"),
        ("http://169.254.169.254/hunter2", "http is for this machine alone"),
        ("file:///etc/hunter2", "expected an https address"),
        ("https:///hunter2", "expected an https address"),
        ("https://example.com:99999/hunter2", "it is no address"),
        ("https://example.com/hunter2\\nx", "it holds characters"),
        ("", "is empty"),
    ],
)
def test_an_address_that_may_not_be_used_is_refused_and_never_shown(
    agentforge: CommandLine, configure: Configure, url: str, problem: str
) -> None:
    configure(hook(url))
    ended = agentforge("list")
    assert ended.code == 7
    assert f"config.toml:3: webhooks[0].url: {problem}" in ended.err
    assert "hunter2" not in ended.err


def test_doctor_says_what_keeps_events_from_being_told(
    agentforge: CommandLine, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK_SECRET", raising=False)

    def found() -> tuple[str, str]:
        checks = agentforge("doctor", "--json").document["checks"]
        [one] = [one for one in checks if one["name"] == "webhooks"]
        return one["status"], one["message"]

    configure(hook("https://example.com/x", 'secret_env = "HOOK_SECRET"'))
    assert found() == ("warn", "team: the variable HOOK_SECRET is not set")
    monkeypatch.setenv("HOOK_SECRET", "s")
    assert found() == ("ok", "team")
    configure(hook("https://example.com/x"))
    assert found() == ("ok", "team; not signed: team")
    configure(hook("https://example.com/x", 'events = ["x"]'))
    assert found()[0] == "fail"


def test_a_command_of_ones_own_is_run_for_events(
    agentforge: CommandLine, configure: Configure, tmp_path: Path
) -> None:
    session_id = agentforge.new()
    out = tmp_path / "out"
    configure(
        f"[notify]\nevents = [\"session.*ed\"]\non_event = 'cat >> {out}; echo $AGENTFORGE_EVENT'\n"
    )
    agentforge("session", "pause", session_id, "--reason", "$(touch x)")
    agentforge("session", "complete", session_id)  # refused: it is paused
    agentforge("session", "abort", session_id, "--yes")
    told = [json.loads(line)["type"] for line in out.read_text().splitlines()]
    assert [one for one in told if one != "session.loaded"] == ["session.paused", "session.aborted"]
