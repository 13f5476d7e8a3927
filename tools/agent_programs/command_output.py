"""What an agent program prints when it is asked once, as JSON: answer and cost; pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

MAX_TOKENS: Final = 1_000_000_000


class ProgramOutput(NamedTuple):
    """One answer.

    Attributes:
        text: What the model said last.
        input_tokens: What went in, cached or not, of all models and subagents.
        output_tokens: What came out.
        problem: Why the program ended without an answer, or None.
    """

    text: str
    input_tokens: int
    output_tokens: int
    problem: str | None


class ProgramCommand(NamedTuple):
    """How a program is asked once: the prompt on standard input, no tools, nothing of the person's.

    Attributes:
        words: The command line.
        model_option: What comes before a model's name.
        last_words: What comes after it.
        read: Reads the output; None if it is not what the program prints.
    """

    words: tuple[str, ...]
    model_option: str
    last_words: tuple[str, ...]
    read: Callable[[str], ProgramOutput | None]

    def command(self, model: str | None) -> list[str]:
        """Return the command line for a model, or for the program's own choice."""
        named = [self.model_option, model] if model else []
        return [*self.words, *named, *self.last_words]


def read_claude_output(text: str) -> ProgramOutput | None:
    """Read what `claude -p --output-format json` prints."""
    found = _object(text)
    if found is None or "result" not in found:
        return None
    kinds = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
    models = found.get("modelUsage")
    models = list(models.values()) if isinstance(models, dict) else []
    given = sum(_count(one, kind) for one in models for kind in kinds)
    made = sum(_count(one, "outputTokens") for one in models)
    answer = found["result"] if isinstance(found["result"], str) else ""
    problem = None
    if found.get("is_error") or found.get("subtype") != "success":
        problem = answer or str(found.get("subtype"))
    return ProgramOutput(answer, given, made, problem)


def read_codex_output(text: str) -> ProgramOutput | None:
    """Read what `codex exec --json` prints: an event a line."""
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
                given, made = _count(usage, "input_tokens"), _count(usage, "output_tokens")
            case "turn.failed" | "error":
                error = event.get("error", event)
                message = error.get("message") if isinstance(error, dict) else None
                problem = str(message or event.get("type"))
    if not ended and problem is None:
        return None
    return ProgramOutput(answer, given, made, None if ended else problem)


COMMANDS: Final[Mapping[str, ProgramCommand]] = MappingProxyType(
    {
        "claude": ProgramCommand(
            (
                *("claude", "-p", "--tools", "", "--setting-sources", ""),
                *("--strict-mcp-config", "--output-format", "json"),
            ),
            "--model",
            (),
            read_claude_output,
        ),
        "codex": ProgramCommand(
            ("codex", "exec", "--json", "-s", "read-only", "--skip-git-repo-check"),
            "-m",
            ("-",),
            read_codex_output,
        ),
    }
)
"""How each program is asked, by the name of its command."""


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        found = _object(line)
        if found is not None:
            yield found


def _count(of: object, name: str) -> int:
    value = of.get(name) if isinstance(of, dict) else None
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else 0
