"""The port to the agent that does the work of a phase, and the values that go through it.

An agent is asked once and answers once. Most give text for text: they see no session and no disk;
what they are to know stands in the request, what they want done stands in the answer. So any
command line, any model behind HTTP and any directory of recorded answers can be one. An agent that
edits in place works in a copy of the session's workspace; its answer is what it changed there.
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
    """Which agent does the work, so that another process can call the same one.

    Attributes:
        kind: "command", "program", "recorded", "http", or "plugin" for one that a package adds.
        value: The command line, the program's name, the directory of recordings, the model's
            address, or the plugin's name with what follows it.
        timeout_s: How long an answer may take, in seconds, or None for the agent's default.
        max_output: The most tokens of an endpoint's answer, or None for the default.
        network: Whether a command that edits in place has the network; unsealed if so.
        environment: The names of the variables that it is given of this process's environment.
    """

    kind: str
    value: str
    timeout_s: float | None = None
    max_output: int | None = None
    network: bool = False
    environment: tuple[str, ...] = field(default=(), converter=as_tuple)

    @property
    def text(self) -> str:
        """How `--agent` names it."""
        return f"recorded:{self.value}" if self.kind == "recorded" else self.value


@frozen(kw_only=True)
class AgentParameters:
    """What an agent is made with.

    Attributes:
        timeout_s: How long an answer may take, in seconds, or None for the agent's default.
        max_output: The most tokens of an endpoint's answer, or None for the default.
        runner: What runs a command or a program; as this process's own if None.
        environment: The environment of either; this process's own if None.
    """

    timeout_s: float | None = None
    max_output: int | None = None
    runner: ProgramRunner | None = None
    environment: Mapping[str, str] | None = None


MAX_CALL_TOKENS: Final = 1_000_000_000
"""The most that a call can cost, each way: what is beyond is no count, and no session holds it."""


@frozen(kw_only=True)
class TokenUsage:
    """What a call cost.

    Attributes:
        input_tokens: Tokens that went in, 0 to a thousand million.
        output_tokens: Tokens that came out, 0 to a thousand million.
        estimated: Whether we counted them (3 bytes of UTF-8 a token) because the agent did not
            say.
    """

    input_tokens: int
    output_tokens: int
    estimated: bool = False

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
        """Both together."""
        return self.input_tokens + self.output_tokens


AgentOption = Option
"""One of the answers that a question offers; what an agent offers, a person is offered."""

AgentQuestion = Question
"""Something that only a person can decide; what an agent asks, a person is asked."""


@frozen(kw_only=True)
class AgentRequest:
    """One call of an agent.

    Attributes:
        session_id: The session that it is made for.
        workflow: The workflow's name.
        phase: The phase.
        attempt: Which attempt at the phase, from 1.
        turn: Which attempt at the phase in the whole session, from 1; more than `attempt` when
            the workflow came back to the phase.
        call: Which call of this attempt, from 1; a second one follows answered questions.
        briefing: What the session says of itself.
        prompt: All that the agent reads, briefing and files included: what adapters send.
        files: The files that matter, by path; they stand in the prompt too.
        tokens_left: What the call may cost, in tokens, before the session would overspend.
        prompt_digest: SHA-256 of the prompt in UTF-8, hexadecimal.
        state: What the answer before this one named as the agent's own state, or None.
        refuse: Says why the phase may not write or delete a path, or None where it may.
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


@frozen(kw_only=True)
class EditedFile:
    """A file as an agent left it.

    Attributes:
        path: Relative to the workspace.
        content: All of it.
        executable: Whether it can be run; None: as the file is that it replaces.
    """

    path: str
    content: bytes = field(repr=False)
    executable: bool | None = False


@frozen(kw_only=True)
class WorkspaceChange:
    """What an agent that edits in place changed.

    Attributes:
        written: The files that it made or changed.
        deleted: The paths of those that it removed.
        refused: What it changed besides and may not, each path with the reason; put back.
        dropped: Caches and files that the project's rules ignore, which are not taken.
        sealed: Whether it worked without any network.
    """

    written: tuple[EditedFile, ...] = field(default=(), converter=as_tuple)
    deleted: tuple[str, ...] = field(default=(), converter=as_tuple)
    refused: tuple[tuple[str, str], ...] = field(default=(), converter=as_tuple)
    dropped: tuple[str, ...] = field(default=(), converter=as_tuple)
    sealed: bool = True


@frozen(kw_only=True)
class AgentAnswer:
    """What an agent said, and what it did if it edits in place.

    Attributes:
        text: Markdown; see `workflows.answers`.
        usage: What it cost; None if the agent does not know.
        questions: What it asks, besides any that stand in the text.
        change: What it changed, if it edits in place; else its files stand in the text.
        state: Names its own state, for its next request; None if it has none.
    """

    text: str
    usage: TokenUsage | None = None
    questions: tuple[AgentQuestion, ...] = field(default=(), converter=as_tuple)
    change: WorkspaceChange | None = field(default=None, repr=False)
    state: str | None = None


@frozen(kw_only=True)
class AgentIdentity:
    """Who an agent is, as traces and metrics tell agents apart; no secret is in it.

    Attributes:
        name: The program or the model.
        provider: Whose it is, as the GenAI semantic conventions of OpenTelemetry name providers.
        operation: "chat" for a model that is asked directly, "invoke_agent" for a program.
        model: The model that is asked for, or None where the agent's own default is.
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
    """Does the thinking of a phase.

    Asked of every implementation: the call returns or raises `AgentFailed` within its own time
    limit and leaves no process of its own behind; it changes no file of the session. One that edits
    in place does so in a copy.

    One that has an `identity`, an `AgentIdentity`, goes by that in traces and metrics; any other by
    its description.
    """

    @property
    def description(self) -> str:
        """Name the agent in one line, for the history; no secret is in it."""
        ...

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Answer a request.

        Args:
            request: All there is to know.

        Raises:
            AgentFailed: There is no answer; the error says why and whether trying again can help.
        """
        ...


class AgentFailed(HarnessError):
    """An agent gave no answer; nothing was changed by it."""

    may_recover = True
    """Whether another try may go better: a crash may, a missing command won't."""
    message = "{reason}"
    reason: str
    agent: str
    """The agent's description."""
    output: str = ""
    """The end of what it printed, if anything."""
    usage: TokenUsage | None = None
    """What the call cost all the same, if the agent said so."""

    @property
    def said(self) -> str:
        """The end of what it printed, on one line."""
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
    """Whether it had written anything of an answer before."""

    def __str__(self) -> str:
        code = self.exit_code
        how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        said = f": {self.said}" if self.said else " and said nothing"
        return f"the agent ({self.agent}) {how}{said}"


class AgentCutOff(AgentFailed, kw_only=True):
    """An answer did not fit into the tokens that it may have; another try would end likewise."""

    reason: str = ""
    limit: int
    """How many tokens it may have."""
    by_budget: bool = False
    """Whether that is what the session's budget has left, and not the agent's limit."""

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
    """An agent can't be asked at all; another try would end the same way."""

    may_recover = False
    message = "the agent ({agent}) can't be asked: {problem}"
    reason: str = ""
    problem: str
