"""What a tool is, and what the model that called it reads of an error."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from attrs import frozen
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from mcp_types import Tool as ToolListing
from pydantic import BaseModel

from ...errors import AgentForgeError
from ...event_log import get_logger
from ...harness import SessionNotFound
from ...questions import SessionNotFound as QuestionsNotFound
from ...result import Failure, attempt_async
from .arguments import Arguments, checked
from .calls import Call

ERROR_META_KEY: Final = "agentforge/error"
"""Where a failed call's result carries the error's type and fields, for programs."""
_MAX_ERROR_CHARS: Final = 4_000
_MAX_FIELD_CHARS: Final = 500
_MAX_ITEMS: Final = 50

_log = get_logger("agentforge.mcp")


@frozen
class Answer:
    """What a tool returns.

    Attributes:
        structured: The values.
        text: The same in words, for models that are shown no values.
    """

    structured: BaseModel
    text: str


@frozen(kw_only=True)
class Tool:
    """A tool.

    Attributes:
        name: What it is called by.
        title: What people see.
        description: What the model reads.
        arguments: What it takes.
        result: What it returns.
        run: Does it.
        read_only: It changes nothing.
        destructive: It may end or overwrite something; else it only adds.
        idempotent: Doing it twice is the same as doing it once.
        open_world: It reaches beyond this machine's files, as to a person.
        schema: The schema of its arguments; that of `arguments` if None.
    """

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    result: type[BaseModel]
    run: Callable[[Call, Any], Awaitable[Answer]]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False
    schema: Mapping[str, Any] | None = None

    def listing(self) -> ToolListing:
        """Describe the tool to clients."""
        schema = self.schema if self.schema is not None else self.arguments.model_json_schema()
        return ToolListing(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=dict(schema),
            output_schema=self.result.model_json_schema(mode="serialization"),
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=self.read_only,
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent or self.read_only,
                open_world_hint=self.open_world,
            ),
        )

    async def call(self, call: Call, arguments: Mapping[str, Any] | None) -> CallToolResult:
        """Check the arguments, do it, and return what came of it; errors become results, too."""
        try:
            outcome = await attempt_async(self._answer(call, arguments))
        except OSError as error:
            _log.warning("mcp.call_failed", tool=self.name, error=str(error), call_id=call.call_id)
            return failed(error, message=advised(error))
        except Exception as error:  # noqa: BLE001 (the boundary: no traceback reaches a model)
            _log.exception("mcp.call_crashed", tool=self.name, call_id=call.call_id)
            return failed(error, message=advised(error))
        if isinstance(outcome, Failure):
            _log.info("mcp.call_refused", tool=self.name, error=outcome.code, call_id=call.call_id)
            return failed(outcome.error, message=advised(outcome.error))
        answer = outcome.value
        _log.info("mcp.call_done", tool=self.name, call_id=call.call_id)
        return CallToolResult(
            content=[TextContent(type="text", text=answer.text)],
            structured_content=answer.structured.model_dump(mode="json"),
        )

    async def _answer(self, call: Call, arguments: Mapping[str, Any] | None) -> Answer:
        return await self.run(call, checked(self.name, self.arguments, arguments))


def advised(error: Exception) -> str:
    """Say what happened, what was kept, and what to do, in the words of these tools."""
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


def failed(error: Exception, *, message: str) -> CallToolResult:
    """Make the result of a call that failed.

    For programs, its `_meta` has the error's type, its sentence for people, whether the same call
    may succeed later, and its fields; clients check structured content against the output schema,
    which an error does not have.
    """
    told: dict[str, Any] = {"type": type(error).__name__}
    if isinstance(error, AgentForgeError):
        told["user_message"] = _short(error.user_message)
        told["retryable"] = error.retryable
        told["fields"] = _fields(error.fields)
    else:
        told["user_message"] = _short(message)
        told["retryable"] = isinstance(error, OSError)
        told["fields"] = {}
    return CallToolResult(
        content=[TextContent(type="text", text=_sound(message)[:_MAX_ERROR_CHARS])],
        is_error=True,
        _meta={ERROR_META_KEY: told},
    )


def _fields(fields: Mapping[str, object]) -> dict[str, Any]:
    """The fields of an error as JSON, each of bounded size."""
    return {
        name: [_short(item) for item in value[:_MAX_ITEMS]]
        if isinstance(value, list | tuple)
        else value
        if value is None or isinstance(value, bool | int | float)
        else _short(getattr(value, "value", value))
        for name, value in fields.items()
    }


def _short(value: object) -> str:
    return _sound(str(value))[:_MAX_FIELD_CHARS]


def _sound(text: str) -> str:
    """Spell out what UTF-8, and so JSON on the wire, can't hold."""
    return text.encode("utf-8", "backslashreplace").decode()
