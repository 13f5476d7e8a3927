"""What programs print at their end of what they said and what it cost; pure.

Read are the JSON of `claude -p --output-format json` (or the last line of a stream of it), of
`codex exec --json`, `gemini -o json` and `opencode run --format json`, and the line by which aider
tells tokens.
"""

from __future__ import annotations

import re
from typing import Final

from .command_output import (
    ProgramOutput,
    read_claude_output,
    read_codex_output,
    read_gemini_output,
    read_opencode_output,
)
from .port import AgentFailed, TokenUsage

_CLAUDES: Final = '"subtype"'
"""What every result of claude's has, and hardly another program's JSON."""
_GEMINIS: Final = '"stats"'
_OPENCODES: Final = '"type":"step_finish"'
_LINES: Final = 200
_AIDER: Final = re.compile(
    r"^(?:> ?)?Tokens: (?P<sent>[\d.,]+)(?P<sent_unit>[kM]?) sent"
    r"(?:, [\d.,]+[kM]? cache \w+)*"
    r", (?P<received>[\d.,]+)(?P<received_unit>[kM]?) received",
)
_UNITS: Final = {"": 1, "k": 1_000, "M": 1_000_000}


def program_output(text: str) -> ProgramOutput | None:
    """Return what an agent program printed as JSON; None where it printed something else."""
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


def usage_of(output: ProgramOutput) -> TokenUsage | None:
    """Return what a program's answer cost, or None where it does not say it."""
    return _usage(output.input_tokens, output.output_tokens)


def no_answer(found: ProgramOutput, *, agent: str, output: str) -> AgentFailed:
    """Return the error for a program that ended without an answer, with its reason and cost.

    Args:
        found: What the program reported.
        agent: The agent's description.
        output: The end of what it printed.
    """
    reason = " ".join((found.problem or "it said nothing").split())[:300]
    return AgentFailed(
        f"the agent ({agent}) gave no answer: {reason}",
        agent=agent,
        output=output,
        usage=usage_of(found),
    )


def _usage(sent: int, received: int) -> TokenUsage | None:
    if not sent and not received:
        return None
    try:
        return TokenUsage(input_tokens=sent, output_tokens=received)
    except ValueError:
        return None


def _count(number: str, unit: str) -> int:
    try:
        return round(float(number.replace(",", "")) * _UNITS[unit])
    except ValueError:
        return 0
