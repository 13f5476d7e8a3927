"""What a receiver is told of the histories of a store: in order, tried again, given up, by one."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from urllib.parse import SplitResult

import pytest
from attrs import define, field
from structlog.testing import capture_logs

from agentforge_sessions.base.event_log import get_logger
from agentforge_sessions.base.files import DirectoryLock, OsFileSystem, WriteError
from agentforge_sessions.base.settings.webhooks import Webhook
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.domain.history_events import SessionForked
from agentforge_sessions.harness.events.receiver_files import FOLDER
from agentforge_sessions.harness.feed_port import NOTHING_WAITS, ReceiverState
from agentforge_sessions.harness.session_domain import SessionContext
from agentforge_sessions.harness.store.sessions_place import OwnSessions
from agentforge_sessions.integrations.observers.delivery import Round, WebhookResponse
from agentforge_sessions.integrations.observers.webhook_sender import WebhookSender
from tests.support.clock import START, FakeClock
from tests.support.filesystem import FaultyFileSystem

TAKEN, DOWN, WRONG = (
    WebhookResponse(status=200),
    WebhookResponse(status=503),
    WebhookResponse(status=400),
)


@define
class Line:
    """A receiver that answers in turn, the last for ever, and remembers what it was sent."""

    answers: list[WebhookResponse] = field(factory=lambda: [TAKEN])
    sent: list[tuple[str, dict[str, str], bytes]] = field(factory=list)

    def __call__(
        self, address: SplitResult, body: bytes, headers: Mapping[str, str], *, timeout_s: float
    ) -> WebhookResponse:
        self.sent.append((address.geturl(), dict(headers), body))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for _, headers, _ in self.sent]


@define
class Ground:
    """Sessions, a receiver of what is recorded in them, and a process that delivers."""

    base: Path
    line: Line = field(factory=Line)
    clock: FakeClock = field(factory=FakeClock)
    environment: dict[str, str] = field(factory=dict)
    webhook: Webhook = field(
        factory=lambda: Webhook(
            name="team", url="https://example.com/x", events=("session.recorded",)
        )
    )
    sessions: dict[str, str] = field(factory=dict)

    def add(self, *labels: str) -> None:
        """Record something in the sessions of these labels, each in turn."""
        for label in labels:
            manager = SessionManager(self.base, clock=self.clock)
            if label not in self.sessions:
                self.sessions[label] = manager.create().session_id
                manager.release()
            number = len(manager.open(self.sessions[label]).history)
            manager.add_history(f"{label}{number}")
            self.clock.advance(0.001)

    def sender(self, fs: FaultyFileSystem | None = None) -> WebhookSender:
        return WebhookSender(
            self.webhook,
            SessionStore(self.base, fs=fs),
            log=get_logger("agentforge.observers"),
            environment=self.environment,
            send=self.line,
            clock=self.clock,
            chance=lambda: 1.0,
        )

    def deliver(self, **more: bool) -> Round:
        return self.sender().deliver(**more)  # type: ignore[arg-type]

    @property
    def told(self) -> list[str]:
        return [json.loads(body)["data"]["action"] for _, _, body in self.line.sent]

    @property
    def waiting(self) -> list[str]:
        found = self.sender().backlog().deliveries
        return [one.event["data"]["action"] for one in found]


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    found = Ground(tmp_path / "sessions")
    found.sender().begin()
    return found


def test_what_was_saved_is_sent_in_order_once(ground: Ground) -> None:
    ground.add("a", "b", "a")
    assert ground.waiting == ["a1", "a2", "b1"]
    assert ground.deliver() == Round(delivered=3)
    assert sorted(ground.told) == ["a1", "a2", "b1"]
    assert ground.told.index("a1") < ground.told.index("a2")
    assert ground.waiting == []
    assert ground.deliver() == Round()


def test_a_receiver_begins_with_what_happens_after_it_was_named(ground: Ground) -> None:
    ground.add("a", "b")
    ground.webhook = Webhook(
        name="new", url="https://example.com/y", events=("session.recorded", "session.created")
    )
    ground.sender().begin()
    assert ground.sender().backlog().deliveries == ()
    ground.add("a", "c")
    ground.sender().begin()  # it has begun
    ground.deliver()
    assert [json.loads(body)["type"] for _, _, body in ground.line.sent] == [
        *("session.recorded", "session.created", "session.recorded"),
    ]


def test_a_receiver_that_begins_when_it_delivers_is_told_nothing_of_before(ground: Ground) -> None:
    ground.add("a")
    ground.webhook = Webhook(name="new", url="https://example.com/y", events=("*",))
    assert ground.deliver() == Round()
    ground.add("a")
    assert ground.deliver() == Round(delivered=1)


def test_what_is_kept_of_receivers_is_no_part_of_the_repository(ground: Ground) -> None:
    assert (ground.base / FOLDER / ".gitignore").read_text() == "*\n"


def test_a_state_that_came_with_a_copy_is_nobodys(ground: Ground, tmp_path: Path) -> None:
    ground.add("a")
    copy = tmp_path / "clone"
    shutil.copytree(ground.base, copy)
    ground.base = copy
    assert ground.deliver() == Round(), "it begins here, and is told nothing of before"
    SessionStore(copy).make_own(ground.sessions["a"])
    ground.add("a")
    assert ground.deliver() == Round(delivered=1)


def test_what_a_clone_brought_is_told_to_nobody(ground: Ground, tmp_path: Path) -> None:
    ground.deliver()
    theirs = Ground(tmp_path / "theirs")
    theirs.add("b")
    session_id = theirs.sessions["b"]
    shutil.copytree(theirs.base / session_id, ground.base / session_id)
    assert ground.deliver() == Round()
    ground.add("a")
    assert ground.deliver() == Round(delivered=1)


def test_the_copied_entries_of_a_fork_are_not_told_again(tmp_path: Path) -> None:
    ground = Ground(tmp_path / "sessions")
    ground.webhook = Webhook(name="team", url="https://example.com/x", events=("session.*",))
    ground.sender().begin()
    store = SessionStore(ground.base)
    parent = SessionContext.create(now=START)
    store.save(parent)
    child = SessionContext.create(now=START + timedelta(seconds=1))
    child.history[:] = parent.history
    fork = SessionForked(parent_id=parent.session_id, parent_entries=1, attempt=3, snapshot="s")
    child.add_event(fork, now=child.created_at)
    store.save(child)

    ground.deliver()

    told = [json.loads(body) for _, _, body in ground.line.sent]
    assert [(one["type"], one["session_id"]) for one in told] == [
        ("session.created", parent.session_id),
        ("session.forked", child.session_id),
    ]
    assert told[1]["attempt"] == 3


def test_a_receiver_that_is_down_is_left_alone_until_the_next_try_is_due(ground: Ground) -> None:
    ground.line.answers = [DOWN, TAKEN]
    ground.add("a", "b")
    now = ground.clock().timestamp()

    found = ground.deliver()
    assert (found.failed, found.next_due, found.problem) == (1, now + 5, "it answered 503")
    assert ground.told == ["a1"], "b is not tried on a receiver that is down"

    ground.clock.advance(4.9)
    ground.deliver()
    assert ground.told == ["a1", "b1"], "b is taken, a not due yet"
    ground.clock.advance(0.11)
    assert ground.deliver() == Round(delivered=1)
    assert ground.told[-1] == "a1"
    assert ground.waiting == []


def test_each_pause_is_twice_as_long_up_to_an_hour(ground: Ground) -> None:
    ground.line.answers = [DOWN]
    ground.add("a")
    pauses = []
    for _ in range(12):
        due = ground.deliver().next_due
        assert due is not None
        pauses.append(due - ground.clock().timestamp())
        ground.clock.advance(pauses[-1] + 0.001)
    assert [round(one) for one in pauses] == [
        *(5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600),
    ]


def test_the_later_events_of_a_session_wait_for_the_earlier_ones(ground: Ground) -> None:
    ground.line.answers = [WRONG, TAKEN]
    ground.add("a", "a", "b", "a")

    found = ground.deliver()

    assert (found.failed, found.delivered) == (1, 1)
    assert ground.told == ["a1", "b1"]
    ground.add("a")
    assert sorted(ground.waiting) == ["a1", "a2", "a3", "a4"]
    ground.clock.advance(5)
    assert ground.deliver().delivered == 4
    assert ground.told[2:] == ["a1", "a2", "a3", "a4"]
    assert len({headers["webhook-id"] for _, headers, _ in ground.line.sent}) == 5
    assert ground.deliver() == Round()


def test_what_waits_in_the_middle_of_a_session_goes_on_there(ground: Ground) -> None:
    ground.add("a", "a", "a")
    ground.line.answers = [TAKEN, WRONG, WRONG, TAKEN]
    ground.deliver()
    ground.clock.advance(5)
    ground.deliver()
    ground.clock.advance(10)
    ground.deliver()
    assert ground.told == ["a1", "a2", "a2", "a2", "a3"]


def test_a_try_that_is_asked_for_does_not_wait_until_it_is_due(ground: Ground) -> None:
    ground.line.answers = [DOWN, TAKEN]
    ground.add("a")
    ground.deliver()
    assert ground.deliver().delivered == 0
    assert ground.deliver(at_once=True).delivered == 1


def test_what_a_removed_session_had_to_tell_is_told(ground: Ground) -> None:
    ground.line.answers = [TAKEN, DOWN, TAKEN]
    ground.add("a", "a", "b")
    ground.deliver()
    for session_id in ground.sessions.values():
        assert SessionStore(ground.base).delete(session_id)
    assert sorted(ground.waiting) == ["a2", "b1"]
    ground.clock.advance(5)
    assert ground.deliver().delivered == 2
    assert ground.told == ["a1", "a2", "a2", "b1"]
    assert ground.waiting == []
    assert [one.name[:7] for one in (ground.base / FOLDER / "team").iterdir()] == ["cursor-"]


def test_what_a_pruned_session_had_to_tell_is_told(ground: Ground) -> None:
    ground.add("a")
    manager = SessionManager(ground.base, clock=ground.clock)
    manager.open(ground.sessions["a"])
    manager.complete()
    ground.clock.advance(86_400)
    assert manager.cleanup_old_sessions(0.5) == [ground.sessions["a"]]
    assert ground.deliver() == Round(delivered=1)
    assert ground.told == ["a1"]


def test_a_removal_keeps_only_what_the_receiver_gets_and_has_not_had(ground: Ground) -> None:
    ground.add("a")
    ground.deliver()
    SessionStore(ground.base).delete(ground.sessions["a"])
    assert [one.name[:7] for one in (ground.base / FOLDER / "team").iterdir()] == ["cursor-"]


def test_a_removal_goes_on_where_nothing_more_can_be_kept(ground: Ground) -> None:
    ground.add("a")
    fs = FaultyFileSystem(
        plan=lambda _, call: errno.ENOSPC if "session.yaml.new-" in call.path else None
    )
    with capture_logs() as logs:
        assert SessionStore(ground.base, fs=fs).delete(ground.sessions["a"])
    assert "feed.not_kept" in [one["event"] for one in logs]
    assert ground.deliver() == Round()


def test_a_session_that_can_not_be_read_is_told_once_it_can(ground: Ground) -> None:
    ground.add("a")
    file = ground.base / ground.sessions["a"] / "session.yaml"
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    assert ground.deliver() == Round()
    file.write_bytes(whole)
    assert ground.deliver() == Round(delivered=1)


def test_each_try_has_the_same_id_and_body_and_a_time_of_its_own(ground: Ground) -> None:
    ground.environment["SECRET"] = "s3cret"
    ground.webhook = Webhook(
        name="team",
        url="https://example.com/x",
        secret_env="SECRET",
        events=("session.recorded",),
    )
    ground.line.answers = [DOWN, TAKEN]
    ground.add("a")
    ground.deliver()
    ground.clock.advance(5)
    ground.deliver()

    (_, first, body), (_, second, again) = ground.line.sent
    assert body == again
    assert first["webhook-id"] == second["webhook-id"]
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 5
    assert first["webhook-signature"] != second["webhook-signature"]


def test_a_receiver_that_is_none_any_more_is_sent_nothing_again(ground: Ground) -> None:
    ground.line.answers = [WebhookResponse(status=410)]
    ground.add("a")
    with capture_logs() as logs:
        assert ground.deliver().given_up == 1
    assert [one["event"] for one in logs] == ["webhook.given_up"]
    assert ground.waiting == []


def test_what_is_not_taken_for_three_days_is_given_up_and_told(ground: Ground) -> None:
    ground.line.answers = [DOWN]
    ground.add("a")
    ground.clock.advance(10 * 86_400)  # nobody was there to send it
    assert ground.deliver().failed == 1
    ground.clock.advance(3 * 86_400 - 1)
    assert ground.deliver().failed == 1
    ground.clock.advance(3_601)
    with capture_logs() as logs:
        assert ground.deliver().given_up == 1
    assert (logs[0]["event"], logs[0]["error"]) == ("webhook.given_up", "it answered 503")


def test_a_secret_that_is_not_set_sends_nothing_unsigned(ground: Ground) -> None:
    ground.webhook = Webhook(
        name="team",
        url="https://example.com/x",
        secret_env="SECRET",
        events=("session.recorded",),
    )
    ground.add("a")
    assert ground.deliver().problem == "the variable SECRET is not set"
    assert not ground.line.sent
    ground.environment["SECRET"] = "now it is"
    assert ground.deliver(at_once=True).delivered == 1


def test_an_address_of_a_variable_is_judged_before_anything_is_sent(ground: Ground) -> None:
    ground.webhook = Webhook(name="team", url_env="HOOK", events=("session.recorded",))
    ground.add("a")
    problems = []
    for url in ("", "http://169.254.169.254/", "file:///etc/passwd", "https://u:pw@example.com/"):
        ground.environment["HOOK"] = url
        problems.append(ground.deliver(at_once=True).problem or "")
    assert [one.partition(";")[0] for one in problems] == [
        "the variable HOOK is not set",
        "http is for this machine alone",
        "expected an https address",
        "it holds a user or a password",
    ]
    assert not ground.line.sent


def test_one_process_delivers_at_a_time(ground: Ground) -> None:
    ground.add("a")
    with DirectoryLock(OsFileSystem(), ground.base / FOLDER / "team"):
        assert ground.deliver() == Round(busy=True)
    assert ground.deliver().delivered == 1


def test_a_cursor_that_can_not_be_moved_has_what_was_taken_sent_once_more(ground: Ground) -> None:
    ground.add("a")
    fs = FaultyFileSystem(
        plan=lambda _, call: errno.ENOSPC if "cursor-" in call.path and call.writing else None
    )
    with capture_logs() as logs:
        assert ground.sender(fs).deliver().delivered == 1
    assert "webhook.not_noted" in [one["event"] for one in logs]
    assert ground.deliver().delivered == 1
    assert len(set(ground.line.ids)) == 1


def test_of_one_session_that_changed_no_other_is_looked_at(ground: Ground) -> None:
    ground.add("a", "b")
    found = ground.sender().deliver(only={ground.sessions["b"]})
    assert (found.delivered, ground.told) == (1, ["b1"])
    assert ground.waiting == ["a1"]


def test_logs_name_the_receiver_and_never_its_address(ground: Ground) -> None:
    ground.line.answers = [DOWN, WebhookResponse(status=410)]
    ground.add("a")
    with capture_logs() as logs:
        ground.deliver()
        ground.deliver(at_once=True)
    assert {one["webhook"] for one in logs} == {"team"}
    assert "example.com" not in str(logs)
    assert "example.com" not in repr(ground.webhook)


def damaged(ground: Ground, label: str) -> Callable[[], object]:
    """Damage a session's file; return what mends it."""
    file = ground.base / ground.sessions[label] / "session.yaml"
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    return lambda: file.write_bytes(whole)


def test_a_session_that_waits_and_can_not_be_read_is_looked_at_again_a_minute_later(
    ground: Ground,
) -> None:
    ground.line.answers = [DOWN, TAKEN]
    ground.add("a")
    ground.deliver()
    mend = damaged(ground, "a")
    ground.clock.advance(5)

    assert ground.deliver() == Round(next_due=ground.clock().timestamp() + 60)
    mend()
    assert ground.deliver() == Round(delivered=1)


def test_what_a_killed_process_said_waits_and_was_taken_is_waited_for_no_more(
    ground: Ground,
) -> None:
    ground.add("a")
    session_id = ground.sessions["a"]
    receiver = SessionStore(ground.base).receiver("team")
    with receiver.held():
        state = ReceiverState.decoded(receiver.read() or b"")
        state.waiting[session_id] = NOTHING_WAITS.behind(2)
        receiver.keep(state.encoded())
    assert ground.deliver() == Round()
    assert ReceiverState.decoded(receiver.read() or b"").waiting == {}


def test_what_was_caught_up_is_not_sent_again_by_a_look_at_one_session(ground: Ground) -> None:
    ground.line.answers = [WRONG, TAKEN]
    ground.add("a", "b")
    ground.deliver()
    ground.add("a", "b")
    ground.clock.advance(5)
    ground.sender().deliver(only={ground.sessions["b"]})
    ground.deliver()
    assert sorted(ground.told) == ["a1", "a1", "a2", "b1", "b2"]


def test_one_that_is_down_is_not_tried_once_for_each_session_that_waits(ground: Ground) -> None:
    ground.line.answers = [DOWN]
    ground.add("a", "b", "c")
    assert ground.deliver(at_once=True).failed == 3
    ground.clock.advance(5)
    found = ground.deliver()
    assert (found.failed, found.next_due) == (1, ground.clock().timestamp() + 10)


def test_what_a_removed_session_left_outlives_a_store_that_can_not_be_read(
    ground: Ground,
) -> None:
    ground.add("a")
    SessionStore(ground.base).delete(ground.sessions["a"])
    folder = str(ground.base / ground.sessions["a"])
    fs = FaultyFileSystem(plan=lambda _, call: errno.EIO if folder in call.path else None)
    assert ground.sender(fs).deliver() == Round(next_due=ground.clock().timestamp() + 60)
    assert ground.deliver() == Round(delivered=1)
    assert ground.told == ["a1"]


def test_a_removed_session_that_a_clone_brought_leaves_nothing(ground: Ground) -> None:
    ground.add("a")
    (OwnSessions(ground.base).folder / ground.sessions["a"]).unlink()
    SessionStore(ground.base).delete(ground.sessions["a"])
    assert ground.waiting == []
    assert ground.deliver() == Round()


def test_a_pruned_session_that_a_clone_brought_leaves_nothing(ground: Ground) -> None:
    ground.add("a")
    manager = SessionManager(ground.base, clock=ground.clock)
    manager.open(ground.sessions["a"])
    manager.complete()
    manager.release()
    (OwnSessions(ground.base).folder / ground.sessions["a"]).unlink()
    ground.clock.advance(86_400)
    assert manager.cleanup_old_sessions(0.5) == [ground.sessions["a"]]
    assert ground.deliver() == Round()


def test_a_place_that_leads_elsewhere_is_no_place_for_a_cursor(
    ground: Ground, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(ground.base / FOLDER)
    (ground.base / FOLDER).symlink_to(elsewhere)
    with pytest.raises(WriteError):
        ground.sender().begin()
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("kept", [b"no state\n", b'{"cursor":"x","events":[],"waiting":{}}\n'])
def test_a_state_that_is_none_begins_anew_and_is_said(ground: Ground, kept: bytes) -> None:
    ground.add("a")
    receiver = SessionStore(ground.base).receiver("team")
    with receiver.held():
        receiver.keep(kept)
    assert "begins anew" in (ground.sender().backlog().problem or "")
    with capture_logs() as logs:
        assert ground.deliver() == Round()
    assert "webhook.begun_anew" in [one["event"] for one in logs]
    ground.add("a")
    assert ground.deliver() == Round(delivered=1)
