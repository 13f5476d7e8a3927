"""The page of events is what the program has: each event with its fields, and code that works."""

from __future__ import annotations

import re
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.harness import SessionManager
from agentforge_sessions.harness.domain.history_events import CheckpointTaken
from agentforge_sessions.harness.domain.session_entries import EVENTS
from agentforge_sessions.harness.domain.session_observer import NOTICES, OBSERVED
from agentforge_sessions.harness.views.entry_events import SAID_BY_ENTRIES
from agentforge_sessions.integrations.observers.delivery import Delivery

PAGE = (Path(__file__).parents[3] / "docs" / "events.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_event_is_listed_with_the_fields_that_it_is_told_with() -> None:
    section = PAGE.split("## All events", 1)[1].split("\n## ", 1)[0]
    listed = {
        name: re.findall(r"`(\w+)`", names)
        for name, names in re.findall(r"^\| `([\w.]+)` \| .* \| (.*) \|$", section, re.MULTILINE)
    }
    assert listed == {
        name: [one.name for one in fields(kind) if one.metadata.get("logged", True)]
        for name, kind in OBSERVED.items()
    }


def test_all_that_can_happen_is_observed_under_a_name_of_its_own() -> None:
    kinds = [*EVENTS.values(), *NOTICES.values()]
    kinds.remove(CheckpointTaken)  # told as CheckpointReached
    assert sorted(OBSERVED) == sorted(one.log_name for one in kinds)
    assert len(OBSERVED) == len(kinds)


def test_the_page_says_which_events_stand_in_the_history() -> None:
    section = PAGE.split("## All events", 1)[1].split("\n## ", 1)[0]
    names = re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE)
    kept = names[: names.index("session.loaded")]
    assert set(kept) == {n for n, kind in OBSERVED.items() if issubclass(kind, SAID_BY_ENTRIES)}


def test_the_loop_of_the_page_is_given_what_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    session_id = SessionManager().create().session_id
    capsys.readouterr()
    exec(BLOCKS[1], {})
    out = capsys.readouterr().out
    assert f"session.created {session_id}" in out


@pytest.fixture
def is_genuine() -> Any:
    names: dict[str, Any] = {}
    exec(BLOCKS[2], names)
    return names["is_genuine"]


@pytest.mark.parametrize("secret", ["plain", "whsec_cGxhaW4="])
def test_the_code_of_the_page_verifies_what_is_sent(is_genuine: Any, secret: str) -> None:
    delivery = Delivery(id="evt_1", event={"type": "x"}, created=0.0)
    now = time.time()
    headers = delivery.headers(["another", secret], now=now)
    assert is_genuine(secret, headers, delivery.body)
    assert not is_genuine("wrong", headers, delivery.body)
    assert not is_genuine(secret, headers, delivery.body + b" ")
    assert not is_genuine(secret, {**headers, "webhook-id": "evt_2"}, delivery.body)
    assert not is_genuine(secret, delivery.headers([secret], now=now - 301), delivery.body)


def test_the_observer_of_the_page_observes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(BLOCKS[0], names)
    from agentforge_sessions.harness.domain.history_events import PhaseFailed

    manager = names["manager"]
    manager.create(initial_phase="red")
    manager.record(PhaseFailed(problem="no tests"))
    assert "red no tests\n" in capsys.readouterr().out  # among what is logged
