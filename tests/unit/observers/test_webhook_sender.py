"""What waits for a receiver: kept, sent in order, tried again, given up; and by one process."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult

import pytest
from attrs import define, field
from structlog.testing import capture_logs

from agentforge_sessions.durable import DirectoryLock, OsFileSystem, WriteError
from agentforge_sessions.event_log import get_logger
from agentforge_sessions.observers.delivery import Answer
from agentforge_sessions.observers.errors import OutboxFull
from agentforge_sessions.observers.outbox import Outbox
from agentforge_sessions.observers.webhook_sender import Round, WebhookSender
from agentforge_sessions.project.webhooks import Webhook
from tests.support.clock import START, FakeClock, FakeTokens
from tests.support.filesystem import FaultyFileSystem, nth_of

NOW = START.timestamp()
TAKEN, DOWN, WRONG = Answer(status=200), Answer(status=503), Answer(status=400)


@define
class Line:
    """A receiver that answers in turn, the last for ever, and remembers what it was sent."""

    answers: list[Answer] = field(factory=lambda: [TAKEN])
    sent: list[tuple[str, dict[str, str], bytes]] = field(factory=list)

    def __call__(
        self, address: SplitResult, body: bytes, headers: Mapping[str, str], *, timeout_s: float
    ) -> Answer:
        self.sent.append((address.geturl(), dict(headers), body))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def ids(self) -> list[str]:
        return [headers["webhook-id"] for _, headers, _ in self.sent]


@define
class Ground:
    """An outbox, its receiver, and a process that delivers."""

    directory: Path
    line: Line = field(factory=Line)
    clock: FakeClock = field(factory=FakeClock)
    tokens: FakeTokens = field(factory=FakeTokens)
    environment: dict[str, str] = field(factory=dict)
    webhook: Webhook = field(factory=lambda: Webhook(name="team", url="https://example.com/x"))

    def outbox(self, **more: object) -> Outbox:
        return Outbox(self.directory / "team", "team", clock=self.clock, **more)  # type: ignore[arg-type]

    def add(self, *sessions: str | None) -> None:
        outbox = self.outbox()
        for one in sessions:
            outbox.add({"type": "session.paused", "session_id": one}, token=self.tokens())

    def deliver(self, **more: bool) -> Round:
        sender = WebhookSender(
            self.webhook,
            self.outbox(),
            log=get_logger("agentforge.observers"),
            environment=self.environment,
            send=self.line,
            clock=self.clock,
            chance=lambda: 1.0,
        )
        return sender.deliver(**more)

    @property
    def waiting(self) -> int:
        return len(self.outbox().names())


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path / "outbox")


def test_what_was_added_is_sent_in_order_and_then_gone(ground: Ground) -> None:
    ground.add("a", "b", "a")
    assert ground.deliver() == Round(delivered=3)
    assert ground.line.ids == ["evt_00000001", "evt_00000002", "evt_00000003"]
    assert ground.waiting == 0
    assert ground.deliver() == Round()


def test_nothing_waits_where_nothing_was_ever_added(ground: Ground) -> None:
    assert ground.deliver() == Round()
    assert not ground.directory.exists(), "a look makes nothing"


def test_what_waits_is_no_part_of_the_repository(ground: Ground) -> None:
    ground.add("a")
    assert (ground.directory / ".gitignore").read_text() == "*\n"


def test_the_order_is_that_of_adding_whatever_the_clock_and_the_ids_are(ground: Ground) -> None:
    outbox = ground.outbox()
    for token in ("ffffffff", "00000000", "88888888"):
        outbox.add({"type": "x", "session_id": "a"}, token=token)
        ground.clock.advance(-1)  # it stands still, or goes back
    assert ground.deliver().delivered == 3
    assert ground.line.ids == ["evt_ffffffff", "evt_00000000", "evt_88888888"]


def test_a_receiver_that_is_down_is_left_alone_until_the_next_try_is_due(ground: Ground) -> None:
    ground.line.answers = [DOWN, TAKEN]
    ground.add("a", "b")

    found = ground.deliver()
    assert (found.failed, found.next_due, found.problem) == (1, NOW + 5, "it answered 503")
    assert len(ground.line.sent) == 1, "b is not tried on a receiver that is down"

    ground.clock.advance(4.9)
    ground.deliver()
    assert ground.line.ids == ["evt_00000001", "evt_00000002"], "b is taken, a not due yet"
    ground.clock.advance(0.1)
    assert ground.deliver() == Round(delivered=1)
    assert ground.line.ids[-1] == "evt_00000001"


def test_the_later_events_of_a_session_wait_for_the_earlier_ones(ground: Ground) -> None:
    ground.line.answers = [WRONG, TAKEN]
    ground.add("a", "a", "b", None, "a")

    found = ground.deliver()

    assert (found.failed, found.delivered) == (1, 2)
    assert ground.line.ids == ["evt_00000001", "evt_00000003", "evt_00000004"]
    ground.clock.advance(5)
    ground.deliver()
    assert ground.line.ids[3:] == ["evt_00000001", "evt_00000002", "evt_00000005"]


def test_a_try_that_is_asked_for_does_not_wait_until_it_is_due(ground: Ground) -> None:
    ground.line.answers = [DOWN, TAKEN]
    ground.add("a")
    ground.deliver()
    assert ground.deliver().delivered == 0
    assert ground.deliver(at_once=True).delivered == 1


def test_each_try_has_the_same_id_and_body_and_a_time_of_its_own(ground: Ground) -> None:
    ground.environment["SECRET"] = "s3cret"
    ground.webhook = Webhook(name="team", url="https://example.com/x", secret_env="SECRET")
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
    ground.line.answers = [Answer(status=410)]
    ground.add("a")
    with capture_logs() as logs:
        assert ground.deliver().given_up == 1
    assert [one["event"] for one in logs] == ["webhook.given_up"]
    assert ground.waiting == 0


def test_what_is_not_taken_for_three_days_is_given_up_and_told(ground: Ground) -> None:
    ground.line.answers = [DOWN]
    ground.add("a")
    ground.clock.advance(3 * 86_400 - 1)
    assert ground.deliver().failed == 1
    ground.clock.advance(3_600)
    with capture_logs() as logs:
        assert ground.deliver().given_up == 1
    assert (logs[0]["event"], logs[0]["error"]) == ("webhook.given_up", "it answered 503")


def test_a_secret_that_is_not_set_sends_nothing_unsigned(ground: Ground) -> None:
    ground.webhook = Webhook(name="team", url="https://example.com/x", secret_env="SECRET")
    ground.add("a")
    assert ground.deliver().problem == "the variable SECRET is not set"
    assert not ground.line.sent
    ground.environment["SECRET"] = "now it is"
    assert ground.deliver(at_once=True).delivered == 1


def test_an_address_of_a_variable_is_judged_before_anything_is_sent(ground: Ground) -> None:
    ground.webhook = Webhook(name="team", url_env="HOOK")
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
    with DirectoryLock(OsFileSystem(), ground.directory / "team"):
        assert ground.deliver() == Round(busy=True)
    assert ground.deliver().delivered == 1


def test_what_is_no_delivery_is_passed_over_and_kept(ground: Ground) -> None:
    ground.add("a")
    strange = ground.directory / "team" / f"{0:020d}-00000000.json"
    strange.write_text("{")
    (ground.directory / "team" / "notes.txt").write_text("mine")
    assert ground.deliver().delivered == 1
    assert ground.waiting == 1
    assert strange.exists()


def test_a_full_outbox_keeps_what_it_has_and_says_so(ground: Ground) -> None:
    outbox = ground.outbox(most=2)
    for token in ("00000001", "00000002"):
        outbox.add({"type": "x"}, token=token)
    with pytest.raises(OutboxFull) as caught:
        outbox.add({"type": "x"}, token="00000003")
    assert (caught.value.webhook, caught.value.most) == ("team", 2)
    assert ground.waiting == 2


@pytest.mark.parametrize("call", ["open", "fsync", "rename"])
def test_what_can_not_be_kept_is_told_and_leaves_nothing(ground: Ground, call: str) -> None:
    ground.add("a")
    fs = FaultyFileSystem()
    fs.begin(nth_of(call, 1 if call == "open" else 0, errno.ENOSPC))
    with pytest.raises(WriteError):
        ground.outbox(fs=fs).add({"type": "x"}, token="00000009")
    assert ground.waiting == 1
    assert len(list((ground.directory / "team").iterdir())) == 1


def test_a_delivery_that_can_not_be_put_back_waits_as_it_was(ground: Ground) -> None:
    ground.line.answers = [DOWN]
    ground.add("a")
    fs = FaultyFileSystem()
    sender = WebhookSender(
        ground.webhook,
        ground.outbox(fs=fs),
        log=get_logger("agentforge.observers"),
        environment={},
        send=ground.line,
        clock=ground.clock,
    )
    fs.begin(nth_of("fsync", 0, errno.ENOSPC))
    with capture_logs() as logs:
        assert sender.deliver().failed == 1
    assert "webhook.not_noted" in [one["event"] for one in logs]
    assert ground.waiting == 1


def test_logs_name_the_receiver_and_never_its_address(ground: Ground) -> None:
    ground.line.answers = [DOWN, Answer(status=410)]
    ground.add("a")
    with capture_logs() as logs:
        ground.deliver()
        ground.deliver(at_once=True)
    assert {one["webhook"] for one in logs} == {"team"}
    assert "example.com" not in str(logs)
    assert "example.com" not in repr(ground.webhook)
