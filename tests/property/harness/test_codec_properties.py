"""Whatever a session holds, its file says the same to every reader."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.harness import (
    InvalidSession,
    SessionArtifact,
    SessionContext,
    SessionCorrupted,
    SessionHistory,
    SessionState,
)
from agentforge_sessions.harness.format.session_codec import (
    HEAD_BYTES,
    HEAD_RE,
    SOUND_HEAD_RE,
    SessionEncoder,
    SessionStamp,
    decode_head,
    decode_ours,
    decode_session,
    decode_stamp,
    encode_session,
    make_head,
    session_of,
)
from agentforge_sessions.harness.format.session_document import decode_any
from agentforge_sessions.harness.format.session_values import NotOurs, encode_text
from agentforge_sessions.harness.views.session_head import SessionHead
from tests.support.clock import START
from tests.support.ids import sid
from tests.support.sessions import as_plain, without_digest
from tests.support.soak import examples
from tests.support.strategies import LOOKALIKES, artifacts, entries, hostile_texts, sessions

PATH: Final = Path("/nowhere/session.yaml")


def session_with(*, goal: str | None = None, details: str | None = None) -> SessionContext:
    return SessionContext(
        session_id=sid("s"),
        state=SessionState.ACTIVE,
        created_at=START,
        updated_at=START,
        goal=goal,
        history=[SessionHistory(START, "noted", None, details)] * 2,
    )


def without_remaining(plain: dict[str, Any]) -> dict[str, Any]:
    """Leave out what follows from other fields, and is not read."""
    budget = {name: value for name, value in plain["token_budget"].items() if name != "remaining"}
    return {**plain, "token_budget": budget}


def all_readers_agree_on(session: SessionContext) -> None:
    data = encode_session(session)
    text = data.decode()
    ours, of_artifacts, of_history = decode_ours(data, text)
    assert ours == session
    assert of_artifacts in data
    assert of_history in data
    assert decode_any(text, PATH) == (session, True)
    assert decode_session(data, path=PATH) == session
    assert yaml.safe_load(without_digest(data)) == as_plain(session)
    assert not decode_session(data, path=PATH).unlike_its_digest
    for read in (ours, decode_any(text, PATH)[0]):  # 1, 1.0 and true are equal, and not the same
        assert repr((read.metadata, read.workflow_state)) == repr(
            (session.metadata, session.workflow_state)
        )
    stamp = SessionStamp(session.revision, session.state, session.created_at)
    assert decode_stamp(data[:HEAD_BYTES]) in {stamp, None}
    assert decode_head(data) == SessionHead.of(session)
    assert decode_head(data[:HEAD_BYTES]) in {SessionHead.of(session), None}


@settings(max_examples=examples(300))
@given(sessions())
def test_every_session_comes_back_from_yaml_as_it_was(session: SessionContext) -> None:
    all_readers_agree_on(session)


@pytest.mark.parametrize("text", LOOKALIKES, ids=ascii)
def test_a_text_that_looks_like_something_else_stays_that_text(text: str) -> None:
    all_readers_agree_on(session_with(goal=text, details=text))


@settings(max_examples=examples(400))
@given(hostile_texts, st.sampled_from([2, 6]))
def test_every_text_comes_back_from_yaml_as_it_was(text: str, indent: int) -> None:
    scalar = encode_text(text, indent=indent)
    margin = " " * (indent - 2)
    document = f"a:\n{margin}b: {scalar}\n...\n" if margin else f"b: {scalar}\n...\n"
    read = yaml.load(document, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    assert (read["a"] if margin else read) == {"b": text}
    assert yaml.safe_load(document) == read


@pytest.mark.parametrize(
    "piece", ["a", "a b ", "é", "\n", "a\n", "a\n b\n", '"', "\\", "\x01", "😀"]
)
def test_a_long_text_comes_back_as_it_was(piece: str) -> None:
    length = 5_000
    all_readers_agree_on(session_with(details=(piece * length)[:length]))


grow = st.tuples(st.just("grow"), st.lists(artifacts, max_size=2), st.lists(entries, max_size=3))
cut = st.tuples(st.just("cut"), st.integers(0, 3), st.integers(0, 3))
swap = st.tuples(st.just("swap"), artifacts, entries)


@settings(max_examples=examples(150))
@given(sessions(), st.lists(st.one_of(grow, cut, swap), max_size=8), st.booleans())
def test_an_encoder_that_remembers_writes_the_same_bytes_as_a_fresh_one(
    session: SessionContext, changes: list[tuple[str, object, object]], seeded: bool
) -> None:
    encoder = SessionEncoder()
    if seeded:
        session = decode_session(encode_session(session), path=PATH, encoder=encoder)
    for number, change in enumerate([("grow", [], []), *changes]):
        kind, first, second = change
        if kind == "grow":
            assert isinstance(first, list)
            assert isinstance(second, list)
            session.artifacts.extend(first)
            session.history.extend(second)
        elif kind == "cut":
            assert isinstance(first, int)
            assert isinstance(second, int)
            del session.artifacts[len(session.artifacts) - first :]
            del session.history[max(len(session.history) - second, 1) :]
        else:
            assert isinstance(first, SessionArtifact)
            assert isinstance(second, SessionHistory)
            if session.artifacts:
                session.artifacts[number % len(session.artifacts)] = first
            if session.history:
                session.history[number % len(session.history)] = second
        fresh = b"".join(SessionEncoder().encode(session, revision=number))
        assert b"".join(encoder.encode(session, revision=number)) == fresh
        plain = yaml.load(fresh, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        assert plain.pop("digest").startswith("crc32-")
        assert plain == as_plain(session, revision=number)


TOKENS: Final = (
    *(
        "0",
        "1",
        "9",
        "-",
        "+",
        ".",
        "_",
        "\u0663",
        "\uff11",
        "e",
        "null",
        "~",
        "true",
        "yes",
        "on",
        "''",
        '""',
    ),
    *(
        '"',
        "'",
        "\\",
        "\\n",
        "\\x41",
        "\\u0041",
        "\\ud83d",
        "\\U0010ffff",
        "\\/",
        "\\ ",
        "\\e",
        "\\0",
    ),
    *(
        " ",
        "  ",
        "      ",
        "\t",
        "\n",
        "\n\n",
        "|",
        "|-",
        "|+",
        "|2",
        ">",
        ">-",
        "#",
        " #",
        ":",
        ": ",
    ),
    *("[", "]", "{", "}", ",", "&a ", "*a", "!", "!!str ", "<<", "? ", "- ", "---\n", "...\n", "%"),
    *("é", "\x85", "\xa0", "\u2028", "\ufeff", "\u202e", "😀", "\x01", "\x7f", "\r", "\x00", "Z"),
    *(
        "artifacts: []\n",
        "history: []\n",
        "goal: x\n",
        "    phase: null\n",
        "+00:00",
        "T24:00",
        "+01:00",
    ),
)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Change a file a little, in one of the ways in which files get broken or edited."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        kind = chance.randrange(6)
        at = chance.randrange(len(data) + 1)
        if kind == 0:
            data = data[:at] + chance.choice(TOKENS).encode() + data[at:]
        elif kind == 1:
            data = data[:at] + data[at + chance.choice((1, 1, 2, 8)) :]
        elif kind == 2:
            token = chance.choice(TOKENS).encode()
            data = data[:at] + token + data[at + len(token) :]
        elif kind == 3:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        else:
            lines = data.splitlines(keepends=True) or [b""]
            one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            if kind == 4:
                lines[one], lines[other] = lines[other], lines[one]
            else:
                lines.insert(one, lines[other])
            data = b"".join(lines)
    return data


def quick(data: bytes) -> SessionContext | None:
    try:
        return decode_ours(data, data.decode())[0]
    except (NotOurs, ValueError):
        return None


def readers_do_not_contradict(data: bytes) -> bool:
    """Check a file that may be broken; say whether the quick reader took it."""
    try:
        session = decode_session(data, path=PATH)
    except SessionCorrupted as error:
        session = None
        said = error.faults
    else:
        said = ("nothing",)
    assert said
    head = decode_head(data)
    assert head == judged_head(data)
    if session is not None and head is not None:
        assert head == SessionHead.of(session)
    if session is not None and (stamp := decode_stamp(data[:HEAD_BYTES])) is not None:
        assert stamp == SessionStamp(session.revision, session.state, session.created_at)
    if b"\r" in data or b"\0" in data:
        return False
    ours = quick(data)
    if ours is None:
        return False
    text = data.decode()
    try:
        careful = decode_any(text, PATH)[0]
    except (SessionCorrupted, InvalidSession) as error:
        raise AssertionError(f"only the quick reader takes it: {error}") from error
    assert careful == ours
    plain = yaml.safe_load(text)
    plain.pop("digest", None)
    assert without_remaining(plain) == without_remaining(as_plain(ours))
    return True


@settings(max_examples=examples(120))
@given(sessions(most=2), st.integers(0, 2**32))
def test_readers_never_contradict_each_other_on_a_changed_file(
    session: SessionContext, seed: int
) -> None:
    original = encode_session(session)
    chance = random.Random(seed)
    for _ in range(25):
        readers_do_not_contradict(mutate(original, chance))


def judged_head(data: bytes) -> SessionHead | None:
    """Read a head as `decode_head` does, and have the domain judge every one."""
    match = HEAD_RE().match(data.decode("utf-8", "surrogateescape"))
    try:
        head = None if match is None else make_head(match)
        if head is not None:
            session_of(head)
    except (NotOurs, ValueError):
        return None
    return head


VALUES: Final = {
    "session_id": ("s", "s-1", "1s", "_s", "No", "null", "nulls", "x" * 128, "x" * 129, '"s"'),
    "revision": ("0", "7", "07", "-1", str(10**17), str(2**63 - 1), str(2**63), "1.0"),
    "state": ("active", "paused", "completed", "aborted", "Active"),
    "workflow_type": ("spec", "null", "Off", "offs", "a b-c", "a-", "x" * 200, "x" * 201, '"\\e"'),
    "current_phase": ("review", "NULL", "y", "''", '" "', "é", "x" * 201, "a: b"),
    "attempt_number": ("1", "0", "99", "01", str(10**17), str(2**63)),
    "created_at": ("2026-03-01T09:30:00", "2026-02-30T00:00:00", "9999-12-31T23:59:59"),
    "updated_at": ("2026-03-01T09:30:00", "2026-03-01T09:29:59", "2026-13-01T00:00:00"),
    "completed_at": ("null", "2026-03-01T09:30:00", "2026-03-01T09:29:59", "2026-03-02T24:00:00"),
    "total_budget": ("0", "5", "05", str(2**63 - 1), str(2**63)),
    "tokens_used": ("0", "5", "-5", str(10**18), str(10**19)),
}


@settings(max_examples=examples(300))
@given(st.dictionaries(st.sampled_from(sorted(VALUES)), st.integers(0, 20), max_size=4))
def test_a_head_that_is_judged_cheaply_is_one_that_the_domain_takes(choice: dict[str, int]) -> None:
    lines = encode_session(session_with()).decode().splitlines()
    for name, number in choice.items():
        value = VALUES[name][number % len(VALUES[name])]
        if name.endswith("_at") and value != "null":
            value = f'"{value}.000000+00:00"'
        at = next(at for at, line in enumerate(lines) if line.strip().startswith(f"{name}:"))
        lines[at] = f"{lines[at].split(':')[0]}: {value}"
    data = ("\n".join(lines) + "\n").encode()
    assert decode_head(data) == judged_head(data)


def test_the_heads_that_we_write_are_judged_cheaply() -> None:
    assert SOUND_HEAD_RE().match(encode_session(session_with()).decode()) is not None


def test_the_campaign_of_changed_files_does_reach_the_quick_reader() -> None:
    chance = random.Random(7)
    original = encode_session(session_with(goal="two\nlines", details='quo"ted'))

    taken = sum(readers_do_not_contradict(mutate(original, chance)) for _ in range(3_000))

    assert taken > 50


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("revision: 0", "revision: 1\u0663"),
        ("attempt_number: 1", "attempt_number: 1\uff11"),
        ("total_budget: 100000", "total_budget: 1\u0660\u0660"),
        ('"2026-03-01T', '"\u0662\u0660\u0662\u0666-03-01T'),
    ],
)
def test_only_ascii_digits_are_digits(old: str, new: str) -> None:
    data = encode_session(session_with()).replace(old.encode(), new.encode())

    with pytest.raises(SessionCorrupted, match="expected a"):
        decode_session(data, path=PATH)
    assert decode_head(data) is None
