"""Parse the text and the usage that agent programs print when they end.

Supported are the JSON of `claude -p --output-format json` (or the last line of a stream of it), of
`codex exec --json`, `gemini -o json` and `opencode run --format json`, and the line in which aider
reports tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ...base.settings.spending import read_spending
from ...workflows.agents.port import MAX_CALL_TOKENS, AgentFailed, TokenUsage
from ...workflows.prompts.answers import parse_answer
from ..programs.meter import micro_usd_of, object_of
from ..programs.prices import Prices
from ..programs.tokens import Tokens

_CLAUDES: Final = '"subtype"'
"""In every result that claude prints, and hardly in another program's JSON."""
_GEMINIS: Final = '"stats"'
_OPENCODES: Final = '"type":"step_finish"'
_LINES: Final = 200
_AIDER: Final = re.compile(
    r"^(?:> ?)?Tokens: (?P<sent>[\d.,]+)(?P<sent_unit>[kM]?) sent"
    r"(?:, [\d.,]+[kM]? cache \w+)*"
    r", (?P<received>[\d.,]+)(?P<received_unit>[kM]?) received",
)
_UNITS: Final = {"": 1, "k": 1_000, "M": 1_000_000}


class ProgramOutput(NamedTuple):
    """A program's last message, with its cost.

    Attributes:
        text: The model's last message.
        input_tokens: Input tokens, cached or not, of all models and subagents.
        output_tokens: Output tokens.
        problem: Why the program ended without an answer, or None.
        micro_usd: The program's own figure of the cost, in millionths of a US dollar, or None.
        models: The tokens by model, where the program says which models it called.
    """

    text: str
    input_tokens: int
    output_tokens: int
    problem: str | None
    micro_usd: int | None = None
    models: Mapping[str, Tokens] = MappingProxyType({})


def program_output(text: str) -> ProgramOutput | None:
    """Parse an agent program's JSON output; None if the text is something else."""
    whole = text.strip()
    if not whole.startswith("{"):
        return None
    for piece in (whole, whole.rpartition("\n")[2]):
        if _CLAUDES in piece:
            found = read_claude_output(piece)
            if found is not None:
                return found
    if _GEMINIS in whole:
        return read_gemini_output(whole)
    return (read_opencode_output if _OPENCODES in whole else read_codex_output)(whole)


def printed_usage(text: str) -> TokenUsage | None:
    """Return the usage that a program printed, or None."""
    output = program_output(text)
    if output is not None:
        return usage_of(output)
    sent = received = 0
    for line in text.splitlines()[-_LINES:]:
        told = _AIDER.match(line)
        if told is not None:
            sent += _count(told["sent"], told["sent_unit"])
            received += _count(told["received"], told["received_unit"])
    return _usage(sent, received)


def said_usage(text: str) -> TokenUsage | None:
    """Return the usage that an answer itself states, or that its program printed."""
    return parse_answer(text).usage or printed_usage(text)


def usage_of(output: ProgramOutput) -> TokenUsage | None:
    """Return the cost of a program's answer, or None if the output does not state it."""
    cost = output.micro_usd
    if cost is None and output.models:
        cost = Prices(read_spending().prices).micro_usd(output.models)
    return _usage(output.input_tokens, output.output_tokens, cost)


def no_answer(found: ProgramOutput, *, agent: str, output: str) -> AgentFailed:
    """Return the error for a program that ended without an answer, with its reason and cost.

    Args:
        found: The program's report.
        agent: The agent's description.
        output: The end of its output.
    """
    reason = " ".join((found.problem or "it said nothing").split())[:300]
    return AgentFailed(
        f"the agent ({agent}) gave no answer: {reason}",
        agent=agent,
        output=output,
        usage=usage_of(found),
    )


def read_claude_output(text: str) -> ProgramOutput | None:
    """Parse the output of `claude -p --output-format json`."""
    found = object_of(text)
    if found is None or "result" not in found:
        return None
    kinds = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    models = found.get("modelUsage")
    models = list(models.values()) if isinstance(models, dict) else []
    given = sum(_number(one, kind) for one in models for kind in kinds)
    made = sum(_number(one, "outputTokens") for one in models)
    answer = found["result"] if isinstance(found["result"], str) else ""
    problem = None
    if found.get("is_error") or found.get("subtype") != "success":
        problem = answer or str(found.get("subtype"))
    cost = micro_usd_of(found.get("total_cost_usd")) or None
    return ProgramOutput(answer, given, made, problem, cost)


def read_codex_output(text: str) -> ProgramOutput | None:
    """Parse the output of `codex exec --json`: one event per line."""
    answer, problem, ended = "", None, False
    given = made = 0
    for event in _objects(text):
        match event.get("type"):
            case "item.completed":
                item = event.get("item")
                if isinstance(item, dict) and item.get("type") == "agent_message":
                    answer = str(item.get("text") or "")
            case "turn.completed":
                ended = True
                usage = event.get("usage")
                given, made = _number(usage, "input_tokens"), _number(usage, "output_tokens")
            case "turn.failed" | "error":
                error = event.get("error", event)
                message = error.get("message") if isinstance(error, dict) else None
                problem = str(message or event.get("type"))
    if not ended and problem is None:
        return None
    return ProgramOutput(answer, given, made, None if ended else problem)


def read_opencode_output(text: str) -> ProgramOutput | None:
    """Parse the output of `opencode run --format json`: one event per line."""
    answer, problem, ended = "", None, False
    given = made = cost = 0
    for event in _objects(text):
        part = event.get("part")
        match event.get("type"):
            case "text" if isinstance(part, dict):
                answer = str(part.get("text") or "")
            case "step_finish" if isinstance(part, dict):
                ended = True
                cost += micro_usd_of(part.get("cost"))
                tokens = part.get("tokens")
                cache = tokens.get("cache") if isinstance(tokens, dict) else None
                given += _number(tokens, "input") + _number(cache, "read") + _number(cache, "write")
                made += _number(tokens, "output") + _number(tokens, "reasoning")
            case "error":
                problem = _opencode_problem(event.get("error"))
    if not ended and problem is None:
        return None
    return ProgramOutput(answer, given, made, problem, cost or None)


def _opencode_problem(error: object) -> str:
    if not isinstance(error, dict):
        return "error"
    data = error.get("data")
    message = data.get("message") if isinstance(data, dict) else None
    return str(message or error.get("name") or "error")


def read_gemini_output(text: str) -> ProgramOutput | None:
    """Parse the output of `gemini -o json`."""
    found = object_of(text)
    stats = None if found is None else found.get("stats")
    if found is None or not isinstance(stats, dict):
        return None
    named = stats.get("models")
    models = {
        name: _gemini_tokens(one.get("tokens"))
        for name, one in (named if isinstance(named, dict) else {}).items()
        if isinstance(one, dict)
    }
    given = sum(one.input + one.cache_read for one in models.values())
    made = sum(one.output + one.reasoning for one in models.values())
    answer, error = found.get("response"), found.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    problem = None if not error else str(message or "error")
    if not answer and problem is None and found.get("warnings"):
        problem = json.dumps(found["warnings"])[:1_000]
    said = answer if isinstance(answer, str) else ""
    return ProgramOutput(said, given, made, problem, models=models)


def _gemini_tokens(of: object) -> Tokens:
    given = _number(of, "prompt") + _number(of, "tool")
    cached = min(given, _number(of, "cached"))
    thought = _number(of, "thoughts")
    return Tokens(given - cached, cached, 0, _number(of, "candidates"), thought)


def _usage(sent: int, received: int, micro_usd: int | None = None) -> TokenUsage | None:
    if not sent and not received:
        return None
    try:
        return TokenUsage(input_tokens=sent, output_tokens=received, micro_usd=micro_usd)
    except ValueError:
        return None


def _count(number: str, unit: str) -> int:
    try:
        return round(float(number.replace(",", "")) * _UNITS[unit])
    except ValueError:
        return 0


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        found = object_of(line)
        if found is not None:
            yield found


def _number(of: object, name: str) -> int:
    value = of.get(name) if isinstance(of, dict) else None
    return value if type(value) is int and 0 <= value <= MAX_CALL_TOKENS else 0
