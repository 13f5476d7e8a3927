"""Sessions that nobody would make, and that must be kept all the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from hypothesis import strategies as st

from agentforge_sessions.harness import (
    SessionArtifact,
    SessionContext,
    SessionHistory,
    SessionState,
    TokenBudget,
)
from agentforge_sessions.harness.domain.session_data import MAX_DIGITS, MAX_KEY_CHARS, MAX_TAG_CHARS
from agentforge_sessions.harness.session_domain import (
    MAX_COUNT,
    MAX_GOAL_CHARS,
    MAX_NAME_CHARS,
    MAX_PATH_CHARS,
)

LOOKALIKES: Final = (
    *("", " ", "  ", "\t", "\n", "\n\n", "\r", "\r\n", "-", "--", "---", "...", "--- a", "\n...\n"),
    *(
        "~",
        "null",
        "Null",
        "NULL",
        "none",
        "y",
        "Y",
        "n",
        "yes",
        "No",
        "ON",
        "off",
        "true",
        "FALSE",
    ),
    *(
        "_",
        "__",
        "_1",
        "0",
        "00",
        "007",
        "0o7",
        "0x1F",
        "0b101",
        "1_000",
        "-1",
        "+1",
        "1e3",
        "1.5e+3",
    ),
    *(".5", "1.", ".inf", "-.Inf", ".NaN", "nan", "inf", "190:20:30", "1:2", "12:30:45.5"),
    *("2026-03-01", "2026-03-01T09:30:00Z", "2026-03-01 09:30:00", "=", "<<", "!!str x", "!x"),
    *(
        "&a b",
        "*a",
        "? a",
        ": a",
        "a: b",
        "a:b",
        "a #b",
        "#a",
        "a#b",
        "[a]",
        "{a: b}",
        "a, b",
        "|",
        ">",
    ),
    *(
        "|-\n a",
        "%YAML 1.1",
        "@a",
        "`a",
        '"',
        "'",
        '"a"',
        "'a'",
        "\\",
        "\\n",
        "\\x41",
        "\\ud800",
        "a\\",
    ),
    *(
        "key: |\n  block",
        "- a\n- b",
        "  indented\nnot",
        "a\n  b\n c",
        "a\n \nb",
        "a\n\t\nb",
        "a\n\n\nb",
    ),
    *(
        "a\n",
        "a\n\n",
        "a\n\n\n",
        "\na",
        " a\nb",
        "\ta\nb",
        "a\n      b",
        "      a\nb",
        "a \nb ",
        "a\tb",
    ),
    *(
        "\x00",
        "\x01",
        "\x1b[31m",
        "\x7f",
        "\x80",
        "\x85",
        "a\x85b",
        "a\x85\nb",
        "\xa0",
        "\xad",
        "\ufeff",
    ),
    *(
        "a\ufeffb\nc",
        "\u2028",
        "a\u2028b\nc",
        "\u2029",
        "\u200b",
        "\u202e",
        "\u2066x\u2069",
        "e\u0301",
    ),
    *(
        "\u0661\u0662",
        "\uff11\uff12",
        "ß",
        "İ",
        "ﬁ",
        "👩‍👩‍👧",
        "🏴\U000e0067",
        "\ufffd",
        "\ufffe",
        "\uffff",
        "\U0010ffff",
    ),
    *(
        "\ud7ff",
        "\ue000",
        "\U0001f600\nb",
        "state: active\nrevision: 7",
        "artifacts: []\nhistory: []\n...\n",
    ),
    *(
        "  - timestamp: x",
        "    details: x",
        "null\n",
        "a- b",
        "a -b",
        "a - b",
        "a  b",
        "a ",
        " a",
        "a-",
        "a/b",
    ),
)

_TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]))
_PIECES: Final = st.lists(
    st.one_of(
        st.sampled_from(LOOKALIKES),
        st.text(st.sampled_from(" \t\n"), max_size=8),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
        st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=6),
    ),
    max_size=8,
).map("".join)
_LONG: Final = st.builds(
    lambda piece, times: piece * times,
    st.one_of(st.sampled_from(LOOKALIKES), _TEXT),
    st.integers(50, 400),
)

hostile_texts: Final = st.one_of(st.sampled_from(LOOKALIKES), _TEXT, _PIECES, _LONG)


def _is_name(text: str) -> bool:
    return bool(text.strip()) and all(
        ord(c) >= 0x20 and not 0x7F <= ord(c) <= 0x9F and c not in "\u2028\u2029" for c in text
    )


names: Final = st.one_of(
    st.sampled_from([text for text in LOOKALIKES if _is_name(text)]),
    st.text(
        st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=30
    ).filter(_is_name),
    st.text(
        st.sampled_from("ab_ -./()+=:#'\"\\0179éΩ漢\U0010fffe\u202e"),
        min_size=1,
        max_size=MAX_NAME_CHARS,
    ).filter(_is_name),
    st.sampled_from(["red", "green", "refactor", "tdflow", "phase_advanced"]),
)
optional_names: Final = st.none() | names

_FORBIDDEN_PARTS: Final = frozenset({".."})


def _is_path(text: str) -> bool:
    return (
        0 < len(text) <= MAX_PATH_CHARS
        and "\0" not in text
        and text[0] != "/"
        and not _FORBIDDEN_PARTS & set(text.split("/"))
    )


paths: Final = hostile_texts.filter(_is_path) | st.sampled_from(["a.py", "src/a b.py", "..a/b.."])
goals: Final = st.none() | hostile_texts.map(lambda text: text[:MAX_GOAL_CHARS])
details: Final = st.none() | hostile_texts
totals: Final = st.integers(1, 1000) | st.integers(1, MAX_COUNT)
counts: Final = st.one_of(st.integers(0, 1000), st.integers(0, MAX_COUNT))
moments: Final = st.datetimes(
    datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)
) | st.datetimes(datetime(2026, 1, 1), datetime(2026, 2, 1), timezones=st.just(UTC))
session_ids: Final = st.from_regex(
    r"session_[0-9]{8}_[0-9]{6}_([0-9]{6}|[0-9a-f]{8})", fullmatch=True
)

artifacts: Final = st.builds(
    SessionArtifact, paths, st.sampled_from(["created", "modified"]), moments, optional_names
)
_keys: Final = st.sampled_from(["call", "usage", "on", "1", "a b", "é"]) | hostile_texts.filter(
    lambda text: len(text) <= MAX_KEY_CHARS
)
_values: Final = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), hostile_texts),
        st.integers(-MAX_COUNT, MAX_COUNT),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=6,
)
data: Final = st.just({}) | st.dictionaries(_keys, _values, max_size=4)
entries: Final = st.builds(SessionHistory, moments, names, optional_names, details, data=data)
_own_values: Final = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), hostile_texts.map(lambda text: text[:80])),
        st.integers() | st.integers(-(10**MAX_DIGITS) + 1, 10**MAX_DIGITS - 1),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=4,
)
own_data: Final = st.just({}) | st.dictionaries(_keys, _own_values, max_size=3)

tags: Final = st.lists(
    st.sampled_from(["nightly", "team/red", "no", "null", "1", "é", "-", "a:b", "#1"])
    | st.text(st.sampled_from("ab_-./()+=:#'\"\\0179éΩ漢"), min_size=1, max_size=MAX_TAG_CHARS),
    max_size=4,
)


@st.composite
def sessions(draw: st.DrawFn, *, most: int = 4) -> SessionContext:
    """Any session that the domain allows."""
    state = draw(st.sampled_from(SessionState))
    first, second = sorted((draw(moments), draw(moments)))
    return SessionContext(
        session_id=draw(session_ids),
        state=state,
        created_at=first,
        updated_at=second,
        token_budget=TokenBudget(draw(totals), draw(counts)),
        workflow_type=draw(optional_names),
        current_phase=draw(optional_names),
        attempt_number=draw(st.integers(1, 5) | st.integers(1, MAX_COUNT)),
        completed_at=(
            max(first, second - timedelta(microseconds=draw(st.integers(0, 10))))
            if state.is_terminal
            else None
        ),
        artifacts=draw(st.lists(artifacts, max_size=most)),
        history=draw(st.lists(entries, min_size=1, max_size=most)),
        goal=draw(goals),
        revision=draw(counts),
        title=draw(optional_names),
        tags=draw(tags),  # type: ignore[arg-type]  # a list is sorted into a tuple when it is set
        metadata=draw(own_data),
        workflow_state=draw(own_data),
        parent_id=draw(st.none() | st.just("session_20200101_000000_000000")),
    )
