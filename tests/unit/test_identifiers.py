"""The identifiers of sessions."""

from datetime import UTC, datetime

import pytest

from agentforge_sessions.base.identifiers import (
    InvalidIdentifier,
    completions,
    is_session_id,
    is_uuid,
    is_uuid4,
    is_workspace_name,
    new_uuid4,
    next_session_id,
    session_id_at,
)

MOMENT = datetime(2026, 3, 1, 9, 30, 0, 42, tzinfo=UTC)
V4 = "550e8400-e29b-41d4-a716-446655440000"
V1 = "550e8400-e29b-11d4-a716-446655440000"


def test_a_session_is_named_after_the_microsecond_of_its_creation() -> None:
    assert session_id_at(MOMENT) == "session_20260301_093000_000042"
    assert is_session_id(session_id_at(MOMENT))


def test_a_taken_id_moves_on_by_a_microsecond() -> None:
    assert next_session_id("session_20260301_093000_000042") == "session_20260301_093000_000043"
    assert next_session_id("session_20261231_235959_999999") == "session_20270101_000000_000000"


def test_an_id_may_be_of_a_hash() -> None:
    assert is_session_id("session_20260301_093000_0a1b2c3d")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "src",
        "..",
        "../session_20260301_093000_000042",
        "session_20260301_093000_000042/",
        "session_20260301_093000_000042\n",
        "session_20260301_093000_00004",
        "session_20260301_093000_0000421",
        "session_٢٠٢٦٠٣٠١_093000_000042",
        "SESSION_20260301_093000_000042",
        "session_20260301_093000_0A1B2C3D",
        None,
        b"session_20260301_093000_000042",
        7,
    ],
)
def test_what_is_no_session_id_is_refused(text: object) -> None:
    assert not is_session_id(text)


@pytest.mark.parametrize("text", [V4, "abc-123", "a", "0" * 128, "A_b"])
def test_what_may_name_a_workspace(text: str) -> None:
    assert is_workspace_name(text)


@pytest.mark.parametrize(
    "text", ["", ".", "..", "../x", "a/b", "-a", "_a", ".a", "a b", "a\n", "a\0", "é", "0" * 129, 7]
)
def test_what_may_not_name_a_workspace(text: object) -> None:
    assert not is_workspace_name(text)


def test_uuids_are_told_by_version_and_case() -> None:
    assert is_uuid(V4)
    assert is_uuid(V1)
    assert is_uuid4(V4)
    assert is_uuid4(V4.upper())
    assert not is_uuid4(V1)
    assert not is_uuid(V4.upper())
    assert is_uuid4(new_uuid4())


@pytest.mark.parametrize("text", ["{" + V4 + "}", "urn:uuid:" + V4, V4.replace("-", ""), V4 + "\n"])
def test_other_spellings_of_a_uuid_are_refused(text: str) -> None:
    assert not is_uuid(text)
    assert not is_uuid4(text)


def test_a_shortened_id_is_completed_by_beginning_then_end_then_middle() -> None:
    known = ["abc-1", "xabc", "1-abc-2"]
    assert completions("abc", known) == ["abc-1"]
    assert completions("xabc", known) == ["xabc"]
    assert completions("bc", known) == ["xabc"]
    assert completions("-", known) == ["abc-1", "1-abc-2"]
    assert completions("q", known) == []


def test_every_package_refuses_an_id_with_one_class_of_error() -> None:
    from agentforge_sessions.questions.errors import InvalidSessionId as OfAQuestion
    from agentforge_sessions.sandbox import InvalidSessionId as OfAWorkspace

    for error in (OfAQuestion("../x"), OfAWorkspace("../x")):
        assert isinstance(error, InvalidIdentifier)
        assert error.given == "../x"


def test_a_workspaces_name_is_a_plain_name() -> None:
    assert is_workspace_name(V4)
    assert is_workspace_name("workspace")
    for text in ("", ".", "..", "a/b", "a\n", "-a", "_a", "é", "x" * 129, None, 7):
        assert not is_workspace_name(text)
