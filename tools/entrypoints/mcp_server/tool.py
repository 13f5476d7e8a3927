"""Tools from methods: schemas from signatures, strict arguments, and typed errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from enum import Enum
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

from attrs import frozen
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool as SdkTool
from mcp_types import CallToolResult, TextContent, ToolAnnotations

from ...base.errors import AgentForgeError
from ...harness import SessionNotFound
from ...questions import SessionNotFound as QuestionsNotFound
from .arguments import STRICT, checked
from .results import ToolResult, sound

ERROR_META_KEY: Final = "agentforge/error"
"""Key of the error's type and fields in a failed call's result, for programs."""
_MAX_ERROR_CHARS: Final = 4_000
_MAX_FIELD_CHARS: Final = 500
_MAX_ITEMS: Final = 50
_MARK: Final = "_agentforge_tool"
_ARGUMENT: Final = re.compile(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", re.MULTILINE)

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Effect(Enum):
    """Effect of a tool on stored data."""

    READS = "reads"
    ADDS = "adds"
    DESTROYS = "destroys"


@frozen
class _Mark:
    title: str
    effect: Effect
    open_world: bool


def tool(
    title: str, effect: Effect = Effect.ADDS, *, open_world: bool = False
) -> Callable[[_Method], _Method]:
    """Mark a method as a tool; clients read its name, signature and docstring.

    The docstring's "Args:" describe the arguments in the schema. For an argument that several tools
    share, the annotation's description applies unless the docstring has one.

    `open_world` means that the tool reaches beyond this machine's files, for example to a person.
    """

    def mark(method: _Method) -> _Method:
        setattr(method, _MARK, _Mark(title, effect, open_world))
        return method

    return mark


class Tool(SdkTool):
    """The SDK's tool with exact argument types, and without the SDK's text around our errors."""

    @classmethod
    def of(cls, method: Callable[..., Any]) -> Tool:
        """Return the tool of a method that `tool` marked.

        Its schemas depend only on the function and are built once for all objects.
        """
        function = getattr(method, "__func__", method)
        known = _KNOWN.get(function)
        if known is None:
            known = _KNOWN[function] = cls._described(method).model_copy(update={"fn": _unbound})
        return known.model_copy(update={"fn": method, "parameters": deepcopy(known.parameters)})

    @classmethod
    def _described(cls, method: Callable[..., Any]) -> Tool:
        mark: _Mark = getattr(method, _MARK)
        is_read_only = mark.effect is Effect.READS
        text, _, arguments = (inspect.getdoc(method) or "").partition("\nArgs:\n")
        made = cls.from_function(
            method,
            title=mark.title,
            description=" ".join(text.split()),
            annotations=ToolAnnotations(
                title=mark.title,
                read_only_hint=is_read_only,
                destructive_hint=mark.effect is Effect.DESTROYS,
                idempotent_hint=is_read_only,
                open_world_hint=mark.open_world,
            ),
        )
        assert isinstance(made, Tool)  # noqa: S101 (the SDK makes one of this class)
        metadata = made.fn_metadata
        for name, meaning in _ARGUMENT.findall(arguments):
            metadata.arg_model.model_fields[name].description = " ".join(meaning.split())
        metadata.arg_model.model_config.update(STRICT)
        metadata.arg_model.model_rebuild(force=True)
        made.parameters = compact(metadata.arg_model.model_json_schema())
        metadata.output_schema = first_level(metadata.output_schema or {})
        return made

    @property
    def is_read_only(self) -> bool:
        """Whether the tool changes nothing."""
        return bool(self.annotations and self.annotations.read_only_hint)

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[Any, Any],
        convert_result: bool = True,  # noqa: ARG002 (the SDK's signature; a result is always one)
    ) -> CallToolResult:
        """Validate the arguments, run the tool, and return the result's values and words.

        Raises:
            InvalidArguments: Names every fault; nothing was done.
        """
        model = checked(self.name, self.fn_metadata.arg_model, arguments)
        given = {name: getattr(model, name) for name in type(model).model_fields}
        if self.context_kwarg is not None:
            given[self.context_kwarg] = context
        result: ToolResult = await self.fn(**given)
        return CallToolResult(
            content=[TextContent(type="text", text=result.in_words())],
            structured_content=result.model_dump(mode="json"),
        )


_KNOWN: Final[WeakKeyDictionary[Callable[..., Any], Tool]] = WeakKeyDictionary()


def _unbound(**_: object) -> None:
    """Stand in for the method in a cached tool, which would otherwise keep its object alive."""


def tools_of(owner: object, *, read_only: bool = False) -> tuple[Tool, ...]:
    """Return the tools among an object's methods, in the order of definition.

    With `read_only`, return only those that change nothing.
    """
    marks = {name: getattr(member, _MARK, None) for name, member in vars(type(owner)).items()}
    return tuple(
        Tool.of(getattr(owner, name))
        for name, mark in marks.items()
        if mark is not None and (mark.effect is Effect.READS or not read_only)
    )


def compact(schema: Any, *, in_properties: bool = False) -> Any:
    """Return a schema without titles, which only repeat names."""
    if isinstance(schema, list):
        return [compact(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: compact(value, in_properties=name in {"properties", "$defs"} and not in_properties)
        for name, value in schema.items()
        if in_properties or name != "title"
    }


def first_level(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of the top-level names and types; nested values have only their kind.

    Clients give every listed schema to the model, which later reads the values themselves.
    """
    properties = {name: _kind(value) for name, value in schema["properties"].items()}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _kind(value: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in value:
        return {"type": "object"}
    if "anyOf" in value:
        return {"type": [_kind(one)["type"] for one in value["anyOf"]]}
    return {name: value[name] for name in ("type", "enum") if name in value}


def advised(error: Exception) -> str:
    """Return what happened, what was saved and what to do, in terms of these tools."""
    if isinstance(error, SessionNotFound):
        return f"{error} As a tool: session_list."
    if isinstance(error, QuestionsNotFound):
        return (
            f"{error}. It may have been cleaned up after its retention period, or belong to "
            "another directory; nothing was changed. Ask again with ask_user_questions."
        )
    if isinstance(error, AgentForgeError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error}. Free the disk or fix its permissions, then try again."
    return (
        f"unexpected {type(error).__name__}. This is a fault in agentforge itself; what was done "
        "before it is kept. Look at the session before you try again; the server's log says more."
    )


def described(error: Exception) -> dict[str, Any]:
    """Describe an error for programs.

    Has its type, its message for people, whether a retry may succeed, and its fields.
    """
    ours = error if isinstance(error, AgentForgeError) else None
    return {
        "type": type(error).__name__,
        "user_message": _short(ours.user_message if ours else advised(error)),
        "retryable": ours.retryable if ours else isinstance(error, OSError),
        "fields": _fields(ours.fields) if ours else {},
    }


def failed(error: Exception) -> CallToolResult:
    """Return the result of a call that failed.

    The values for programs are in its `_meta`: clients check structured content against the output
    schema, which an error does not match.
    """
    return CallToolResult(
        content=[TextContent(type="text", text=sound(advised(error))[:_MAX_ERROR_CHARS])],
        is_error=True,
        _meta={ERROR_META_KEY: described(error)},
    )


def _fields(fields: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of an error as JSON, each of bounded size."""
    return {
        name: [_short(item) for item in value[:_MAX_ITEMS]]
        if isinstance(value, list | tuple)
        else value
        if value is None or isinstance(value, bool | int | float)
        else _short(getattr(value, "value", value))
        for name, value in fields.items()
    }


def _short(value: object) -> str:
    return sound(str(value))[:_MAX_FIELD_CHARS]
