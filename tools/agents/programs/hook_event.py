"""What every agent program's event and answer come down to; pure, and quick to load."""

# Annotations are evaluated here: each field's would be compiled if it were a text.

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

BRIEFED: Final = "AgentForge session briefing, revision "
"""How a briefing begins, by which one is found again in a context."""
SENT_ON: Final = "AgentForge: the project's own check did not pass"
"""How the text begins by which an agent is sent on; a program may show it as a prompt."""


class Moment(Enum):
    """At which moment of a conversation a hook is called."""

    STARTED = "started"
    """The context is new: at the start, after a restart, after a compaction."""
    PROMPTED = "prompted"
    """A prompt is about to be sent; it may be refused."""
    BEFORE_TOOL = "before_tool"
    """A tool is about to run; the agent may be stopped."""
    AFTER_TOOL = "after_tool"
    """A tool has run; the agent may be stopped."""
    BEFORE_MODEL = "before_model"
    """The model is about to be asked; the agent may be stopped."""
    MODEL_ANSWERED = "model_answered"
    """The model has answered; its usage is known."""
    BEFORE_COMPACTION = "before_compaction"
    COMPACTED = "compacted"
    """The context was replaced by a summary."""
    COMPACTION_FOUND = "compaction_found"
    """A request has a summary that was not there before; no event said so."""
    SUBAGENT_ENDED = "subagent_ended"
    TURN_ENDED = "turn_ended"
    """The agent has nothing more to do; it may be sent on."""
    ENDED = "ended"
    """The program ends."""


class ReportedUsage(NamedTuple):
    """Tokens that an event itself reports.

    Attributes:
        key: What they are of: a message, a turn. Reported again, the largest figure counts.
        tokens: How many.
        model: The model's name, or an empty text.
    """

    key: str
    tokens: int
    model: str = ""


class AskedQuestion(NamedTuple):
    """A question to a person that the agent asked, or looked after, by our MCP server.

    Attributes:
        question_id: Its id.
        status: "pending", "completed", "rejected", "timed_out" or "abandoned".
        prompts: What was asked; empty where that is not said.
        text: The answers as the model reads them.
    """

    question_id: str
    status: str
    prompts: tuple[str, ...]
    text: str


class HookEvent(NamedTuple):
    """One call of a hook, whichever program made it.

    Attributes:
        program: The program ("claude-code", "codex", "opencode", "gemini").
        name: The program's own name of the event.
        moment: What it is.
        agent_session: The program's own id of the conversation.
        directory: Where the program works, or an empty text.
        transcript: The file in which the program keeps the conversation, or None.
        source: How a context began, or what a compaction was caused by.
        text: The prompt, the last message, or the summary.
        by_subagent: Whether a subagent of the conversation does it; `transcript` may be its own.
        by_person: Whether a prompt is a person's, and not the program's own notice.
        edited: The files that a tool wrote, each with whether it made them.
        usage: What the event itself reports.
        question: The question to a person that the event is about, or None.
        request: The first messages of a request to the model, each its role and text, up to the
            summary in which `text` stands; empty where no briefing is missing there.
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
    request: tuple[tuple[str, str], ...] = ()


class HookReply(NamedTuple):
    """What the program is answered; nothing where all is None.

    Attributes:
        context: Text for the model.
        stop: Why the agent has to stop now.
        refuse: Why the prompt is refused.
        go_on: Why the agent is not done yet.
    """

    context: str | None = None
    stop: str | None = None
    refuse: str | None = None
    go_on: str | None = None


NOTHING = HookReply()


def begun_event(
    program: str, payload: Mapping[str, object], moments: Mapping[str, Moment]
) -> HookEvent | None:
    """Return an event with what every program says of one; None if it is of no concern.

    Args:
        program: The program.
        payload: The hook's input.
        moments: What the program's events are, by their names.
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
    """Return the first of some fields that is a text, or an empty text."""
    for name in names:
        value = payload.get(name)
        if isinstance(value, str) and value:
            return value
    return ""
