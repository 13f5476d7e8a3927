"""Argument types of the tools, with limits, and the validation of calls.

A tool's schema is made from its signature, so clients read the text written here. The SDK uses
pydantic; its values stay within this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
)

from ...base.errors import first_of
from ...base.reading.nodes import short
from ...harness.session_domain import MAX_COUNT, MAX_NAME_CHARS, MAX_PATH_CHARS
from ...questions import QuestionsConfig
from .errors import InvalidArguments

MAX_DEADLINE_S: Final = 3_600.0
"""The longest time that one call may let code run, in seconds."""
MAX_WAIT_S: Final = 86_400.0
"""The longest time that one call may wait for a person, in seconds."""
MAX_LISTED: Final = 200
MAX_QUESTIONS: Final = 50
"""The most questions examined; the schema has the configured limit, which asking checks."""
STRICT: Final = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)
"""Refuses unknown arguments and other types: no `true`, "5" or 5.0 for an integer."""

RESULT_ACTIONS: Final = ("phase_succeeded", "phase_failed")
"""Actions that record the end of an attempt at a phase."""
_RESERVED_ACTIONS: Final = (
    *("agent_", "budget_", "checkpoint", "inputs_placed", "phase_"),
    *("question_", "questions_", "retry_reason", "session_"),
)
_SHOWN_FAULTS: Final = 12

SessionId = Annotated[
    str, Field(min_length=1, max_length=128, description="The whole id of the session.")
]
Tokens = Annotated[
    int | None,
    Field(
        ge=1,
        le=MAX_COUNT,
        description="Tokens to charge the session's budget with for this step; none if left out.",
    ),
]
Reason = Annotated[
    str | None,
    Field(max_length=4_000, description="Why; it goes into the history and the next briefing."),
]
Phase = Annotated[
    str, Field(min_length=1, max_length=MAX_NAME_CHARS, description="The phase to go on to.")
]


def _own_action(action: str) -> str:
    """Refuse the actions that the harness and its runners write and read themselves."""
    if action not in RESULT_ACTIONS and action.startswith(_RESERVED_ACTIONS):
        raise ValueError(
            f"{action!r} is an action that the harness writes itself; name another one, or use "
            "the tool that does it"
        )
    return action


Action = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_NAME_CHARS,
        description="What was done, as a short name such as files_edited or tests_run. "
        "phase_succeeded or phase_failed records how the current attempt at the phase ended. "
        f"Other names that begin with {', '.join(_RESERVED_ACTIONS)} are refused.",
    ),
    AfterValidator(_own_action),
]


class ArtifactArgument(BaseModel):
    """A file that work outside the sandbox made."""

    model_config = STRICT

    path: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_PATH_CHARS,
            description="The file, relative to the folder of the work, without '..'.",
        ),
    ]
    artifact_type: Annotated[
        Literal["created", "modified"], Field(description="Whether the file is new.")
    ] = "modified"


class OptionArgument(BaseModel):
    """One answer that a question offers."""

    model_config = STRICT

    label: Annotated[
        str, Field(min_length=1, max_length=500, description="The answer, in a few words.")
    ]
    description: Annotated[
        str | None, Field(max_length=2_000, description="What choosing it means.")
    ] = None


class QuestionArgument(BaseModel):
    """One question."""

    model_config = STRICT

    prompt: Annotated[
        str,
        Field(min_length=1, max_length=8_000, description="The whole question; may be markdown."),
    ]
    title: Annotated[
        str,
        Field(
            min_length=1,
            max_length=200,
            description="A word or two that distinguish this question from the others.",
        ),
    ]
    options: Annotated[
        list[OptionArgument],
        Field(
            max_length=50,
            description="Answers to choose from, the recommended one first with (recommended) in "
            "its label. The person can always write an answer of their own.",
        ),
    ]
    multi_select: Annotated[
        bool,
        Field(
            validation_alias=AliasChoices("multiSelect", "multi_select"),
            description="Whether several options may be chosen.",
        ),
    ] = False


def with_limits(schema: dict[str, Any], config: QuestionsConfig) -> dict[str, Any]:
    """Return the input schema of a tool that asks with the configured limits in it.

    The limits are checked where questions are created, which reports all faults of all questions.
    """
    schema["properties"]["questions"] |= {"minItems": 1, "maxItems": config.max_questions}
    question = schema["$defs"][QuestionArgument.__name__]["properties"]
    question["options"] |= {"minItems": config.min_options, "maxItems": config.max_options}
    label = schema["$defs"][OptionArgument.__name__]["properties"]["label"]
    for place in (question["prompt"], label):
        place["maxLength"] = min(place["maxLength"], config.max_text_chars)
    return schema


_Model = TypeVar("_Model", bound=BaseModel)


def checked(tool: str, model: type[_Model], given: Mapping[str, Any] | None) -> _Model:
    """Return a tool's arguments, validated.

    Raises:
        InvalidArguments: Names every fault.
    """
    try:
        return model.model_validate(dict(given or {}))
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        faults = [_fault(one["loc"], one["type"], one["msg"]) for one in details]
        raise InvalidArguments(tool, first_of(faults, most=_SHOWN_FAULTS)) from None


def _fault(location: tuple[int | str, ...], kind: str, message: str) -> str:
    parts = (
        f"[{one}]" if isinstance(one, int) else f".{short(ascii(one)[1:-1])}" for one in location
    )
    where = "".join(parts).removeprefix(".")
    if kind == "extra_forbidden":
        return f"{where}: is no argument"
    if kind == "missing":
        return f"{where}: is missing"
    reason = message.removeprefix("Value error, ")
    return f"{where or 'arguments'}: {reason[:1].lower()}{reason[1:]}"
