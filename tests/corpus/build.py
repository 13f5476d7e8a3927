"""Broken and hostile session files, made by name, always the same.

`CASES` holds them all. Each one says what a reader must answer: the kind of error, a piece of its
text, and what a listing shows for it. `python -m tests.corpus.build DIRECTORY` writes them out to
look at (only the small ones, and no device nodes).
"""

from __future__ import annotations

import os
import re
import socket
import stat
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from attrs import frozen

from agentforge_sessions.harness import (
    SessionArtifact,
    SessionContext,
    SessionHistory,
    SessionState,
    TokenBudget,
)
from agentforge_sessions.harness.format.session_codec import encode_session
from tests.support.clock import START

SESSION_ID: Final = "session_20260301_093000_0badf11e"
LARGE: Final = 31 * 1024 * 1024
"""Just under the largest file that is read."""

Kind = Literal["corrupted", "schema", "read"]
Listed = Literal["unreadable", "summary", "absent"]


@frozen
class Case:
    """One file (or what stands in its place).

    Attributes:
        name: Its name.
        make: Puts it at the given path, whose directory is there.
        kind: The error that reading it gives.
        says: A regular expression that the error's text must match.
        listed: What a listing shows: "unreadable"; "summary" where the head is in order and the
            fault is in what a listing does not read; "absent" where it is not taken for a session.
        large: Whether it takes a process of its own to see what reading it costs.
    """

    name: str
    make: Callable[[Path], object]
    kind: Kind
    says: str
    listed: Listed = "unreadable"
    large: bool = False


def _session() -> SessionContext:
    later = START + timedelta(minutes=5)
    return SessionContext(
        session_id=SESSION_ID,
        state=SessionState.ACTIVE,
        created_at=START,
        updated_at=later,
        token_budget=TokenBudget(10_000, 1_234),
        workflow_type="tdflow",
        current_phase="red",
        attempt_number=2,
        goal="Line one.\nLine two.",
        artifacts=[
            SessionArtifact("tests/test_it.py", "created", START, "red"),
            SessionArtifact("src/it.py", "modified", later, "red"),
        ],
        history=[
            SessionHistory(START, "session_created", "red", None),
            SessionHistory(later, "phase_failed", "red", "attempt 1; exit code 1\nstderr:\nboom"),
        ],
        revision=3,
    )


VALID: Final = encode_session(_session()).decode()
HEAD: Final = VALID[: VALID.index("artifacts:")]
UP_TO_GOAL: Final = HEAD[: HEAD.index("goal:")].encode()
CASES: Final[list[Case]] = []


def _write(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def _add(
    name: str,
    content: str | bytes | Callable[[Path], object],
    says: str,
    *,
    kind: Kind = "corrupted",
    listed: Listed = "unreadable",
    large: bool = False,
) -> None:
    if isinstance(content, str):
        content = content.encode()
    if isinstance(content, bytes):
        in_order = content.startswith(UP_TO_GOAL) and content.endswith(b"...\n")
        listed = "summary" if in_order else listed
    make = _write(content) if isinstance(content, bytes) else content
    CASES.append(Case(name, make, kind, says, listed, large))


def _swap(old: str, new: str, *, count: int = 1) -> str:
    assert old in VALID, old
    return VALID.replace(old, new, count)


def _line(field: str, value: str) -> str:
    """Put another value on the line of a field of the head."""
    changed, count = re.subn(rf"(?m)^( *{field}):.*$", lambda m: f"{m[1]}: {value}", VALID, count=1)
    assert count == 1, field
    return changed


def _large(name: str, text: Callable[[], str | bytes], says: str, **more: Kind | Listed) -> None:
    def make(path: Path) -> None:
        content = text()
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    CASES.append(
        Case(
            name,
            make,
            more.get("kind", "corrupted"),  # type: ignore[arg-type]
            says,
            more.get("listed", "unreadable"),  # type: ignore[arg-type]
            large=True,
        )
    )


def _fill(piece: str, size: int = LARGE) -> str:
    return piece * (size // len(piece.encode()))


# --------------------------------------------------------------------------- cut off, not text

for percent in range(10, 100, 10):
    _add(
        f"cut off at {percent} percent",
        VALID.encode()[: len(VALID.encode()) * percent // 100],
        "cut off",
    )
_lines = VALID.splitlines(keepends=True)
for _number in range(1, len(_lines), 4):
    _add(f"cut off after line {_number}", "".join(_lines[:_number]), "cut off")
_add("cut off before the end mark's dots", VALID.removesuffix("...\n") + "..", "cut off")
_add("empty", b"", "empty")
_add("one newline", "\n", "it is empty")
_add("only the end mark", "...\n", "cut off|not YAML")
_add("only a comment and the end mark", "# nothing\n...\n", "not YAML")
_add("binary", bytes(range(256)) * 8, "NUL")
_add("a NUL at the end", VALID + "\0", "NUL byte at")
_add("zeros as after a power failure", b"\0" * len(VALID), "NUL byte at 0")
_add("invalid UTF-8", VALID.encode().replace(b"Line two", b"Line \xff\xfe"), "line 1[0-9]: byte")
_add("half a character", VALID.encode().replace(b"Line two", b"Line \xc3"), "not UTF-8")
_add("overlong UTF-8", VALID.encode().replace(b"Line two", b"Line \xc0\xaf"), "not UTF-8")
_add("a surrogate in UTF-8", VALID.encode().replace(b"Line two", b"\xed\xa0\x80"), "not UTF-8")
_add("Latin-1", VALID.replace("Line two", "Zeile zwölf").encode("latin-1"), "not UTF-8")
_add("a BOM of UTF-8", b"\xef\xbb\xbf" + VALID.encode(), "byte order mark")
_add("a BOM of UTF-16", VALID.encode("utf-16"), "byte order mark")
_add("a BOM of UTF-16 big-endian", b"\xfe\xff" + VALID.encode("utf-16-be"), "byte order mark")
_add("a BOM of UTF-32", VALID.encode("utf-32"), "byte order mark")
_add("Windows line endings", VALID.replace("\n", "\r\n"), "line 1: .*Windows line endings")
_add("a lone CR", _swap("Line two", "Line\rtwo"), "line 1[0-9]: .*CR")
_add("a control character", _swap("boom", "bo\x07om"), "not YAML")

# --------------------------------------------------------------------------- not plain YAML

_add("not YAML", "state: [active\n...\n", "line [0-9]+: it is not YAML")
_add("a tab as indentation", _swap("  tokens_used", "\ttokens_used"), "not YAML")
_add("an unclosed quote", _line("workflow_type", '"tdflow'), "not YAML")
_add(
    "billion laughs",
    "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "...\n",
    "an anchor|an alias",
)
_add("an anchor", _line("workflow_type", "&w tdflow"), "an anchor|an alias")
_add("an alias", _line("workflow_type", "*w"), "an anchor|an alias")
_add(
    "an anchor and its alias",
    _line("workflow_type", "&w x").replace("goal: |-", "goal: *w\nx: |-"),
    "anchor",
)
_add("a merge key", _swap("goal: |-", "<<: {state: paused}\ngoal: |-"), "<<")
_add(
    "a merge of an alias",
    _swap("token_budget:\n", "token_budget:\n  <<: *other\n"),
    "an anchor|an alias",
)
_add(
    "a tag that makes a Python object",
    _line("workflow_type", "!!python/object/apply:os.system ['true']"),
    "tag",
)
_add("a tag that names a Python module", _line("workflow_type", "!!python/module:os"), "tag")
_add("a binary tag", _line("workflow_type", "!!binary dGRmbG93"), "tag")
_add("a time tag", _line("created_at", "!!timestamp 2026-03-01T09:30:00Z"), "tag")
_add("a tag of its own", _line("workflow_type", "!secret tdflow"), "tag")
_add("a string tag", _line("workflow_type", "!!str tdflow"), "tag")
_add("a set", "!!set {a, b}\n...\n", "tag")
_add("a document of a list", "- a\n- b\n...\n", "expected the keys of a session")
_add(
    "a document of a text",
    "just text\n...\n",
    "expected the keys of a session, found just text",
)
_add("a document of nothing", "---\n...\n", "expected the keys of a session")
_add("two documents", VALID.removesuffix("...\n") + "---\n" + VALID, "second document")
_add("two documents with end marks", VALID + VALID, "second document|not YAML")
_add("another YAML version", "%YAML 3.0\n---\n" + VALID, "not YAML")
_add("a key that is a list", _swap("goal: |-", "? [a, b]\n: c\ngoal: |-"), "a key that is no text")
_add("a JSON session with a fault", '{"state": "active"}\n...\n', "session_id: is missing")
_add("10,000 deep flow", "a: " + "[" * 10_000 + "]" * 10_000 + "\n...\n", "nested deeper|not YAML")
_add(
    "10,000 deep maps", "a: " + "{a: " * 10_000 + "}" * 10_000 + "\n...\n", "nested deeper|not YAML"
)
_add(
    "10,000 deep block", "".join(" " * n + "a:\n" for n in range(1_000)) + "...\n", "nested deeper"
)
_add("10,000 dashes deep", "a:\n" + "- " * 10_000 + "x\n...\n", "nested deeper")
_add("10,000 questions deep", "? " * 10_000 + "x\n...\n", "a key that is no text|nested deeper")

# --------------------------------------------------------------------------- fields

_TWICE = ("state", "  tokens_used", "session_id", "goal")
for _field in _TWICE:
    _found = re.search(rf"(?m)^{_field}:.*\n(?:  L.*\n)*", VALID)
    assert _found is not None
    _add(f"twice the field {_field.strip()}", _swap(_found[0], _found[0] * 2), "stands twice")
_add(
    "twice the field path",
    _swap("  - path: tests/test_it.py\n", "  - path: a\n    path: b\n"),
    "stands twice",
    listed="summary",
)
_add(
    "twice the field action",
    _swap("    action: session_created\n", "    action: a\n    action: b\n"),
    "stands twice",
    listed="summary",
)
_add(
    "twice the history",
    _swap("history:\n", "history: []\nhistory:\n"),
    "stands twice",
    listed="summary",
)

for _field in (
    "session_id",
    "state",
    "created_at",
    "updated_at",
    "total_budget",
    "tokens_used",
):
    _add(
        f"without {_field}",
        re.sub(rf"(?m)^ *{_field}:.*\n", "", VALID, count=1),
        f"{_field}: is missing",
    )
_add(
    "without token_budget",
    re.sub(r"token_budget:\n(  .*\n)+", "", VALID, count=1),
    "token_budget: is missing",
)
_add(
    "without history",
    re.sub(r"history:\n(  .*\n)+", "", VALID, count=1),
    "history: is missing",
    listed="summary",
)
for _field, _line_text in (
    ("path", "  - path: tests/test_it.py\n    artifact_type"),
    ("artifact_type", "    artifact_type: created\n"),
    ("timestamp", "    action: session_created\n"),
):
    _new = "  - artifact_type" if _field == "path" else ""
    _missing = {"timestamp": "action"}.get(_field, _field)
    _add(
        f"an entry without {_missing}",
        _swap(_line_text, _new),
        rf"\[0\]\.{_missing}: is missing",
        listed="summary",
    )

_add("schema_version as a word", _line("schema_version", "one"), "schema_version: expected")
_add("a newer schema", _line("schema_version", "2"), "2 is newer than 1", kind="schema")
_add("a far newer schema", _line("schema_version", "9" * 40), "newer than 1", kind="schema")
_add(
    "a newer schema of another shape",
    "schema_version: 7\nlife: {state: [a]}\n...\n",
    "7 is newer",
    kind="schema",
)
_add("an older schema", _line("schema_version", "0"), "schema_version: expected 1")
_add("a negative schema", _line("schema_version", "-1"), "schema_version: expected 1")

_add("a state that is none", _line("state", "asleep"), "state: expected one of active, paused")
_add("a state in capitals", _line("state", "ACTIVE"), "state: expected one of")
_add("a state that is a list", _line("state", "[active]"), "state: expected one of")
_add(
    "an id that is another's",
    _line("session_id", "session_20260301_093000_000000"),
    "its directory is",
)
_add(
    "an id that leads out",
    _line("session_id", '"../../etc"'),
    "session_id: '../../etc' is not a session's id",
)
_add("an id with a line break", _line("session_id", '"a\\nb"'), "is not a session's id")
_add("an id that is null", _line("session_id", "null"), "session_id: is empty")
_add("an id that is a number", _line("session_id", "7"), "session_id: expected text, found 7")
_add("an id that is empty", _line("session_id", '""'), "session_id: '' is not a session's id")
_add(
    "a name that is yes",
    _line("workflow_type", "yes"),
    "workflow_type: expected text, found yes; put it in quotes",
)
_add("a name that is a number", _line("current_phase", "1.5"), "current_phase: expected text")
_add("a name that is a date", _line("current_phase", "2026-03-01"), "current_phase: expected text")
_add("a name that is empty", _line("current_phase", '""'), "current_phase: is empty")
_add(
    "a name of two lines", _line("current_phase", '"a\\nb"'), "current_phase: .* control character"
)
_add(
    "a name of 201 characters",
    _line("current_phase", "x" * 201),
    "current_phase: has 201 characters",
)
_add(
    "a name that is a map",
    _line("workflow_type", "{a: b}"),
    "workflow_type: expected text, found keys and values",
)
for _value, _name in (
    ("-1", "negative"),
    ("1.5", "a float"),
    (".nan", "NaN"),
    (".inf", "infinite"),
    ("1e3", "in exponents"),
    ("0x1F", "hexadecimal"),
    ("017", "octal"),
    ("0b11", "binary digits"),
    ("1_000", "with underscores"),
    ("12:30:45", "sexagesimal"),
    ("true", "a boolean"),
    ("null", "null"),
    ('"7"', "in quotes"),
    ("[]", "a list"),
    ("9223372036854775808", "2 to the 63"),
    ("9" * 19, "of 19 digits"),
    ("9" * 5_000, "of 5,000 digits"),
    ("\uff11\uff12", "in wide digits"),
    ("\u0663", "in Arabic digits"),
):
    for _field in ("revision", "tokens_used"):
        _add(f"{_field} {_name}", _line(_field, _value), f"{_field}: ")
_add("attempt_number 0", _line("attempt_number", "0"), "attempt_number: 0 is less than 1")
_add(
    "token_budget null",
    re.sub(r"token_budget:\n(  .*\n)+", "token_budget: null\n", VALID),
    "token_budget: is empty",
)
_add(
    "token_budget a list",
    re.sub(r"token_budget:\n(  .*\n)+", "token_budget: [1, 2]\n", VALID),
    "token_budget: expected keys and values",
)

for _value, _name in (
    ("2026-13-01T00:00:00+00:00", "of month 13"),
    ('"yesterday"', "in words"),
    ('"2026-03-01T25:00:00.000000+00:00"', "of hour 25"),
    ('"0000-01-01T00:00:00.000000+00:00"', "of year 0"),
    ('"2026-02-30T00:00:00.000000+00:00"', "of February 30"),
    ("null", "null"),
    ("1772357400", "as a number"),
    ('"0001-01-01T00:00:00.000000+14:00"', "before year 1 in UTC"),
    ('""', "empty"),
    ("{}", "that is a map"),
):
    _add(f"created_at {_name}", _line("created_at", _value), "created_at: ")
_add(
    "updated before created",
    _line("updated_at", '"2020-01-01T00:00:00.000000+00:00"'),
    "updated_at: is before created_at",
)
_add("completed without a time", _line("state", "completed"), "completed_at: is missing")
_add("aborted without a time", _line("state", "aborted"), "completed_at: is missing")
_ENDED_AT = '"2026-03-01T09:35:00.000000+00:00"'
_add("active with an end", _line("completed_at", _ENDED_AT), "completed_at: is set")
_add(
    "completed before created",
    _line("state", "completed").replace(
        "completed_at: null", 'completed_at: "2020-01-01T00:00:00.000000+00:00"'
    ),
    "completed_at: is before created_at",
)

_add(
    "an unknown field",
    _swap("goal: |-", "mood: good\ngoal: |-"),
    "mood: is not a field of a session",
)
_add(
    "an unknown field of the budget",
    _swap("  tokens_used", "  tokens_lost: 1\n  tokens_used"),
    "token_budget.tokens_lost: is not a field",
)
_add(
    "an unknown field of an artifact",
    _swap("    artifact_type: created\n", "    artifact_type: created\n    size: 1\n"),
    r"artifacts\[0\]\.size: is not a field",
    listed="summary",
)
_add(
    "an unknown field of an entry",
    _swap("    action: session_created\n", "    action: a\n    mood: good\n"),
    r"history\[0\]\.mood: is not a field",
    listed="summary",
)
_add("an empty field name", _swap("goal: |-", '"": x\ngoal: |-'), "is not a field")
_add(
    "an unknown artifact type",
    _swap("artifact_type: created", "artifact_type: deleted"),
    "artifact_type: expected one of created, modified",
    listed="summary",
)
for _value, _name in (
    ("../../etc/passwd", "that climbs"),
    ("src/../../x", "that climbs later"),
    ('"/etc/passwd"', "that is absolute"),
    ('""', "that is empty"),
    ("null", "that is null"),
    ("5", "that is a number"),
    ('"a\\0b"', "with a NUL"),
    (f'"{"x" * 4097}"', "of 4,097 characters"),
):
    _add(
        f"an artifact path {_name}",
        _swap("path: tests/test_it.py", f"path: {_value}"),
        r"artifacts\[0\]\.path: ",
        listed="summary",
    )
_add(
    "artifacts that are a map",
    re.sub(r"artifacts:\n(  .*\n)+", "artifacts: {}\n", VALID),
    "artifacts: expected a list",
    listed="summary",
)
_add(
    "artifacts that are null",
    re.sub(r"artifacts:\n(  .*\n)+", "artifacts:\n", VALID),
    "artifacts: is empty",
    listed="summary",
)
_add(
    "history that is a text",
    re.sub(r"history:\n(  .*\n)+", "history: none\n", VALID),
    "history: expected a list",
    listed="summary",
)
_add(
    "history of texts",
    re.sub(r"history:\n(  .*\n)+", "history: [a, b]\n", VALID),
    r"history\[0\]: expected keys and values",
    listed="summary",
)
_add(
    "history of lists",
    re.sub(r"history:\n(  .*\n)+", "history: [[a], [b]]\n", VALID),
    r"history\[0\]: expected keys and values",
    listed="summary",
)
_add(
    "an entry of another type",
    _swap("    action: session_created\n", "    action: [session_created]\n"),
    r"history\[0\]\.action: expected text",
    listed="summary",
)
_add(
    "an action that is null",
    _swap("    action: session_created\n", "    action: null\n"),
    r"history\[0\]\.action",
    listed="summary",
)
_add(
    "details that are a number",
    _swap("    details: null\n", "    details: 12\n"),
    r"history\[0\]\.details: expected text",
    listed="summary",
)
_add(
    "a goal of 4,001 characters",
    re.sub(r"goal: \|-\n(  .*\n)+", f"goal: {'x' * 4001}\n", VALID),
    "goal: has 4,001 characters",
    listed="summary",
)
_add("a lone surrogate escape", _line("workflow_type", '"\\ud800"'), "not YAML|surrogate")
_add(
    "a pair of surrogate escapes", _line("workflow_type", '"\\ud83d\\ude00"'), "not YAML|surrogate"
)
_add(
    "a lone surrogate escape in an entry",
    _swap("    details: null\n", '    details: "\\udfff"\n'),
    "not YAML|surrogate",
    listed="summary",
)
_add("an escape beyond Unicode", _line("workflow_type", '"\\U00110000"'), "not YAML")
_add("an unknown escape", _line("workflow_type", '"\\q"'), "not YAML")
_add(
    "every field wrong",
    "".join(f"{name}: [[]]\n" for name in re.findall(r"(?m)^\w+(?=:)", VALID)) + "...\n",
    "session_id: expected text.* and [0-9]+ more",
)
_add(
    "a merge conflict",
    _swap(
        "state: active\n", "<<<<<<< ours\nstate: active\n=======\nstate: paused\n>>>>>>> theirs\n"
    ),
    "not YAML",
)
_add(
    "another program's file",
    "version: 3\nservices:\n  web: {image: nginx}\n...\n",
    "version: is not a field|is missing",
)

# --------------------------------------------------------------------------- no regular file


def _link(path: Path) -> None:
    target = path.parent.parent / "elsewhere.yaml"
    target.write_text(VALID)
    path.symlink_to(target)


def _linked_directory(path: Path) -> None:
    real = path.parent.parent / ".elsewhere"
    path.parent.rename(real)
    (real / path.name).write_text(VALID)
    path.parent.symlink_to(real)


def _socket(path: Path) -> None:
    # A socket's path is short, or there is no socket.
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(path.parent)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


_add("a symbolic link", _link, "symbolic link", kind="read")
_add("a dangling link", lambda path: path.symlink_to("nowhere"), "symbolic link", kind="read")
_add("a link to itself", lambda path: path.symlink_to(path.name), "symbolic link", kind="read")
_add("a directory", lambda path: path.mkdir(), "not a regular file", kind="read")
_add("a FIFO", os.mkfifo, "not a regular file", kind="read")
_add("a socket", _socket, "could not read", kind="read")
_add(
    "an endless device",
    lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5)),
    "not a regular file",
    kind="read",
)
_add("a linked directory", _linked_directory, "symbolic link", kind="read")


# --------------------------------------------------------------------------- large


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


_HISTORY = VALID[: VALID.index("  - timestamp: ", VALID.index("history:"))]
_GOAL = HEAD[: HEAD.index("goal:")]
_REST = VALID[VALID.index("artifacts:") :]

_large(
    "a text of 50 MB",
    lambda: VALID.replace("boom", "x" * 50_000_000),
    "more than the limit",
    kind="read",
)
_large(
    "50 MB of tiny entries",
    lambda: _HISTORY + _fill("- {}\n", 50_000_000) + "...\n",
    "more than the limit",
    kind="read",
)
CASES.append(
    Case("a sparse file of a terabyte", _sparse, "read", "more than the limit", large=True)
)
for _style, _open, _piece, _close in (
    ("plain", "", "x", ""),
    ("plain words", "", "x ", "x"),
    ("plain lines", "", "x\n  ", "x"),
    ("quoted", '"', "x: ", '"'),
    ("quoted escapes", '"', "\\n", '"'),
    ("quoted long escapes", '"', "\\U0001f600", '"'),
    ("quoted folds", '"', "x\n\n  ", '"'),
    ("single-quoted", "'", "x: ", "'"),
    ("literal", "|-\n  ", "x", ""),
    ("literal lines", "|-\n  ", "x\n  ", "x"),
    ("folded", ">-\n  ", "x\n  ", "x"),
    ("astral", '"', "😀", '"'),
    ("sexagesimal", "1", ":1", ""),
    ("digits", "", "7", ""),
    ("zeros", "", "0", "x"),
    ("dots", "", ".", ""),
):
    _large(
        f"a goal of 31 MB, {_style}",
        lambda o=_open, p=_piece, c=_close: (
            f"{_GOAL}goal: {o}{_fill(p, LARGE - 9_000)}{c}\n{_REST}"
        ),  # type: ignore[misc]
        "goal: |not YAML",
        listed="summary",
    )
_large("a number of 31 MB", lambda: _line("revision", _fill("7")), "revision: ")
_large("a time of 31 MB", lambda: _line("created_at", _fill("7")), "created_at: ")
_large("a state of 31 MB", lambda: _line("state", _fill("x")), "state: expected one of")
_large(
    "a a key that is no text of 31 MB",
    lambda: _HISTORY + _fill("x") + ": y\n...\n",
    "not YAML|is not a field",
    listed="summary",
)
_large(
    "an explicit a key that is no text of 31 MB",
    lambda: HEAD + "? " + _fill("x") + "\n: y\n...\n",
    "is not a field|is missing",
    listed="summary",
)
_large(
    "a comment of 31 MB",
    lambda: VALID.removesuffix("...\n") + "x: #" + _fill("x") + "\n...\n",
    "x: is not a field",
    listed="summary",
)
_large(
    "31 MB of comments",
    lambda: VALID.removesuffix("...\n") + _fill("#\n") + "x: y\n...\n",
    "x: is not a field",
    listed="summary",
)
_large(
    "31 MB of blank lines",
    lambda: VALID.removesuffix("...\n") + _fill("\n") + "x: y\n...\n",
    "more than 1,048,575 blank lines in a row",
    listed="summary",
)
_large(
    "31 MB of spaces",
    lambda: VALID.removesuffix("...\n") + "x: " + _fill(" ") + "y\n...\n",
    "x: is not a field",
    listed="summary",
)
_large("31 MB of end marks", lambda: _fill("...\n"), "document|not YAML")
_large("31 MB of documents", lambda: _fill("---\n") + "...\n", "second document")
_large("31 MB of dashes", lambda: "a:\n" + _fill("- ") + "\n...\n", "nested deeper")
_large("31 MB of brackets", lambda: "a: " + _fill("[") + "\n...\n", "nested deeper|not YAML")
_large("31 MB of braces", lambda: "a: " + _fill("{") + "\n...\n", "nested deeper|not YAML")
_large(
    "31 MB of brackets on lines of their own",
    lambda: "a: " + _fill("[\n") + "\n...\n",
    "nested deeper|not YAML",
)
_large("a list of 31 MB", lambda: _fill("- a\n") + "...\n", "expected the keys|more")
for _field in ("history", "artifacts", "state", "mood"):
    _start = {"history": _HISTORY, "artifacts": HEAD + "artifacts:\n"}.get(_field, f"{_field}:\n")
    for _kind, _piece in (
        ("empty maps", "  - {}\n"),
        ("texts", "  - a\n"),
        ("nothings", "  -\n"),
        ("empty lists", "  - []\n"),
        ("maps of one field", "  - a: b\n"),
        ("bad times", "  - timestamp: x\n    action: x\n    phase: x\n    details: x\n"),
        ("good starts", "  - {timestamp: x, phase: x}\n"),
    ):
        _large(
            f"31 MB of {_kind} as {_field}",
            lambda s=_start, p=_piece: s + _fill(p, LARGE - 9_000) + "...\n",  # type: ignore[misc]
            "expected keys and values|missing|not a field|expected one of|timestamp|more",
            listed="summary" if _field in {"history", "artifacts"} else "unreadable",
        )
    _large(
        f"31 MB of texts in brackets as {_field}",
        lambda f=_field: f"{f}: [" + _fill("a,") + "]\n...\n",  # type: ignore[misc]
        "expected|not a field|more",
    )
_large(
    "31 MB of texts in an entry's details",
    lambda: (
        _HISTORY
        + '  - timestamp: "2026-03-01T09:30:00.000000+00:00"\n    details: ['
        + _fill("a,", LARGE - 9_000)
        + "]\n...\n"
    ),
    "expected|nested|more",
    listed="summary",
)
_large(
    "31 MB of fields in an entry",
    lambda: _HISTORY + "  - {" + "".join(f"a{n}: b," for n in range(2_500_000)) + "}\n...\n",
    "more than 1,000|not a field",
    listed="summary",
)
_large(
    "1,000,000 fields",
    lambda: "".join(f"field_{n}: x\n" for n in range(1_000_000)) + "...\n",
    "more than 1,000|not a field|missing",
)
_large(
    "1,000,000 fields after a good session",
    lambda: (
        VALID.removesuffix("...\n") + "".join(f"field_{n}: x\n" for n in range(1_000_000)) + "...\n"
    ),
    "more than 1,000|not a field",
    listed="summary",
)
_large(
    "1,000,000 fields of the budget",
    lambda: (
        HEAD.replace(
            "token_budget:\n", "token_budget:\n" + "".join(f"  f{n}: x\n" for n in range(1_000_000))
        )
        + "...\n"
    ),
    "more than 1,000|not a field",
)
_large(
    "1,000,000 fields in braces",
    lambda: "{" + "".join(f"field_{n}: x," for n in range(1_000_000)) + "}\n...\n",
    "more than 1,000|not a field|missing",
)
_large(
    "1,000,000 anchors",
    lambda: "a:\n" + "".join(f"- &a{n} x\n" for n in range(1_000_000)) + "...\n",
    "anchor",
)
_large("31 MB that are binary", lambda: bytes(range(256)) * (LARGE // 256), "NUL")
_large(
    "31 MB cut off", lambda: VALID.replace("boom", _fill("boom")).removesuffix("...\n"), "cut off"
)
_large(
    "31 MB of invalid UTF-8",
    lambda: VALID.encode() + b"\xff" * LARGE + b"\n...\n",
    "not UTF-8",
    listed="summary",
)
_large("31 MB with CR", lambda: _fill("a\r\n") + "...\n", "CR")


def main() -> None:
    """Write the small cases below the directory that is named on the command line."""
    top = Path(sys.argv[1])
    for case in CASES:
        if not case.large and "device" not in case.name:
            directory = top / re.sub(r"[^a-zA-Z0-9]+", "_", case.name) / SESSION_ID
            directory.mkdir(parents=True)
            case.make(directory / "session.yaml")


if __name__ == "__main__":
    main()
