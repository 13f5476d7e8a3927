"""Any bytes in a program's file: nothing raises, nothing is stored twice, each entry is bounded."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.agents.transcripts.copying import ConversationSource, copy_transcript
from agentforge_sessions.agents.transcripts.entries import MAX_BODY_BYTES
from agentforge_sessions.harness import SessionStore
from tests.support.clock import START
from tests.support.sessions import SessionsInUse
from tests.support.soak import examples
from tests.support.transcripts import transcript

DATA = Path(__file__).parents[1] / "data" / "transcripts"
FILES = {"claude-code": "claude_code", "codex": "codex", "gemini": "gemini"}
RECORDED = {
    program: [json.loads(line) for line in (DATA / f"{name}.jsonl").read_bytes().splitlines()]
    for program, name in FILES.items()
}
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def changed(draw: st.DrawFn, value: Any, depth: int = 0) -> Any:
    """A recorded value with something in it replaced by anything."""
    if depth > 5 or draw(st.integers(0, 6)) == 0:
        return draw(VALUES)
    if isinstance(value, dict) and value:
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: draw(changed(value[name], depth + 1))}
    if isinstance(value, list) and value:
        number = draw(st.integers(0, len(value) - 1))
        return [*value[:number], draw(changed(value[number], depth + 1)), *value[number + 1 :]]
    return draw(VALUES)


@st.composite
def lines(draw: st.DrawFn, program: str) -> bytes:
    recorded = draw(st.sampled_from(RECORDED[program]))
    whole = json.dumps(
        draw(st.just(recorded) | changed(recorded)), ensure_ascii=draw(st.booleans())
    )
    line = whole.encode("utf-8", "surrogatepass")
    return draw(st.sampled_from([line, line[: len(line) // 2], b"\xff" + line, b"[" * 2000]))


@pytest.fixture(scope="module")
def store() -> Iterator[SessionsInUse]:
    with tempfile.TemporaryDirectory() as folder:
        yield SessionsInUse(SessionStore(Path(folder) / "sessions"))


@pytest.mark.parametrize("program", FILES)
@given(data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_any_file_is_copied_without_an_error_and_once(
    program: str, store: SessionsInUse, data: st.DataObject
) -> None:
    pieces = data.draw(st.lists(lines(program), max_size=12))
    session_id = store.begin(budget=1000, goal=None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "talk.jsonl")
        path.touch()
        talk = ConversationSource(program, "talk", [str(path)])
        for piece in pieces:
            with path.open("ab") as file:
                file.write(piece + b"\n")
            copy_transcript(store.store, session_id, talk, how="masked", now=START)
        assert copy_transcript(store.store, session_id, talk, how="masked", now=START) == 0
    found = transcript(store.store, session_id, program, "talk")
    settled = [one.head["id"] for one in found if not one.head.get("open")]
    assert len(settled) == len(set(settled))
    assert all(one.size <= MAX_BODY_BYTES for one in found)
