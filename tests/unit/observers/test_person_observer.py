"""A person's own machine: what is shown, what a command is given, and what is never acted on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event

import pytest
from attrs import define, field
from structlog.testing import capture_logs

from agentforge_sessions.base.event_log import get_logger
from agentforge_sessions.base.person_notification import MOST_WAITING, OrderedCommands
from agentforge_sessions.harness import SessionManager
from agentforge_sessions.integrations.observers.observing import unknown_pattern
from agentforge_sessions.integrations.observers.person_observer import PersonObserver
from tests.support.promptness import PATIENCE_S, when


@define
class Commands:
    """Runs nothing, and remembers."""

    during: Callable[[], object] = lambda: None
    ran: list[tuple[list[str], bytes, dict[str, str]]] = field(factory=list)

    def __call__(self, command: Sequence[str], data: bytes, environment: Mapping[str, str]) -> int:
        self.during()
        self.ran.append((list(command), data, dict(environment)))
        return 0


def told(
    base: Path,
    commands: Commands,
    act: Callable[[SessionManager], object],
    *,
    events: Sequence[str] = ("session.paused", "session.completed"),
    platform: str = "linux",
    **more: object,
) -> SessionManager:
    background = OrderedCommands(
        get_logger("agentforge.observers"),
        "event.not_told",
        run=commands,
        which=lambda name: f"/bin/{name}",
        environment={"PATH": "/bin"},
        platform=platform,
    )
    settings: dict[str, object] = {"desktop": False, "on_event": None, **more}
    observer = PersonObserver(background, events=events, **settings)  # type: ignore[arg-type]
    manager = SessionManager(base, observers=[observer])
    manager.create(goal="--expire-time=0 secret goal")
    act(manager)
    observer.close(PATIENCE_S)
    return manager


def test_an_event_is_shown_on_the_desktop_and_nothing_in_it_is_acted_on(base: Path) -> None:
    commands = Commands()
    hostile = "--icon=x $(touch y)\x1b]0;evil\x07 <b>&`id`"
    manager = told(base, commands, lambda manager: manager.pause(hostile), desktop=True)

    assert manager.current_session is not None
    session_id = manager.current_session.session_id
    assert [command for command, _, _ in commands.ran] == [
        [
            *("/bin/notify-send", "--app-name=agentforge", "--", "Session paused"),
            f"{session_id}: --icon=x $(touch y) ]0;evil &lt;b&gt;&amp;`id`",
        ]
    ]


def test_on_macos_texts_are_arguments_of_the_script_and_no_part_of_it(base: Path) -> None:
    commands = Commands()
    told(base, commands, lambda one: one.pause('" & evil & "'), desktop=True, platform="darwin")
    [(command, _, _)] = commands.ran
    assert command[:2] == ["/bin/osascript", "-e"]
    assert "evil" not in command[2]
    assert command[3:5] == ["--", "Session paused"]
    assert command[5].endswith('" & evil & "')


def test_a_pause_for_a_question_is_shown_as_the_question_alone(base: Path) -> None:
    commands = Commands()
    told(
        base,
        commands,
        lambda one: one.pause("waits", cause="person", question_id="q-1"),
        desktop=True,
        on_event="mine",
    )
    assert [command[0] for command, _, _ in commands.ran] == ["sh"]


def test_a_command_gets_each_event_as_data_in_their_order(base: Path) -> None:
    commands = Commands()

    def act(manager: SessionManager) -> None:
        manager.pause("$(touch x)\nsecond line")
        manager.resume()
        manager.complete()

    told(base, commands, act, on_event="say it")

    assert [command for command, _, _ in commands.ran] == [["sh", "-c", "say it"]] * 2
    assert [json.loads(data)["type"] for _, data, _ in commands.ran] == [
        *("session.paused", "session.completed"),
    ]
    environment = commands.ran[0][2]
    assert environment["AGENTFORGE_EVENT"] == "session.paused"
    assert environment["AGENTFORGE_TEXT"].endswith(": $(touch x) second line")
    assert "secret goal" not in str(commands.ran)


def test_a_command_that_takes_long_lets_the_work_go_on_and_a_few_events_wait(base: Path) -> None:
    go_on = Event()
    commands = Commands(during=lambda: go_on.wait(PATIENCE_S))

    def act(manager: SessionManager) -> None:
        for _ in range(MOST_WAITING + 5):
            manager.add_history("noted")
        go_on.set()

    with capture_logs() as logs:
        told(base, commands, act, events=["session.recorded"], on_event="slow")

    left_out = [one for one in logs if one["event"] == "event.not_told"]
    assert len(commands.ran) + len(left_out) == MOST_WAITING + 5
    assert 4 <= len(left_out) <= 5, "one may run already"


def test_the_end_begins_nothing_more_once_its_time_is_over(base: Path) -> None:
    go_on, begun = Event(), Event()

    def hang() -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    commands = Commands(during=hang)
    log = get_logger("agentforge.observers")
    observer = PersonObserver(
        OrderedCommands(log, "event.not_told", run=commands, environment={}),
        events=["session.recorded"],
        desktop=False,
        on_event="slow",
    )
    manager = SessionManager(base, observers=[observer])
    manager.create()
    for _ in range(4):
        manager.add_history("noted")
    assert begun.wait(PATIENCE_S)
    with capture_logs() as logs:
        ending = when(lambda: logs, go_on.set)
        observer.close(0.0)
        ending.join()
    assert [one["error"] for one in logs] == ["3 were left out at the end"]
    assert len(commands.ran) == 1


def test_a_missing_program_is_told_in_the_log(base: Path) -> None:
    background = OrderedCommands(
        get_logger("agentforge.observers"), "event.not_told", which=lambda _: None, platform="linux"
    )
    observer = PersonObserver(background, events=["*"], desktop=True, on_event=None)
    with capture_logs() as logs:
        SessionManager(base, observers=[observer]).create()
    assert [one["error"] for one in logs if one["event"] == "event.not_told"] == [
        "notify-send is missing"
    ]


@pytest.mark.parametrize("pattern", ["session.paused", "session.*", "*", "*.failed", "agent.*"])
def test_a_pattern_that_chooses_an_event_is_one(pattern: str) -> None:
    assert unknown_pattern(pattern) is None


def test_a_pattern_that_chooses_nothing_is_told_with_the_nearest_name() -> None:
    assert unknown_pattern("session.complted") == (
        "there is no event 'session.complted'; did you mean 'session.completed'?"
    )
    assert "docs/events.md" in (unknown_pattern("x.*") or "")
