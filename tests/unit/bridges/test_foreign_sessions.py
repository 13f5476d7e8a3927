"""Sessions by the ids of another SDK, and what is said where that SDK is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.base.identifiers import is_session_id
from agentforge_sessions.harness import SessionStore
from agentforge_sessions.harness.stream_port import NewEntry
from agentforge_sessions.integrations.bridges.foreign_sessions import (
    ForeignSessions,
    opened_sessions,
)
from agentforge_sessions.integrations.bridges.packed import packed, unpacked

NAMES = ["", "a", "A", "a/b", "../x", "\0", "\ud800", "x" * 10_000]


def test_every_name_has_an_id_of_its_own_that_never_changes(base: Path) -> None:
    one = ForeignSessions(SessionStore(base), "langgraph", words="thread")
    other = ForeignSessions(SessionStore(base), "openai-agents", words="talk")
    ids = {sessions.session_id(name) for sessions in (one, other) for name in NAMES}
    assert len(ids) == 2 * len(NAMES)
    assert all(map(is_session_id, ids))
    # What is stored is found by it: another hash would lose every thread there is.
    assert one.session_id("customer 42") == "session_07839156_682104_5e5990a5"
    assert not base.exists()


def test_names_are_those_of_the_sessions_that_are_there(base: Path) -> None:
    sessions = ForeignSessions(SessionStore(base), "langgraph", words="thread")
    assert list(sessions.names()) == []
    for name in NAMES:
        assert sessions.find(name) is None
        sessions.append(name, [NewEntry(b"", b"")])
    again = ForeignSessions(SessionStore(base), "langgraph", words="thread")
    assert sorted(again.names()) == sorted(NAMES)
    assert again.remove("a")
    assert not again.remove("a")
    assert sorted(sessions.names()) == sorted(set(NAMES) - {"a"})


def test_a_store_is_opened_as_the_command_line_does(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTFORGE_STORE", str(base / "named"))
    assert opened_sessions(None).where == str(base / "named")
    assert opened_sessions(base).where == opened_sessions(str(base)).where == str(base)
    store = SessionStore(base)
    assert opened_sessions(store) is store


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [("langgraph", "langchain_core", "langgraph"), ("openai_agents", "agents", "openai-agents")],
)
def test_a_missing_extra_says_how_to_install_it(module: str, missing: str, extra: str) -> None:
    module = f"agentforge_sessions.integrations.bridges.{module}"
    code = f"import sys; sys.modules[{missing!r}] = None; import {module}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert "ExtraMissing: this bridge needs an SDK, which is not installed here" in done.stderr
    assert f"pip install 'agentforge-sessions[{extra}]'" in done.stderr


def test_what_is_packed_comes_out_again_and_anything_else_is_refused() -> None:
    about, parts = {"a": [1, "ü"]}, [b"", b"x" * 10]
    data = packed(about, parts)
    assert unpacked(data) == (about, parts)
    for spoilt in (b"", data[:-1], data + b"x", data[:6], packed([], [])):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"."):
            unpacked(spoilt)
