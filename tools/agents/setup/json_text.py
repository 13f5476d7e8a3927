"""Add members to a person's JSON and remove them, leaving every other byte unchanged; pure.

The text may have comments, as several programs' settings do. Members are added at the beginning of
their object or list, so that no other line changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

_SPACE: Final = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR: Final = re.compile(r"true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_MAX_DEPTH: Final = 100


class NotJson(ValueError):
    """The text is not JSON, or does not have the shape that the members need."""


class JsonSpan(NamedTuple):
    """The place of a value in a text.

    Attributes:
        kind: "{", "[" or another value's first character.
        start: Where it begins.
        end: Where it ends.
        items: Its members: each the key (empty in a list), where that begins, and the value.
    """

    kind: str
    start: int
    end: int
    items: tuple[tuple[str, int, JsonSpan], ...] = ()


def parse(text: str) -> JsonSpan:
    """Return the place of each value in a text.

    Raises:
        NotJson: The text is not JSON with comments.
    """
    node = _value(text, _skip(text, 0), 0)
    if _skip(text, node.end) != len(text):
        raise NotJson("there is more after its end")
    return node


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _value(text: str, at: int, depth: int) -> JsonSpan:
    first = text[at : at + 1]
    if depth > _MAX_DEPTH:
        raise NotJson("it is nested too deeply")
    if first in {"{", "["}:
        return _container(text, at, depth)
    found = (_STRING if first == '"' else _SCALAR).match(text, at)
    if found is None:
        raise NotJson(f"no value at character {at}")
    return JsonSpan(first, at, found.end())


def _container(text: str, start: int, depth: int) -> JsonSpan:
    kind = text[start]
    close = "}" if kind == "{" else "]"
    items: list[tuple[str, int, JsonSpan]] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != close:
        key, begin = "", at
        if kind == "{":
            name = _STRING.match(text, at)
            colon = -1 if name is None else _skip(text, name.end())
            if name is None or text[colon : colon + 1] != ":":
                raise NotJson(f"no key at character {at}")
            key, at = _string(name[0]), _skip(text, colon + 1)
        node = _value(text, at, depth + 1)
        items.append((key, begin, node))
        at = _skip(text, node.end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != close:
            raise NotJson(f"neither a comma nor {close} at character {at}")
    return JsonSpan(kind, start, at + 1, tuple(items))


def _string(quoted: str) -> str:
    try:
        return str(json.loads(quoted))
    except ValueError as error:
        raise NotJson("a key that is no text") from error


# -------------------------------------------------------------------------------------- putting in


def put_in(text: str, wanted: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the text with the members, and each inserted part, in the order of their places.

    Members of existing objects are added one by one; lists get the new items before their own.

    Raises:
        NotJson: The text is not JSON, or has another value where a member belongs.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text.strip("\ufeff \t\r\n"):
        added = json.dumps(wanted, indent=2, ensure_ascii=False) + "\n"
        added = added.replace("\n", newline)
        return text + added, [added]
    root = parse(text)
    if root.kind != "{":
        raise NotJson("it is no object")
    places = sorted(_places(text, root, wanted), reverse=True)
    for at, added in places:
        text = text[:at] + added.replace("\n", newline) + text[at:]
    return text, [added.replace("\n", newline) for _, added in reversed(places)]


def _places(text: str, node: JsonSpan, wanted: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    there = {key: value for key, _, value in node.items}
    new = []
    for key, value in wanted.items():
        found = there.get(key)
        if found is None:
            new.append((f"{json.dumps(key)}: ", value))
        elif isinstance(value, Mapping) and found.kind == "{":
            yield from _places(text, found, value)
        elif isinstance(value, list) and found.kind == "[":
            yield _place(text, found, [("", one) for one in value])
        else:
            raise NotJson(f"it has a {key} of its own")
    if new:
        yield _place(text, node, new)


def _place(text: str, node: JsonSpan, new: Sequence[tuple[str, Any]]) -> tuple[int, str]:
    """Return where new items are inserted, and the text to insert."""
    line = _indent(text, node.start)
    lines = [name + json.dumps(value, indent=2, ensure_ascii=False) for name, value in new]
    if not node.items:
        inner = f"{line}  "
        body = ",\n".join(inner + one.replace("\n", f"\n{inner}") for one in lines)
        return node.start + 1, f"\n{body}\n{line}"
    first = node.items[0][1]
    if "\n" not in text[node.start : first]:
        plain = [name + json.dumps(value, ensure_ascii=False) for name, value in new]
        return node.start + 1, "".join(f"{one}, " for one in plain)
    inner = _indent(text, first)
    return node.start + 1, "".join(
        f"\n{inner}{one.replace(chr(10), chr(10) + inner)}," for one in lines
    )


def _indent(text: str, at: int) -> str:
    """Return the blanks at the beginning of a position's line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


# -------------------------------------------------------------------------------------- taking out


def take_out(text: str, put: Sequence[str] | None, commands: Sequence[str]) -> str:
    """Return the text without the inserted parts, even if they were edited since.

    Args:
        text: The text.
        put: The inserted parts; None if only the text can say whether there are any.
        commands: Our commands, the hook's first; an edited member that has one is ours.
    """
    is_edited = put is None and _has(text, commands[:1])
    for one in put or ():
        at = text.find(one)
        if at < 0:
            is_edited = True
        else:
            text = _without(text, at, at + len(one))
    while is_edited and (span := _ours(text, commands)) is not None:
        text = _without(text, *span)
    return text


def _without(text: str, start: int, end: int) -> str:
    """Remove a part, and a comma that then separates nothing."""
    before, after = text[:start], text[end:]
    rest = _skip(after, 0)
    last = _significant_end(before)
    opens = before[last - 1 : last] in {"{", "["}
    closes = after[rest : rest + 1] in {"}", "]"}
    if after[rest : rest + 1] == "," and (opens or before[last - 1 : last] == ","):
        after = after[:rest] + after[rest + 1 :]
    elif closes and before[last - 1 : last] == ",":
        before = before[: last - 1] + before[last:]
    return before + after


def _significant_end(text: str) -> int:
    """Return the end of a text's last character that is neither blank nor comment."""
    end, at = 0, 0
    while at < len(text):
        at = _skip(text, at)
        if at >= len(text):
            break
        found = _STRING.match(text, at)
        at = end = found.end() if found is not None else at + 1
    return end


def _ours(text: str, commands: Sequence[str]) -> tuple[int, int] | None:
    """Return the place of an edited member of ours, or of a container it left empty."""
    try:
        root = parse(text)
    except NotJson:
        return None
    top = {key: (begin, node) for key, begin, node in root.items}
    for key, begin, node in top["mcpServers"][1].items if "mcpServers" in top else ():
        if key == "agentforge" and _has(text[node.start : node.end], commands):
            return begin, node.end
    for _, begin, event in top["hooks"][1].items if "hooks" in top else ():
        for _, _, group in event.items:
            if _has(text[group.start : group.end], commands[:1]):
                return group.start, group.end
        if event.kind == "[" and not event.items:
            return begin, event.end
    for key in ("hooks", "mcpServers"):
        if key in top and top[key][1].kind == "{" and not top[key][1].items:
            return top[key][0], top[key][1].end
    return None


def _has(text: str, commands: Sequence[str]) -> bool:
    """Return whether a text has one of the commands as a whole word."""
    words = (re.escape(json.dumps(one, ensure_ascii=False)[1:-1]) for one in commands)
    return any(re.search(rf"(?<![\w/.-]){one}(?![\w/.-])", text) for one in words)
