"""No hostile id ever becomes a path: it is refused before any file system call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.harness import (
    InvalidSession,
    InvalidSessionId,
    SessionContext,
    SessionManager,
    SessionNotFound,
    SessionStore,
)
from agentforge_sessions.harness.session_domain import validate_session_id
from tests.support.filesystem import ForbiddenFileSystem

SOUND = "session_20260301_093000_000001"

HOSTILE: tuple[object, ...] = (
    *("", ".", "..", "...", "../x", "../../etc", "a/../b", "a/b", "/", "/etc/passwd", "//x", "a/"),
    *("\0", "a\0b", "a\n", "\na", "a\r", "a\tb", " ", " a", "a ", "-rf", "--help", "_x", ".hidden"),
    *(
        ".gitkeep",
        ".discarded-1",
        "session.yaml",
        "a.b",
        "~",
        "~root",
        "$HOME",
        "`id`",
        "a;b",
        "a|b",
    ),
    *(
        "*",
        "a*",
        "?",
        "[a]",
        "{a,b}",
        "a\\b",
        "C:\\x",
        "%2e%2e",
        "é",
        "\uff41",
        "\u0430",
        "\u0661",
        "a\u200b",
        "a\u202eb",
    ),
    *("a\ud800", "\ufeffa", "x" * 129, "x" * 100_000, None, 7, 1.5, True, b"session_1", ("a",)),
    *("session_20260301_093000_00004\u0660", f" {SOUND}", f"{SOUND}\n", f"{SOUND}/", f"./{SOUND}"),
    *(SOUND.replace("1", "\uff11"), SOUND.replace("1", "\u0661")),
    *("session_\u0660", "a\u2028", "a'b", 'a"b', "a:b", "a@b", "a+b", "a=b", "a,b"),
)

NAMES = (
    *("session", "session_1", "session_20260301_093000", "a", "7", "null", "src", "A-b_C-"),
    *("session_20260301_093000_00004", "session_20260301_093000_000042x", "x" * 128),
    *(SOUND[:-1], f"{SOUND}0", f"{SOUND}abcg", f"{SOUND}AB", f"x{SOUND}", SOUND.upper()),
    SOUND.replace("_", "-"),
)
"""Harmless names that no session can have."""

CALLS: dict[str, Callable[[SessionStore, object], object]] = {
    "session_path": lambda store, given: store.session_path(given),  # type: ignore[arg-type]
    "workspace_path": lambda store, given: store.workspace_path(given),  # type: ignore[arg-type]
    "load": lambda store, given: store.load(given),  # type: ignore[arg-type]
    "delete": lambda store, given: store.delete(given),  # type: ignore[arg-type]
    "delete at a revision": lambda store, given: store.delete(given, expected_revision=1),  # type: ignore[arg-type]
    "exists": lambda store, given: store.exists(given),  # type: ignore[arg-type]
    "read_attachment": lambda store, given: store.read_attachment(given, "plan.yaml"),  # type: ignore[arg-type]
    "manager.load": lambda store, given: SessionManager(store).load(given),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", CALLS)
def test_a_hostile_id_is_refused_before_any_file_system_call(call: str) -> None:
    fs = ForbiddenFileSystem()
    store = SessionStore(Path("/nowhere/at/all"), fs=fs)
    for given in HOSTILE:
        with pytest.raises(InvalidSessionId) as caught:
            CALLS[call](store, given)
        assert caught.value.given is given
        assert len(str(caught.value)) < 300
        assert fs.trace == [], ascii(given)


def test_a_name_that_no_session_has_is_not_found_without_a_look() -> None:
    fs = ForbiddenFileSystem()
    store = SessionStore(Path("/nowhere/at/all"), fs=fs)
    for name in NAMES:
        assert SessionManager(store).load(name) is None, name
        assert store.exists(name) is False
        for place in (store.session_path, store.workspace_path):
            with pytest.raises(InvalidSessionId):
                place(name)
        with pytest.raises(SessionNotFound):
            store.delete(name, missing_ok=False)
        assert fs.trace == [], name


def test_no_session_has_another_id() -> None:
    for given in [*HOSTILE, *NAMES]:
        with pytest.raises(InvalidSession, match="session_id"):
            SessionContext(session_id=given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/x", ".hidden", "-x", "a\0", "a\n", "é", "x" * 129]
)
def test_a_hostile_attachment_name_is_refused_before_any_file_system_call(name: str) -> None:
    fs = ForbiddenFileSystem()
    store = SessionStore(Path("/nowhere/at/all"), fs=fs)

    with pytest.raises(ValueError, match="attachment"):
        store.read_attachment(SOUND, name)
    with pytest.raises(ValueError, match="attachment"):
        store.save(SessionContext.create(), attachments={name: b""})

    assert fs.trace == []


@pytest.mark.parametrize(
    "given", ["", ".", "../x", "a/b", "\0", "a\nb", "é", " a", "x" * 129, "a*", "..", "a.b"]
)
def test_a_hostile_part_of_an_id_is_refused_before_the_base_is_looked_at(given: str) -> None:
    fs = ForbiddenFileSystem()

    with pytest.raises(InvalidSessionId) as caught:
        SessionStore("/nowhere/at/all", fs=fs).resolve(given)

    assert f"session_id: {given!r}"[:70] in str(caught.value)
    assert fs.trace == []


@pytest.mark.parametrize("given", [SOUND, "session_20260301_093000_0a1b2c3d"])
def test_a_sound_id_is_one(given: str) -> None:
    assert validate_session_id(given) == given
    assert SessionStore("base").session_path(given) == Path("base") / given / "session.yaml"


def test_the_forbidden_file_system_does_refuse_and_remember() -> None:
    fs = ForbiddenFileSystem()

    with pytest.raises(AssertionError, match="open"):
        SessionStore("/nowhere", fs=fs).load(SOUND)

    assert [call.operation for call in fs.trace] == ["open"]
