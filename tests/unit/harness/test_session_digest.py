"""A session's file carries a digest of itself: what flipped is noticed, what was edited loads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from zlib import crc32

import pytest
import structlog.testing
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.harness import SessionContext, SessionStore
from agentforge_sessions.harness.disk_errors import SessionCorrupted
from agentforge_sessions.harness.format.session_codec import (
    SessionEncoder,
    decode_session,
    encode_session,
)
from agentforge_sessions.harness.format.session_digest import differs, joined
from tests.support.clock import START
from tests.support.sessions import session_id as an_id
from tests.support.sessions import without_digest
from tests.support.soak import SOAKING

PATH = Path("session.yaml")
S = an_id(1)


def written() -> bytes:
    session = SessionContext.create("tdflow", "red", session_id=S, now=START)
    session.add_history("noted", details="two\nlines", now=START)
    return encode_session(session)


def read(data: bytes) -> SessionContext:
    return decode_session(data, path=PATH)


@pytest.fixture
def path(base: Path) -> Path:
    store = SessionStore(base)
    store.save(SessionContext.create("tdflow", "red", session_id=S, now=START))
    return store.session_path(S)


def edit(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def test_the_digest_is_of_all_that_stands_before_it() -> None:
    content, line, end = re.split(rb"(?m)^(digest: .*\n)", written())
    assert line == f"digest: crc32-{crc32(content):08x}\n".encode()
    assert end == b"...\n"
    assert not read(written()).unlike_its_digest


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_checksums_are_joined_to_that_of_the_whole(first: bytes, second: bytes) -> None:
    assert joined(crc32(first), crc32(second), len(second)) == crc32(first + second)


@pytest.mark.parametrize("size", [0, 1, 255, 65_536, 1_000_003, 31 << 20])
def test_checksums_of_large_texts_are_joined(size: int) -> None:
    second = bytes(size)
    assert joined(crc32(b"first"), crc32(second), size) == crc32(second, crc32(b"first"))


def test_a_history_that_grows_large_and_is_written_anew_has_the_digest_of_its_file() -> None:
    """Saved again and again, entries added, changed and taken away."""
    session = SessionContext.create(session_id=S, now=START)
    encoder = SessionEncoder()
    sizes = []
    for step in range(12):
        for _ in range(150):
            session.add_history("noted", details="x" * 100 + str(step), now=START)
        if step in {5, 9}:
            session.history[3] = session.history[-1]
        if step == 7:
            del session.history[100:]
        session.attempt_number += 1
        data = b"".join(encoder.encode(session, revision=step))
        assert not differs(data)
        assert data == b"".join(SessionEncoder().encode(session, revision=step))
        sizes.append(len(data))
    assert min(sizes) < 1 << 16 < 1 << 17 < max(sizes)


def test_a_flipped_bit_never_loads_unnoticed() -> None:
    data = written()
    whole = read(data)
    taken = 0
    for place in range(len(data)):
        for bit in range(8) if SOAKING else (place % 8,):
            flipped = data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]
            try:
                found = read(flipped)
            except SessionCorrupted:
                continue
            taken += 1
            assert found.unlike_its_digest or found == whole, (place, bit)
    assert taken > (100 if SOAKING else 20)


def test_a_file_without_a_digest_loads_without_a_word() -> None:
    found = read(without_digest(written()))
    assert found == read(written())
    assert not found.unlike_its_digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (rb"digest: crc32-\w+", b"digest: crc32-00000000"),
        (rb"digest: crc32-\w+", b"digest: sha256-00"),
        (rb"digest: crc32-\w+", b"digest: null"),
        (rb"(digest: \S+\n)", rb"\1goal: behind it\n"),
        (rb"goal: null\n", b"goal: by hand\n"),
        (rb"attempt_number: 1", b"attempt_number: 2"),
        (rb"\ntoken_budget:\n", b"\n\ntoken_budget:\n"),
    ],
)
def test_a_file_with_another_digest_loads_and_says_so(old: bytes, new: bytes) -> None:
    data = written()
    if new.endswith(b"it\\n"):
        data = data.replace(b"goal: null\n", b"")
    changed = re.sub(old, new.replace(b"\\n", b"\n") if b"\\1" in new else new, data, count=1)
    assert changed != data
    assert read(changed).unlike_its_digest


def test_what_is_said_in_the_text_is_no_digest() -> None:
    session = SessionContext.create(session_id=S, goal="a\ndigest: crc32-00000000\n...", now=START)
    session.add_history("noted", details="a\ndigest: crc32-00000000\n...\n", now=START)
    data = encode_session(session)
    assert read(data) == session
    assert not differs(data)
    assert not differs(without_digest(data))


@pytest.mark.parametrize("details", ["new digest: ab", "a\n  digest: crc32-00000000", "digest:"])
def test_a_file_without_a_digest_may_end_with_words_about_one(details: str) -> None:
    session = SessionContext.create(session_id=S, now=START)
    session.add_history("noted", details=details, now=START)
    ours = without_digest(encode_session(session))
    document = yaml.safe_load(ours)
    document["history"] = document.pop("history")  # the last field, as here
    for data in (ours, yaml.safe_dump(document, sort_keys=False).encode()):
        assert read(data) == session
        assert not read(data).unlike_its_digest
        assert not differs(data)


def test_a_file_that_was_brought_into_flow_form_with_its_digest_says_so() -> None:
    document = yaml.safe_load(written())
    digest = document.pop("digest")
    for changed in ({"digest": digest, **document}, {**document, "digest": digest}):
        assert read(json.dumps(changed).encode()).unlike_its_digest
    assert not read(json.dumps(document).encode()).unlike_its_digest


def test_a_file_that_was_edited_is_logged_and_has_a_new_digest_after_the_next_save(
    base: Path, path: Path
) -> None:
    edit(path, b"attempt_number: 1\n", b"attempt_number: 2\n")
    store = SessionStore(base)

    with structlog.testing.capture_logs() as logged:
        session = store.load(S)
    assert session is not None
    assert session.attempt_number == 2
    assert session.unlike_its_digest
    [line] = [one for one in logged if one["event"] == "store.digest_differs"]
    assert (line["log_level"], line["path"]) == ("warning", str(path))
    assert "edited by hand, or was damaged" in line["notice"]

    session.add_history("goes on", now=START)
    store.save(session)
    assert not session.unlike_its_digest
    with structlog.testing.capture_logs() as logged:
        again = SessionStore(base).load(S)
    assert again == session
    assert logged == []


def test_a_listing_reads_heads_and_says_nothing(base: Path, path: Path) -> None:
    edit(path, b"goal: null", b"goal: other")
    with structlog.testing.capture_logs() as logged:
        [one] = SessionStore(base).summaries()
    assert one.session_id == S
    assert logged == []
