"""The common form of every agent program's events and answers; pure, and quick to load."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from .tokens import Charged, Cost, Tokens, UsageByModel

# Annotations are evaluated here: as strings, each field's would have to be compiled.


BRIEFED: Final = "AgentForge session briefing, revision "
"""The beginning of every briefing, by which it is found again in a context."""
UPDATED: Final = "AgentForge session update, revision "
"""The beginning of what follows a briefing that the context still has."""
SENT_ON: Final = "AgentForge: the project's own check did not pass"
"""The beginning of the text that sends an agent back to work; a program may show it as a prompt."""


class Moment(Enum):
    """The moment of a conversation at which a hook is called."""

    STARTED = "started"
    """The context is new: at the start, after a restart, after a compaction."""
    PROMPTED = "prompted"
    """A prompt is about to be sent; it may be refused."""
    BEFORE_TOOL = "before_tool"
    """A tool is about to run; the agent may be stopped."""
    AFTER_TOOL = "after_tool"
    """A tool has run; the agent may be stopped."""
    BEFORE_MODEL = "before_model"
    """The model is about to be called; the agent may be stopped."""
    MODEL_ANSWERED = "model_answered"
    """The model has answered; its usage is known."""
    BEFORE_COMPACTION = "before_compaction"
    COMPACTED = "compacted"
    """The context was replaced by a summary."""
    COMPACTION_FOUND = "compaction_found"
    """A request has a new summary that no event reported."""
    SUBAGENT_ENDED = "subagent_ended"
    TURN_ENDED = "turn_ended"
    """The agent has nothing more to do; it may be sent back to work."""
    ENDED = "ended"
    """The program ends."""


IN_TOOL_USE: Final = frozenset(
    {
        *(Moment.BEFORE_TOOL, Moment.AFTER_TOOL),
        *(Moment.BEFORE_MODEL, Moment.COMPACTION_FOUND, Moment.MODEL_ANSWERED),
    }
)
SEEN: Final = frozenset({Moment.STARTED, Moment.PROMPTED})
"""The moments at which a person looks at what the program shows."""


class ReportedUsage(NamedTuple):
    """Tokens that an event itself reports.

    Attributes:
        key: Identifies the message or turn. If it is reported again, the largest figure counts.
            Empty for an answer that the program is going to write to its file.
        tokens: The tokens.
        model: The model's name, or an empty text.
        micro_usd: The program's own figure of their cost, in millionths of a US dollar; 0 without.
        at: The time, as the program writes it, or an empty text.
    """

    key: str
    tokens: Tokens
    model: str = ""
    micro_usd: int = 0
    at: str = ""


class AskedQuestion(NamedTuple):
    """A question to a person that the agent asked, or checked on, through our MCP server.

    Attributes:
        question_id: Its id.
        status: "pending", "completed", "rejected", "timed_out" or "abandoned".
        prompts: The texts of the question; empty if the event does not have them.
        text: The answers, as the model reads them.
    """

    question_id: str
    status: str
    prompts: tuple[str, ...]
    text: str


class HookEvent(NamedTuple):
    """One call of a hook, in a form common to all programs.

    Attributes:
        program: The program ("claude-code", "codex", "opencode", "gemini").
        name: The program's own name of the event.
        moment: The moment of the conversation.
        agent_session: The program's own id of the conversation.
        directory: The program's working directory, or an empty text.
        transcript: The program's file of the conversation, or None.
        source: What began the context, or what triggered the compaction.
        text: The prompt, the last message, or the summary.
        by_subagent: Whether a subagent of the conversation causes it; `transcript` may then be the
            subagent's own.
        by_person: Whether a prompt comes from a person, and not from the program itself.
        edited: The files that a tool wrote, each with whether the tool created it.
        usage: The usage that the event itself reports.
        question: The question to a person that the event is about, or None.
        parts: What was said and done since the last event, where the event itself reports it.
        request: The first messages of a request to the model, each as role and text, up to the
            summary that holds `text`; empty if no briefing is missing there.
        process: The process that leads the agent; 0 for the one that started this process.
    """

    program: str
    name: str
    moment: Moment
    agent_session: str
    directory: str = ""
    transcript: str | None = None
    source: str = ""
    text: str = ""
    by_subagent: bool = False
    by_person: bool = True
    edited: tuple[tuple[str, bool], ...] = ()
    usage: tuple[ReportedUsage, ...] = ()
    question: AskedQuestion | None = None
    parts: tuple[Mapping[str, object], ...] = ()
    request: tuple[tuple[str, str], ...] = ()
    process: int = 0


class HookReply(NamedTuple):
    """The answer to the program; nothing if all fields are None.

    Attributes:
        context: Text for the model.
        stop: Why the agent has to stop now.
        refuse: Why the prompt is refused.
        go_on: Why the agent has to go on working.
    """

    context: str | None = None
    stop: str | None = None
    refuse: str | None = None
    go_on: str | None = None


NOTHING = HookReply()


def begun_event(
    program: str, payload: Mapping[str, object], moments: Mapping[str, Moment]
) -> HookEvent | None:
    """Return an event with the fields that all programs share; None if it is not handled.

    Args:
        program: The program.
        payload: The hook's input.
        moments: The moment of each of the program's events, by name.
    """
    name = text_of(payload, "hook_event_name")
    moment = moments.get(name)
    session = text_of(payload, "session_id")
    if moment is None or not session:
        return None
    return HookEvent(
        program=program,
        name=name,
        moment=moment,
        agent_session=session,
        directory=text_of(payload, "cwd"),
        transcript=text_of(payload, "transcript_path") or None,
        source=text_of(payload, "source", "trigger"),
    )


def text_of(payload: Mapping[str, object], *names: str) -> str:
    """Return the first of the named fields that is a text, or an empty text."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


class Spent(NamedTuple):
    """The usage that an agent program has reported for a conversation.

    Attributes:
        usage: The tokens by model and kind.
        baseline: How many of them belong to no session, or to another one.
        charged: What is charged, as far as that is remembered.
        price: Returns the cost of the usage beyond what is charged.
        weights: How much of a token counts against the budget, by kind; 1 for other kinds.
    """

    usage: UsageByModel
    baseline: int
    charged: Charged
    price: Callable[[Charged], Cost]
    weights: Mapping[str, float]
