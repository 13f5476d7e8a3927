"""The port to the agent that does the work of a phase, and the values that pass through it.

An agent gets one request and returns one answer. Most exchange text: they see no session and no
disk; the request has all they need to know, the answer all they want done. So any command line,
any model behind HTTP and any directory of recorded answers can be an agent. An agent that edits in
place works in a copy of the session's workspace; its answer is what it changed there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, runtime_checkable

from attrs import field, frozen

from ...base.program_run import ProgramRunner
from ...base.question import Option, Question
from ...harness import HarnessError
from ..converters import as_tuple


def _frozen_texts(value: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(value))


@frozen(kw_only=True)
class AgentChoice:
    """The agent that does the work, in a form from which another process can make the same one.

    Attributes:
        kind: "command", "program", "recorded", "http", or "plugin" for an agent of a plugin.
        value: The command line, the program's name, the directory of recordings, the model's
            address, or the plugin's name with what follows it.
        timeout_s: How long an answer may take, in seconds, or None for the agent's default.
        max_output: The most tokens of an endpoint's answer, or None for the default.
        network: Whether a command that edits in place has the network, and so is not sealed.
        environment: The names of this process's variables that the agent gets.
    """

    kind: str
    value: str
    timeout_s: float | None = None
    max_output: int | None = None
    network: bool = False
    environment: tuple[str, ...] = field(default=(), converter=as_tuple)

    @property
    def text(self) -> str:
        """The agent's name as `--agent` takes it."""
        return f"recorded:{self.value}" if self.kind == "recorded" else self.value


@frozen(kw_only=True)
class AgentParameters:
    """The parameters of a new agent.

    Attributes:
        timeout_s: How long an answer may take, in seconds, or None for the agent's default.
        max_output: The most tokens of an endpoint's answer, or None for the default.
        runner: Runs a command or a program; as this process runs programs if None.
        environment: The environment of a command or program; this process's own if None.
    """

    timeout_s: float | None = None
    max_output: int | None = None
    runner: ProgramRunner | None = None
    environment: Mapping[str, str] | None = None


MAX_CALL_TOKENS: Final = 1_000_000_000
"""The largest cost of a call, each way; more is no valid count, and no session can hold it."""


@frozen(kw_only=True)
class TokenUsage:
    """The cost of a call.

    Attributes:
        input_tokens: Tokens of input, 0 to a thousand million.
        output_tokens: Tokens of output, 0 to a thousand million.
        estimated: Whether we estimated them (3 bytes of UTF-8 per token) because the agent did not
            report them.
        micro_usd: What they cost, in millionths of a US dollar; None if the agent does not say.
    """

    input_tokens: int
    output_tokens: int
    estimated: bool = False
    micro_usd: int | None = None

    def __attrs_post_init__(self) -> None:
        given: tuple[tuple[str, Any], ...] = (
            ("input_tokens", self.input_tokens),
            ("output_tokens", self.output_tokens),
        )
        faults = [
            f"{name}: expected a whole number from 0 to {MAX_CALL_TOKENS:,}, got {value!r:.40}"
            for name, value in given
            if isinstance(value, bool)
            or not isinstance(value, int)
            or not 0 <= value <= MAX_CALL_TOKENS
        ]
        if faults:
            raise ValueError("; ".join(faults))

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens


AgentOption = Option
"""One of the answers that a question offers; a person sees it as the agent wrote it."""

AgentQuestion = Question
"""Something that only a person can decide; a person sees it as the agent wrote it."""


@frozen(kw_only=True)
class AgentRequest:
    """One request to an agent.

    Attributes:
        session_id: The session.
        workflow: The workflow's name.
        phase: The phase.
        attempt: Which attempt at the phase, from 1.
        turn: Which attempt at the phase in the whole session, from 1; more than `attempt` when
            the workflow came back to the phase.
        call: Which call of this attempt, from 1; a second one follows answered questions.
        briefing: The session's briefing.
        prompt: Everything that the agent reads, including briefing and files; adapters send this.
        files: The relevant files, by path; the prompt contains them, too.
        tokens_left: What the call may cost, in tokens, before the session exceeds its budget.
        prompt_digest: SHA-256 of the prompt in UTF-8, hexadecimal.
        state: The name of the agent's own state from the previous answer, or None.
        refuse: Returns why the phase may not write or delete a path; None if it may.
        anything: Whether it may write any file of the workspace.
        tell: Is called with what the agent is at, as often as it says so, in this thread.
    """

    session_id: str
    workflow: str
    phase: str
    attempt: int
    turn: int
    call: int
    briefing: str = field(repr=False)
    prompt: str = field(repr=False)
    files: Mapping[str, str] = field(repr=False, hash=False, converter=_frozen_texts)
    tokens_left: int
    prompt_digest: str
    state: str | None = None
    refuse: Callable[[str], str | None] = field(
        default=lambda _path: None, repr=False, eq=False, hash=False
    )
    anything: bool = False
    tell: Callable[[str], None] = field(
        default=lambda _text: None, repr=False, eq=False, hash=False
    )


@frozen(kw_only=True)
class EditedFile:
    """A file as an agent left it.

    Attributes:
        path: Relative to the workspace.
        content: The complete content.
        executable: Whether it is executable; None: as the file that it replaces.
    """

    path: str
    content: bytes = field(repr=False)
    executable: bool | None = False


@frozen(kw_only=True)
class WorkspaceChange:
    """The changes of an agent that edits in place.

    Attributes:
        written: The files that it created or changed.
        deleted: The paths of the files that it removed.
        refused: Changes that it may not make, each path with the reason; they are undone.
        dropped: Caches and files ignored by the project's rules; they are not taken.
        sealed: Whether it worked without any network.
    """

    written: tuple[EditedFile, ...] = field(default=(), converter=as_tuple)
    deleted: tuple[str, ...] = field(default=(), converter=as_tuple)
    refused: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    dropped: tuple[str, ...] = field(default=(), converter=as_tuple)
    sealed: bool = True


@frozen(kw_only=True)
class AgentAnswer:
    """An agent's text, and its changes if it edits in place.

    Attributes:
        text: Markdown; see `workflows.prompts.answers`.
        usage: The cost; None if the agent does not know.
        questions: Its questions, besides any in the text.
        change: Its changes if it edits in place; otherwise its files are in the text.
        state: The name of its own state, for its next request; None if it has none.
    """

    text: str
    usage: TokenUsage | None = None
    questions: tuple[AgentQuestion, ...] = field(default=(), converter=as_tuple)
    change: WorkspaceChange | None = field(default=None, repr=False)
    state: str | None = None


@frozen(kw_only=True)
class AgentIdentity:
    """An agent's identity in traces and metrics; it contains no secret.

    Attributes:
        name: The program or the model.
        provider: The vendor, as OpenTelemetry's GenAI semantic conventions name providers.
        operation: "chat" for a model called directly, "invoke_agent" for a program.
        model: The requested model, or None for the agent's default.
        host: The endpoint's host, or None.
        port: Its port, or None.
    """

    name: str
    provider: str
    operation: str = "invoke_agent"
    model: str | None = None
    host: str | None = None
    port: int | None = None


@runtime_checkable
class PhaseAgent(Protocol):
    """Answers the prompt of a phase.

    Every implementation guarantees: the call returns or raises `AgentFailed` within its own time
    limit, leaves no process of its own behind, and changes no file of the session. An agent that
    edits in place does so in a copy.

    Traces and metrics name an agent by its `identity`, an `AgentIdentity`, if it has one, else by
    its description.
    """

    @property
    def description(self) -> str:
        """The agent in one line, for the history; it contains no secret."""
        ...

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Answer a request.

        Args:
            request: Everything the agent needs to know.

        Raises:
            AgentFailed: There is no answer; the error says why, and whether a retry can help.
        """
        ...


class AgentFailed(HarnessError):
    """An agent gave no answer; it changed nothing."""

    may_recover = True
    """Whether a retry can help: after a crash it can, with a missing command it can't."""
    message = "{reason}"
    reason: str
    agent: str
    """The agent's description."""
    output: str = ""
    """The end of its output, if any."""
    usage: TokenUsage | None = None
    """The cost of the call in spite of the failure, if the agent reported it."""

    @property
    def said(self) -> str:
        """The end of its output, on one line."""
        return " ".join(self.output.split())[-300:]


class AgentTimeout(AgentFailed, kw_only=True):
    """An agent took too long and was ended."""

    reason: str = ""
    timeout_s: float

    def __str__(self) -> str:
        return (
            f"the agent ({self.agent}) gave no answer within {self.timeout_s:g} seconds and was "
            f"ended{f'; it had said: {self.said}' if self.said else ''}"
        )


class AgentCrashed(AgentFailed, kw_only=True):
    """An agent ended without an answer."""

    reason: str = ""
    exit_code: int
    """Its exit code; negative: the signal that ended it."""
    answered: bool = False
    """Whether it had already written part of an answer."""

    def __str__(self) -> str:
        code = self.exit_code
        how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        said = f": {self.said}" if self.said else " and said nothing"
        return f"the agent ({self.agent}) {how}{said}"


class AgentCutOff(AgentFailed, kw_only=True):
    """An answer did not fit into its limit of tokens; a retry would end the same way."""

    reason: str = ""
    limit: int
    """The limit, in tokens."""
    by_budget: bool = False
    """Whether the session's budget set the limit, and not the agent."""

    def __str__(self) -> str:
        whose, remedy = (
            ("what the budget has left", "extend the budget")
            if self.by_budget
            else ("its limit", "raise the limit with --max-output")
        )
        return (
            f"the answer of the agent ({self.agent}) was cut off at {self.limit:,} tokens, "
            f"{whose}; {remedy}"
        )


class AgentUnavailable(AgentFailed, kw_only=True):
    """An agent is not available at all; a retry would end the same way."""

    may_recover = False
    message = "the agent ({agent}) can't be asked: {problem}"
    reason: str = ""
    problem: str
