"""The file as other programs and newer versions write it, and as people read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from agentforge_sessions.harness import (
    SessionContext,
    SessionCorrupted,
    SessionHistory,
    SessionStore,
    TokenBudget,
)
from agentforge_sessions.harness.errors import UnsupportedSchema
from agentforge_sessions.harness.format.session_codec import (
    decode_ours,
    decode_session,
    encode_session,
)
from agentforge_sessions.harness.format.session_values import NotOurs
from tests.support.clock import START
from tests.support.ids import sid
from tests.support.sessions import as_plain
from tests.support.soak import examples
from tests.support.strategies import sessions

PATH = Path("/nowhere/session.yaml")
DOCUMENT = """\
session_id: session_20251230_101500_000042
state: paused
workflow_type: spec
current_phase: analyze
attempt_number: 1
created_at: 2025-12-30T10:15:00
updated_at: '2025-12-30T10:20:00+00:00'
completed_at: null
token_budget:
  total_budget: 1000
  tokens_used: 250
  remaining: 750
artifacts: []
history:
- timestamp: 2025-12-30T10:15:00
  action: session_created
  phase: analyze
  details: null
"""
NEWER = """\
schema_version: "1.7"
session_id: session_20251230_101500_000042
revision: 4
state: active
workflow_type: null
current_phase: null
attempt_number: 1
created_at: "2025-12-30T10:15:00.000000+00:00"
updated_at: "2025-12-30T10:15:00.000000+00:00"
completed_at: null
token_budget:
  total_budget: 1000
  tokens_used: 250
  currency: [tokens, 1.50]
goal: null
artifacts:
  - path: a.py
    artifact_type: created
    timestamp: "2025-12-30T10:15:00.000000+00:00"
    phase: null
    digest: "0042"
history:
  - timestamp: "2025-12-30T10:15:00.000000+00:00"
    action: session_created
    phase: null
    details: null
    measures:
      exit_code: 0
      "on": yes
      files: [{name: "a: b", size: 10}, {}]
      output: |
        two

        lines
labels:
  team: core
  empty: []
note: n
...
"""


def decode(text: str) -> SessionContext:
    return decode_session(text.encode(), path=PATH)


def session(**changed: Any) -> SessionContext:
    return SessionContext(session_id=sid("s"), created_at=START, **changed)


def test_a_file_with_only_the_documents_fields_loads() -> None:
    found = decode(DOCUMENT)

    assert (found.revision, found.goal) == (1, None)
    assert found.token_budget == TokenBudget(1000, 250)
    assert found.created_at.isoformat() == "2025-12-30T10:15:00+00:00"
    assert decode(encode_session(found).decode()) == found


@settings(max_examples=examples(150))
@given(sessions())
def test_what_a_yaml_library_makes_of_a_file_loads_as_the_same_session(
    made: SessionContext,
) -> None:
    read = yaml.safe_load(encode_session(made))
    assert {**as_plain(made), "digest": read["digest"]} == read

    for dumped in (yaml.safe_dump(read), yaml.safe_dump(read, allow_unicode=True, sort_keys=False)):
        if "\x85" in dumped or "\u2028" in dumped or "\u2029" in dumped or "\ufeff" in dumped:
            continue  # line breaks that the library itself does not read back
        assert decode(dumped) == made


@pytest.mark.parametrize("word", ["n", "y", "N", "Y", "1e3", "08", "0o7"])
def test_what_the_library_writes_as_plain_text_is_text(word: str) -> None:
    text = yaml.safe_dump(as_plain(session(history=[SessionHistory(START, word)])))
    assert f"action: {word}\n" in text

    assert decode(text).history[0].action == word


@pytest.mark.parametrize("word", ["yes", "true", "null", "7", "1.5", "2026-01-01", "0x1F"])
def test_what_is_no_text_to_the_library_is_refused(word: str) -> None:
    text = DOCUMENT.replace("action: session_created", f"action: {word}")

    with pytest.raises(SessionCorrupted, match=r"history\[0\]\.action"):
        decode(text)


def test_what_is_left_is_written_and_never_read() -> None:
    text = encode_session(session(token_budget=TokenBudget(100, 130))).decode()
    assert "  tokens_used: 130\n  remaining: -30\n" in text

    for left in ("remaining: 5", "remaining: what", "remaining: [1]"):
        assert decode(text.replace("remaining: -30", left)).token_budget.tokens_remaining == -30


def test_only_a_file_of_ours_needs_its_end_mark() -> None:
    text = encode_session(session()).decode()

    with pytest.raises(SessionCorrupted, match="cut off"):
        decode(text.removesuffix("...\n"))
    assert decode(text.removesuffix("...\n").partition("\n")[2]) == session()


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("  indented\nnot", "|2-\n        indented\n      not\n"),
        ("a\n   \nb", "|2-\n      a\n         \n      b\n"),
        ("\nfirst line is empty", "|2-\n\n      first line is empty\n"),
        ("\ttab\nb", "|2-\n      \ttab\n      b\n"),
        ("ends in blanks\n  ", "|2-\n      ends in blanks\n        \n"),
        ("a\n \n\n\n", "|2+\n      a\n       \n\n\n"),
        ("plain\nlines", "|-\n      plain\n      lines\n"),
    ],
)
def test_text_of_several_lines_is_a_literal_block(text: str, block: str) -> None:
    data = encode_session(session(history=[SessionHistory(START, "noted", None, text)]))

    assert f"    details: {block}digest: crc32-" in data.decode()
    assert yaml.safe_load(data)["history"][0]["details"] == text
    assert decode_ours(data, data.decode())[0].history[0].details == text


def test_fields_of_a_newer_minor_version_are_kept_on_save(tmp_path: Path) -> None:
    store = SessionStore(tmp_path)
    path = store.session_path("session_20251230_101500_000042")
    path.parent.mkdir()
    path.write_text(NEWER)
    before = yaml.safe_load(NEWER)

    found = store.load(path.parent.name)
    assert found is not None
    found.add_history("goes on")
    found.token_budget.record_usage(10)
    store.save(found)

    after = yaml.safe_load(path.read_text())
    assert after["schema_version"] == "1.7"
    assert after["token_budget"] == {**before["token_budget"], "tokens_used": 260, "remaining": 740}
    assert after["artifacts"] == before["artifacts"]
    assert after["history"][:1] == before["history"]
    assert (after["labels"], after["note"]) == (before["labels"], before["note"])
    assert "currency:\n    - tokens\n    - 1.50\n" in path.read_text()
    again = SessionStore(tmp_path).load(path.parent.name)
    assert again == found
    assert encode_session(again) == path.read_bytes()


def test_a_newer_file_is_the_same_in_any_order_of_its_fields() -> None:
    dumped = yaml.safe_dump(yaml.safe_load(NEWER))  # its version stands behind its lists

    assert decode(dumped).newer_fields
    assert "measures:" in decode(dumped).history[0].newer_fields


def test_an_unknown_field_of_this_version_is_a_fault() -> None:
    for version in ('"1.0"', "1", "1.0"):
        text = NEWER.replace('"1.7"', version)
        with pytest.raises(SessionCorrupted) as caught:
            decode(text)
        assert "labels: is not a field of a session" in caught.value.details
        assert "history[0].measures: is not a field of a session" in caught.value.details


@pytest.mark.parametrize("version", ["2", "2.0", '"2.1"', "10"])
def test_a_newer_major_version_is_refused(version: str) -> None:
    with pytest.raises(UnsupportedSchema, match="is newer than 1"):
        decode(NEWER.replace('"1.7"', version))


def test_a_session_without_a_history_begins_with_its_creation() -> None:
    assert [entry.action for entry in session().history] == ["session_created"]
    found = decode(DOCUMENT[: DOCUMENT.index("history:")] + "history: []\n")
    assert [(one.action, one.timestamp) for one in found.history] == [
        ("session_created", found.created_at)
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('schema_version: "1.1"', "schema_version: 1"),
        ("title: a title\ntags:\n  - a\n  - b\n", ""),
        ("  - a\n  - b\n", "  - b\n  - a\n"),
        ("  - a\n  - b\n", "  - a\n  - a\n"),
    ],
)
def test_a_file_that_is_not_as_it_would_be_written_is_left_to_the_careful_reader(
    old: str, new: str
) -> None:
    made = SessionContext.create(title="a title", tags=["a", "b"], now=START)
    text = encode_session(made).decode()
    assert old in text
    data = text.replace(old, new).encode()
    with pytest.raises((NotOurs, ValueError)):
        decode_ours(data, data.decode())
