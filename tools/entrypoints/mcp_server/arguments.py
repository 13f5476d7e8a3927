"""What each tool takes: the schema that clients see and the check that arguments must pass.

The SDK speaks pydantic, so the values at this edge are pydantic models; they go no further than
this package.
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

from ...harness.briefing import DEFAULT_MAX_TOKENS
from ...harness.session_domain import (
    DEFAULT_TOKEN_BUDGET,
    MAX_COUNT,
    MAX_GOAL_CHARS,
    MAX_NAME_CHARS,
    MAX_PATH_CHARS,
)
from ...questions import QuestionsConfig
from .errors import InvalidArguments

MAX_CODE_CHARS: Final = 1_000_000
"""Longest code that `run_code` takes."""
MAX_REASON_CHARS: Final = 4_000
"""Longest reason that goes into a history."""
MAX_DEADLINE_S: Final = 3_600.0
"""Longest time that one call may let code run, in seconds."""
MAX_WAIT_S: Final = 86_400.0
"""Longest time that one call may wait for a person, in seconds."""
DEFAULT_OUTPUT_CHARS: Final = 16_000
MAX_OUTPUT_CHARS: Final = 200_000
MAX_LISTED: Final = 200
MAX_PROMPT_CHARS: Final = 8_000
MAX_TITLE_CHARS: Final = 200
MAX_LABEL_CHARS: Final = 500
MAX_DESCRIPTION_CHARS: Final = 2_000
MAX_QUESTIONS: Final = 50
"""Most questions that are looked at; the schema names the configured limit, which asking checks."""
MAX_OPTIONS: Final = 50
MAX_DETAILS_CHARS: Final = 20_000
"""Longest details of a record."""
MAX_ARTIFACTS: Final = 500
"""Most files of one record."""

RESULT_ACTIONS: Final = ("phase_succeeded", "phase_failed")
"""Actions that say how an attempt at a phase ended."""
_RESERVED_ACTIONS: Final = (
    *("agent_", "budget_", "checkpoint", "inputs_placed", "phase_"),
    *("question_", "questions_", "retry_reason", "session_"),
)
_SHOWN_FAULTS: Final = 12


class Arguments(BaseModel):
    """What a tool takes; unknown arguments are refused.

    Each is of its schema's type and nothing else: no `true`, "5" or 5.0 for a whole number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


SessionId = Annotated[
    str,
    Field(min_length=1, max_length=128, description="The whole id of the session."),
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
    Field(
        max_length=MAX_REASON_CHARS,
        description="Why; it goes into the history and the next briefing.",
    ),
]


class SessionCreate(Arguments):
    """Arguments of `session_create`."""

    goal: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_GOAL_CHARS,
            description="What the work is for, in a few sentences; every briefing begins with it.",
        ),
    ]
    workflow_type: Annotated[
        str | None,
        Field(
            max_length=MAX_NAME_CHARS,
            description="A short name of the kind of work, such as tdflow.",
        ),
    ] = None
    initial_phase: Annotated[
        str | None,
        Field(max_length=MAX_NAME_CHARS, description="The phase the work begins in."),
    ] = None
    token_budget: Annotated[
        int, Field(ge=1, le=MAX_COUNT, description="Tokens that the work may cost.")
    ] = DEFAULT_TOKEN_BUDGET


class SessionList(Arguments):
    """Arguments of `session_list`."""

    state: Annotated[
        Literal["active", "paused", "completed", "aborted"] | None,
        Field(description="Only sessions in this state."),
    ] = None
    limit: Annotated[
        int, Field(ge=1, le=MAX_LISTED, description="The most sessions that are listed.")
    ] = 20


class SessionShow(Arguments):
    """Arguments of `session_show`."""

    session_id: SessionId
    history_limit: Annotated[
        int,
        Field(ge=0, le=MAX_LISTED, description="How many entries of the history, the last ones."),
    ] = 20
    artifacts_limit: Annotated[
        int, Field(ge=0, le=MAX_LISTED, description="How many files made, the last ones.")
    ] = 50


class SessionBrief(Arguments):
    """Arguments of `session_brief`."""

    session_id: SessionId
    max_tokens: Annotated[
        int,
        Field(ge=1, le=100_000, description="The most tokens that the briefing may count."),
    ] = DEFAULT_MAX_TOKENS


class SessionOnly(Arguments):
    """Arguments of tools that take a session and nothing else."""

    session_id: SessionId


class SessionAndReason(Arguments):
    """Arguments of tools that take a session and say why."""

    session_id: SessionId
    reason: Reason = None


class SessionAdvance(Arguments):
    """Arguments of `session_advance`."""

    session_id: SessionId
    phase: Annotated[
        str,
        Field(min_length=1, max_length=MAX_NAME_CHARS, description="The phase to go on to."),
    ]


class SessionRecordTokens(Arguments):
    """Arguments of `session_record_tokens`."""

    session_id: SessionId
    tokens: Annotated[int, Field(ge=1, le=MAX_COUNT, description="Tokens spent since last told.")]


class RunCode(Arguments):
    """Arguments of `run_code`."""

    session_id: SessionId
    code: Annotated[
        str,
        Field(
            max_length=MAX_CODE_CHARS,
            description="Python source. It sees the session's workspace as its working directory "
            "and nothing else: no network, no other files, no subprocesses.",
        ),
    ]
    deadline_s: Annotated[
        float | None,
        Field(
            gt=0,
            le=MAX_DEADLINE_S,
            description="Wall-clock seconds it may run; 60 if left out.",
        ),
    ] = None
    fuel: Annotated[
        int | None,
        Field(
            ge=1,
            le=MAX_COUNT,
            description="WebAssembly instructions it may execute; the sandbox's default if left "
            "out.",
        ),
    ] = None
    tokens: Tokens = None
    output_chars: Annotated[
        int,
        Field(
            ge=100,
            le=MAX_OUTPUT_CHARS,
            description="The most characters of each output stream that come back.",
        ),
    ] = DEFAULT_OUTPUT_CHARS


class ArtifactArgument(Arguments):
    """A file that work outside the sandbox made."""

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


def _own_action(action: str) -> str:
    """Refuse the actions that the harness and its runners write, and read, themselves."""
    if action not in RESULT_ACTIONS and action.startswith(_RESERVED_ACTIONS):
        raise ValueError(
            f"{action!r} is an action that the harness writes itself; name another one, or use "
            "the tool that does it"
        )
    return action


class SessionRecord(Arguments):
    """Arguments of `session_record`."""

    session_id: SessionId
    action: Annotated[
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
    details: Annotated[
        str | None,
        Field(
            max_length=MAX_DETAILS_CHARS,
            description="What the next worker must know of it; briefings quote it.",
        ),
    ] = None
    artifacts: Annotated[
        tuple[ArtifactArgument, ...],
        Field(
            strict=False,
            max_length=MAX_ARTIFACTS,
            description="The files that it created or modified.",
        ),
    ] = ()
    tokens: Tokens = None


class OptionArgument(Arguments):
    """One answer that a question offers."""

    label: Annotated[
        str,
        Field(min_length=1, max_length=MAX_LABEL_CHARS, description="The answer, in a few words."),
    ]
    description: Annotated[
        str | None,
        Field(max_length=MAX_DESCRIPTION_CHARS, description="What choosing it means."),
    ] = None


class QuestionArgument(Arguments):
    """One question."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True)

    prompt: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_PROMPT_CHARS,
            description="The whole question; may be markdown.",
        ),
    ]
    title: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_TITLE_CHARS,
            description="A word or two that distinguish this question from the others.",
        ),
    ]
    options: Annotated[
        tuple[OptionArgument, ...],
        Field(
            strict=False,
            max_length=MAX_OPTIONS,
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


class AskUserQuestions(Arguments):
    """Arguments of `ask_user_questions`."""

    questions: Annotated[
        tuple[QuestionArgument, ...],
        Field(strict=False, max_length=MAX_QUESTIONS, description="The questions, asked together."),
    ]
    non_blocking: Annotated[
        bool,
        Field(
            validation_alias=AliasChoices("non_blocking", "nonBlocking"),
            description="False: wait for the answers. True: return the id at once; the question "
            "then outlives this client, and get_answered_questions fetches the answers.",
        ),
    ] = False
    timeout_s: Annotated[
        float | None,
        Field(
            gt=0,
            le=MAX_WAIT_S,
            description="Seconds to wait before the questions are withdrawn, which is an error; "
            "without a limit if left out. Not with non_blocking.",
        ),
    ] = None


def asking_schema(config: QuestionsConfig) -> dict[str, Any]:
    """Return the input schema of `ask_user_questions` with the configured limits in it.

    The limits are checked where questions are created, which reports all faults of all questions.
    """
    schema = AskUserQuestions.model_json_schema()
    schema["properties"]["questions"] |= {"minItems": 1, "maxItems": config.max_questions}
    question = schema["$defs"][QuestionArgument.__name__]["properties"]
    question["options"] |= {"minItems": config.min_options, "maxItems": config.max_options}
    for place in (
        question["prompt"],
        schema["$defs"][OptionArgument.__name__]["properties"]["label"],
    ):
        place["maxLength"] = min(place["maxLength"], config.max_text_chars)
    return schema


class GetAnsweredQuestions(Arguments):
    """Arguments of `get_answered_questions`."""

    session_id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=128,
            description="The id that ask_user_questions returned, or its beginning.",
        ),
    ]
    blocking: Annotated[
        bool,
        Field(description="True: wait until the person has answered or rejected."),
    ] = False
    timeout_s: Annotated[
        float | None,
        Field(
            gt=0,
            le=MAX_WAIT_S,
            description="Seconds to wait, only with blocking; the questions stay open after them. "
            "Without a limit if left out.",
        ),
    ] = None


_Model = TypeVar("_Model", bound=Arguments)


def checked(tool: str, model: type[_Model], given: Mapping[str, Any] | None) -> _Model:
    """Return a tool's arguments, checked.

    Raises:
        InvalidArguments: With everything that is wrong.
    """
    try:
        return model.model_validate(dict(given or {}))
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        faults = [_fault(one["loc"], one["type"], one["msg"]) for one in details[:_SHOWN_FAULTS]]
        if len(details) > _SHOWN_FAULTS:
            faults.append(f"and {len(details) - _SHOWN_FAULTS} more faults")
        raise InvalidArguments(tool, faults) from None


def _fault(location: tuple[int | str, ...], kind: str, message: str) -> str:
    where = ""
    for part in location:
        if isinstance(part, int):
            where += f"[{part}]"
        else:
            where += f".{_short(part)}" if where else _short(part)
    if kind == "extra_forbidden":
        return f"{where}: is no argument"
    if kind == "missing":
        return f"{where}: is missing"
    told = message.removeprefix("Value error, ").replace("tuple", "list")  # as JSON calls it
    return f"{where or 'arguments'}: {told[:1].lower()}{told[1:]}"


def _short(name: str) -> str:
    shown = ascii(name)[1:-1]
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
