"""The calls of a program, read from what its code says; pure.

The code may be a stranger's: it chooses what is asked and judged, never what runs. The agent, the
command of the gates and their packages are those of the session's work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import field, frozen

from ..converters import as_tuple
from ..documents.phase_forms import MAX_PROMPT_CHARS
from ..names import NAME_RE, NAME_RULE, path_problem
from ..workflow import ANYTHING, TEST_GATES

_MOST_PATHS: Final = 200
_JUDGES: Final = frozenset({*TEST_GATES, "files"})
"""The kinds of gates that a program may call."""


class RefusedCall(ValueError):
    """A call can't be carried out as the program says it; the program gets the reason."""


@frozen(kw_only=True)
class AgentCall:
    """`agent(prompt, name=…, writes=[…], gate=…)`: the agent works, and its files are applied.

    Attributes:
        prompt: What it is to do.
        name: What the call is named in the run and its records.
        writes: The paths it may write, and the words "code" and "tests" for the component's.
        gate: The kind of gate that will judge its files, for the prompt; None: none.
    """

    prompt: str
    name: str = "agent"
    writes: tuple[str, ...] = field(default=(ANYTHING,), converter=as_tuple)
    gate: str | None = None


@frozen(kw_only=True)
class GateCall:
    """`gate(kind, require=[…], covers_criteria=…, tests_unchanged=…)`: the files are judged.

    Attributes:
        kind: One of the kinds that run tests, or "files".
        name: What the call is named in the run and its records.
        require: Files that must exist.
        covers_criteria: Whether each acceptance criterion needs a test that names it.
        tests_unchanged: Whether the tests must be those of the last passed `tests_fail`; None:
            if there was one.
    """

    kind: str = "tests_pass"
    name: str = "gate"
    require: tuple[str, ...] = field(default=(), converter=as_tuple)
    covers_criteria: bool = False
    tests_unchanged: bool | None = None


def read_call(tool: str | None, arguments: str | None) -> AgentCall | GateCall:
    """Return the call that a request describes.

    Raises:
        RefusedCall: There is no such call, or it has no such arguments.
    """
    if tool is None or tool not in _CALLS:
        raise RefusedCall(f"{str(tool)[:60]!r} can't be called; there are {', '.join(_CALLS)}")
    kind, checks = _CALLS[tool]
    given = {name: value for name, value in _decoded(arguments).items() if value is not None}
    for name, value in given.items():
        if name not in checks:
            raise RefusedCall(f"{tool} takes no {name[:60]!r}; it takes {', '.join(checks)}")
        problem = checks[name](value)
        if problem is not None:
            raise RefusedCall(f"{tool}: {name} {problem}")
    if kind is AgentCall and "prompt" not in given:
        raise RefusedCall(f"{tool}: prompt is missing")
    call: AgentCall | GateCall = kind(**given)
    return call


def _decoded(arguments: str | None) -> dict[str, Any]:
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise RefusedCall("the arguments of a call are an object")
    return given


def _prompt(value: object) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return "is no text, or empty"
    if len(value) > MAX_PROMPT_CHARS:
        return f"has more than {MAX_PROMPT_CHARS:,} characters"
    return None


def _name(value: object) -> str | None:
    fits = isinstance(value, str) and NAME_RE.fullmatch(value)
    return None if fits else f"is {value!r:.60}, which is no name; {NAME_RULE}"


def _kind(value: object) -> str | None:
    fits = isinstance(value, str) and value in _JUDGES
    return None if fits else f"is {value!r:.60}, and none of {', '.join(sorted(_JUDGES))}"


def _paths(value: object) -> str | None:
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_PATHS:
        return f"is no list of 1 to {_MOST_PATHS} paths"
    for path in value:
        if not isinstance(path, str):
            return f"names {path!r:.60}, which is no path"
        problem = None if path == ANYTHING else path_problem(path.removesuffix("/"))
        if problem is not None:
            return f"names a path that can't be used: {problem}"
    return None


def _flag(value: object) -> str | None:
    return None if isinstance(value, bool) else f"is {value!r:.60}, not true or false"


_CALLS: Final[Mapping[str, tuple[type[Any], Mapping[str, Callable[[object], str | None]]]]] = {
    "agent": (AgentCall, {"prompt": _prompt, "name": _name, "writes": _paths, "gate": _kind}),
    "gate": (
        GateCall,
        {
            "kind": _kind,
            "name": _name,
            "require": _paths,
            "covers_criteria": _flag,
            "tests_unchanged": _flag,
        },
    ),
}
