"""A delivery: its form, its signature, when it is tried again."""

from __future__ import annotations

import json

import pytest

from agentforge_sessions.integrations.observers.delivery import (
    Delivery,
    WebhookResponse,
    pause_s,
    signature,
)

EVENT = {"version": 1, "type": "session.paused", "session_id": "s-1", "data": {"reason": "Grüße"}}
DELIVERY = Delivery(id="evt_1", event=EVENT, created=1_000.0)


def test_it_is_signed_as_standard_webhooks_says() -> None:
    """The example in the documentation of Svix, whose scheme Standard Webhooks took over."""
    signed = signature(
        "whsec_plJ3nmyCDGBKInavdOK15jsl",
        "msg_loFOjxBNrRLzqYUf",
        "1731705121",
        b'{"event_type":"ping","data":{"success":true}}',
    )
    assert signed == "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="


def test_its_headers_have_a_signature_for_each_secret_and_the_time_of_the_try() -> None:
    headers = DELIVERY.headers(["old", "new"], now=2_000.9)
    assert headers["webhook-id"] == "evt_1"
    assert headers["webhook-timestamp"] == "2000"
    assert headers["webhook-signature"].split() == [
        signature(one, "evt_1", "2000", DELIVERY.body) for one in ("old", "new")
    ]
    assert "webhook-signature" not in DELIVERY.headers([], now=0)


def test_a_secret_that_is_not_what_it_says_is_refused_without_being_quoted() -> None:
    with pytest.raises(ValueError, match="base64") as caught:
        DELIVERY.headers(["whsec_*hidden*"], now=0)
    assert "hidden" not in str(caught.value)


def test_what_was_kept_of_a_removed_session_is_sent_as_it_was() -> None:
    kept = {**EVENT, "timestamp": "2026-11-23T18:39:16.939132Z"}
    found = Delivery.of_document("evt_1", kept)
    assert json.loads(found.body) == kept
    assert found.created == pytest.approx(1795459156.939132)
    assert Delivery.of_document("evt_1", EVENT).created == 0.0


def test_the_pause_is_spread_and_never_shorter_than_the_receiver_asks() -> None:
    def pause(chance: float, wait_s: float | None = None) -> float:
        return pause_s(0, WebhookResponse(status=429, wait_s=wait_s), chance=chance)

    assert (pause(0.0), pause(1.0)) == (2.5, 5.0)
    assert pause(0.0, 60.0) == 60.0
    assert pause(0.0, 10.0**9) == 3_600.0


@pytest.mark.parametrize(
    ("status", "taken", "down", "final"),
    [
        *((200, True, False, False), (204, True, False, False), (301, False, False, False)),
        *((400, False, False, False), (404, False, False, False), (410, False, False, True)),
        *((429, False, True, False), (500, False, True, False), (0, False, True, False)),
    ],
)
def test_what_an_answer_means(status: int, taken: bool, down: bool, final: bool) -> None:
    answer = WebhookResponse(status=status)
    assert (answer.taken, answer.is_down, answer.refuses_for_good) == (taken, down, final)
