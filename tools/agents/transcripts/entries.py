"""The normalised entry of a transcript, and how it is stored in a session's stream; pure.

    head    {"kind": "tool", "at": "2026-11-27T12:38:30.406Z", "turn": 2, "id": "toolu_1", …}
    body    {"name": "Bash", "input": "make test", "result": "…", "exit_code": 2, "is_error": true}

The kinds and what their bodies have:

    user, agent, thought, compaction    text
    tool        name, input (a shell's command, else JSON), result, exit_code, is_error
    edit        path, diff
    plan        items: text and status each; with `id`s, items that change those of earlier plans
    usage       model, input, cache_read, cache_write, output, reasoning

Entries of one id are one: a later one adds what the earlier lacks, as a tool's result.
"""

# Annotations are evaluated here: as strings, each field's would have to be compiled.

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from ...base.text.masking import mask
from ...harness.domain.session_checks import storable
from ...harness.stream_port import NewEntry
from ..programs.meter import count_of, object_of, str_of

MAX_BODY_BYTES: Final = 64 * 1024
_MAX_ID_CHARS: Final = 200
_MAX_ITEMS: Final = 100
_MOST_HEADER_LINES: Final = 6
_CUT: Final = "\n[… {count:,} characters are left out …]\n"
STREAM_PREFIX: Final = "agent-"
_MAX_STREAM_CHARS: Final = 64
COPIED: Final = "copied"
"""In the head of each append's last entry: when it was made, by our clock."""


class TranscriptEntry(NamedTuple):
    """One thing that happened in a conversation.

    Attributes:
        kind: The kind.
        id: Identifies it in the conversation.
        at: When, as the program wrote it; empty if it did not.
        body: The content.
        child: The conversation of a sub-agent that it belongs to; empty for the conversation's own.
    """

    kind: str
    id: str
    at: str
    body: dict[str, Any]
    child: str = ""


class Place(NamedTuple):
    """Where the program's own record of an entry begins: a file and an offset in bytes."""

    file: str
    offset: int


class Stored(NamedTuple):
    """An entry as it is stored: its head, and its body, which is empty for a reference."""

    head: dict[str, Any]
    body: dict[str, Any]


def stream_of(program: str, conversation: str) -> str:
    """Return the name of the stream of a conversation's transcript."""
    name = f"{STREAM_PREFIX}{program}-{conversation}"
    if len(name) <= _MAX_STREAM_CHARS:
        return name
    import hashlib  # no program's ids are that long today

    digest = hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{STREAM_PREFIX}{program}-{digest[:32]}"


def text_entry(kind: str, key: str, at: str, text: str) -> list[TranscriptEntry]:
    """Return an entry of a text; none for an empty text."""
    return [TranscriptEntry(kind, key, at, {"text": text})] if key and text.strip() else []


def tool_call(key: str, at: str, name: str, given: object) -> list[TranscriptEntry]:
    """Return the entry of a tool's call.

    Args:
        key: The call's id.
        at: When.
        name: The tool.
        given: What it was called with; JSON, or a text.
    """
    shown = given if isinstance(given, str) else _command_in(given) or as_text(given)
    return [TranscriptEntry("tool", key, at, {"name": name, "input": shown})] if key else []


def tool_result(
    key: str, at: str, result: str, *, exit_code: object = None, is_error: bool = False
) -> list[TranscriptEntry]:
    """Return the entry of a tool's result, which is one with that of its call."""
    code = exit_code if type(exit_code) is int and abs(exit_code) < 1 << 32 else None
    is_error = is_error or code not in {None, 0}
    body = {"result": result, "exit_code": code, "is_error": is_error}
    return [TranscriptEntry("tool", key, at, body)] if key else []


def plan_entry(key: str, at: str, items: object) -> list[TranscriptEntry]:
    """Return the entry of a plan; none if it is not a list of steps.

    A step is a mapping with `content`, `step`, `description` or `text`, and `status`.
    """
    found = []
    for one in items[:_MAX_ITEMS] if isinstance(items, list) else ():
        if isinstance(one, Mapping):
            names = ("content", "step", "description", "text", "subject")
            text = next((str_of(one.get(name)) for name in names if one.get(name)), "")
            item = {"text": text, "status": str_of(one.get("status")) or "pending"}
            found.append(item | ({"id": str_of(one["id"])} if str_of(one.get("id")) else {}))
    return [TranscriptEntry("plan", key, at, {"items": found})] if key and found else []


def usage_entry(key: str, at: str, model: str, **counts: object) -> list[TranscriptEntry]:
    """Return the entry of a request's usage; none if nothing was used."""
    tokens = {name: count_of(value) for name, value in counts.items()}
    if not key or not any(tokens.values()):
        return []
    return [TranscriptEntry("usage", f"usage-{key}", at, {"model": model, **tokens})]


def added(content: str) -> str:
    """Return the diff of a file that was created."""
    lines = content.splitlines()
    return "\n".join([f"@@ -0,0 +1,{len(lines)} @@", *(f"+{one}" for one in lines)])


def hunks_of(diff: str) -> str:
    """Return a diff without the lines before its first hunk, which only name the file."""
    before, found, hunks = diff.partition("@@")
    return f"@@{hunks}" if found and before.count("\n") < _MOST_HEADER_LINES else diff


def as_text(value: object) -> str:
    """Return a value of a program's file as text: a text itself, the texts of blocks, or JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, Mapping) and "text" in one for one in value):
        return "\n".join(str_of(one["text"]) for one in value)
    try:
        return "" if value is None else json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return ""


def joined(entries: Iterable[TranscriptEntry]) -> list[TranscriptEntry]:
    """Return entries with those of one id made one, in the place of the first.

    What the first says stays; what it lacks is added.
    """
    found: dict[str, TranscriptEntry] = {}
    for one in entries:
        first = found.get(one.id)
        if first is None:
            found[one.id] = one
        elif one.kind == first.kind:
            found[one.id] = first._replace(body=first.body | _lacking(first, one))
    return list(found.values())


def _lacking(first: TranscriptEntry, later: TranscriptEntry) -> dict[str, Any]:
    return {name: one for name, one in later.body.items() if first.body.get(name) is None}


def is_open(entry: TranscriptEntry) -> bool:
    """Return whether a tool's result is not known yet."""
    return entry.kind == "tool" and "result" not in entry.body


def masked(entry: TranscriptEntry, turn: int) -> Stored:
    """Return an entry to be stored with its content, with secrets masked and texts cut."""
    whole = _Texts()
    body = _texts_of(entry.body, whole)
    head = _head(entry, turn)
    if whole.masked:
        head["masked"] = whole.masked
    most = MAX_BODY_BYTES
    shown, cut = body, 0
    while len(_encoded(shown)) > MAX_BODY_BYTES:
        most //= 2
        shown, cut = _cut(body, most)
    if cut:
        head["cut"] = cut
    return Stored(head, shown)


def reference(entry: TranscriptEntry, turn: int, place: Place) -> Stored:
    """Return an entry to be stored without its content: only where the program has it."""
    return Stored({**_head(entry, turn), "file": place.file, "offset": place.offset}, {})


def encoded(stored: Stored) -> NewEntry:
    """Return an entry in the form of a stream."""
    return NewEntry(_encoded(stored.head), _encoded(stored.body) if stored.body else b"")


def head_of(data: bytes) -> dict[str, Any]:
    """Return the head of a stored entry; empty if it is not one."""
    return object_of(data) or {}


def _head(entry: TranscriptEntry, turn: int) -> dict[str, Any]:
    head: dict[str, Any] = {"kind": entry.kind, "at": entry.at, "turn": turn, "id": short(entry.id)}
    if entry.child:
        head["child"] = short(entry.child)
    if is_open(entry):
        head["open"] = True
    return head


def short(key: str) -> str:
    """Return an id in the form in which heads have it."""
    return storable(key[:_MAX_ID_CHARS])


class _Texts:
    """Masks texts, and counts what was masked."""

    def __init__(self) -> None:
        self.masked = 0

    def mask(self, text: str) -> str:
        # What is cut off later may be the end of a secret; so far more is masked than is stored.
        found = mask(_middle_cut(storable(text), 4 * MAX_BODY_BYTES)[0])
        self.masked += found.secrets
        return found.text


def _texts_of(value: Any, texts: _Texts) -> Any:
    if isinstance(value, str):
        return texts.mask(value)
    if isinstance(value, dict):
        return {name: _texts_of(one, texts) for name, one in value.items()}
    if isinstance(value, list):
        return [_texts_of(one, texts) for one in value]
    return value


def _cut(value: Any, most: int) -> tuple[Any, int]:
    """Return a value with its texts cut to a length, and how many characters are left out."""
    if isinstance(value, str):
        return _middle_cut(value, most)
    if isinstance(value, dict):
        pairs = {name: _cut(one, most) for name, one in value.items()}
        return {name: one for name, (one, _) in pairs.items()}, sum(n for _, n in pairs.values())
    if isinstance(value, list):
        found = [_cut(one, most) for one in value]
        return [one for one, _ in found], sum(n for _, n in found)
    return value, 0


def _middle_cut(text: str, most: int) -> tuple[str, int]:
    if len(text) <= most:
        return text, 0
    left_out = len(text) - most
    half = most // 2
    return f"{text[:half]}{_CUT.format(count=left_out)}{text[-half:]}", left_out


def _command_in(given: object) -> str:
    """Return the command of a shell tool's input; empty if it has none."""
    if not isinstance(given, Mapping):
        return ""
    said = given.get("command", given.get("cmd"))
    if isinstance(said, list):
        return " ".join(map(str_of, said))
    return str_of(said)


def _encoded(value: Mapping[str, Any]) -> bytes:
    # Half a character, as in the name of a file, becomes its JSON escape.
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return data.encode("utf-8", "backslashreplace")
