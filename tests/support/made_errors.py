"""An error of any class of the library, built as its own signature asks, for tests of all."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from agentforge_sessions.base import files as durable
from agentforge_sessions.base.errors import AgentForgeError, declared_fields
from agentforge_sessions.base.plugins import Plugin
from agentforge_sessions.harness import SessionState
from agentforge_sessions.jail import Refusal
from agentforge_sessions.questions import SessionStatus
from agentforge_sessions.repository.apply.apply_errors import BlockedPath, Obstacle
from agentforge_sessions.workflows.agents.port import TokenUsage

HERE: Final = Path("somewhere")
"""Never touched: only messages name it."""
_REFUSED: Final = PermissionError(13, "Permission denied", "somewhere")
_BLOCKED: Final = BlockedPath("a.py", next(iter(Obstacle)))

_VALUES: Final[Mapping[str, object]] = {
    "str": "some text",
    "int": 3,
    "float": 1.5,
    "bool": True,
    "bytes": b"some bytes",
    "object": "an object",
    "Path": HERE,
    "datetime": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "BaseException": _REFUSED,
    "OSError": _REFUSED,
    "Iterable[Path]": [HERE, HERE / "b"],
    "Iterable[str]": ["one", "two"],
    "Sequence[Path]": [HERE, HERE / "b"],
    "Sequence[str]": ["one", "two"],
    "Sequence[int]": [1, 2],
    "list[str]": ["one", "two"],
    "tuple[str, ...]": ("one", "two"),
    "Plugin": Plugin("a", "stores", "module:attribute", "package 1"),
    "Mapping[int, str]": {1: "one"},
    "Mapping[str, str]": {"a": "one"},
    "Refusal": next(iter(Refusal)),
    "Sequence[BlockedPath]": [_BLOCKED],
    "SessionState": SessionState.PAUSED,
    "SessionStatus": SessionStatus.REJECTED,
    "TokenUsage": TokenUsage(input_tokens=2, output_tokens=3),
    "durable.ReadError": durable.ReadError(path=HERE, cause=_REFUSED),
    "durable.RemovalError": durable.RemovalError(path=HERE, cause=_REFUSED),
    "durable.WriteError": durable.WriteError(path=HERE, operation="write", cause=_REFUSED),
}


def made_error(kind: type[BaseException]) -> BaseException:
    """Build an error with a value for each argument, those that may be left out as well."""
    if issubclass(kind, AgentForgeError) and kind.__init__ is AgentForgeError.__init__:
        fields = declared_fields(kind)
        if fields or kind.message:
            return kind(**{name: _value(one.annotation) for name, one in fields.items()})
        return kind("some text")
    given: list[object] = []
    named: dict[str, object] = {}
    for name, one in _parameters(kind).items():
        if one.kind is inspect.Parameter.KEYWORD_ONLY:
            named[name] = _value(one.annotation)
        elif one.kind is not inspect.Parameter.VAR_KEYWORD:
            given.append(_value(one.annotation))
    return kind(*given, **named)


def _parameters(kind: type[BaseException]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(kind).parameters
    except ValueError:  # it takes what every exception of the interpreter takes
        return {"message": inspect.Parameter("message", inspect.Parameter.POSITIONAL_ONLY)}


def _value(annotation: Any) -> object:
    if annotation is inspect.Parameter.empty:
        return "some text"
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.removeprefix("collections.abc.")
    return _VALUES[re.split(r" \| ", text)[0]]
