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
        environment: Variables that it is given besides the caller's.
        files: Files of its working directory, which is empty but for them.
    """

    words: tuple[str, ...]
    model_option: str
    last_words: tuple[str, ...]
    read: Callable[[str], ProgramOutput | None]
    environment: Mapping[str, str] = MappingProxyType({})
    files: Mapping[str, str] = MappingProxyType({})

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


def read_opencode_output(text: str) -> ProgramOutput | None:
    """Read what `opencode run --format json` prints: an event a line."""
    answer, problem, ended = "", None, False
    given = made = 0
    for event in _objects(text):
        part = event.get("part")
        match event.get("type"):
            case "text" if isinstance(part, dict):
                answer = str(part.get("text") or "")
            case "step_finish" if isinstance(part, dict):
                ended = True
                tokens = part.get("tokens")
                cache = tokens.get("cache") if isinstance(tokens, dict) else None
                given += _count(tokens, "input") + _count(cache, "read") + _count(cache, "write")
                made += _count(tokens, "output") + _count(tokens, "reasoning")
            case "error":
                problem = _opencode_problem(event.get("error"))
    if not ended and problem is None:
        return None
    return ProgramOutput(answer, given, made, problem)


def _opencode_problem(error: object) -> str:
    if not isinstance(error, dict):
        return "error"
    data = error.get("data")
    message = data.get("message") if isinstance(data, dict) else None
    return str(message or error.get("name") or "error")


def read_gemini_output(text: str) -> ProgramOutput | None:
    """Read what `gemini -o json` prints."""
    found = _object(text)
    stats = None if found is None else found.get("stats")
    if found is None or not isinstance(stats, dict):
        return None
    models = stats.get("models")
    models = models.values() if isinstance(models, dict) else ()
    tokens = [one.get("tokens") for one in models if isinstance(one, dict)]
    given = sum(_count(one, "prompt") + _count(one, "tool") for one in tokens)
    made = sum(_count(one, "candidates") + _count(one, "thoughts") for one in tokens)
    answer, error = found.get("response"), found.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    problem = None if not error else str(message or "error")
    if not answer and problem is None and found.get("warnings"):
        problem = json.dumps(found["warnings"])[:1_000]
    return ProgramOutput(answer if isinstance(answer, str) else "", given, made, problem)


_NO_TOOLS: Final = "You answer the message that you are given. You have no tools."
_GEMINI_SETTINGS: Final = {
    "tools": {"core": []},
    "hooksConfig": {"enabled": False},
    "skills": {"enabled": False},
    "model": {"disableLoopDetection": True},  # lines that code repeats are a loop to it
    "experimental": {"enableAgents": False},
    "context": {"fileName": "none.md"},
}
"""Settings of a folder, which beat the person's: no tools, and nothing of theirs."""
_OPENCODE_CONFIG: Final = {
    "agent": {
        "agentforge": {
            "mode": "primary",
            "prompt": _NO_TOOLS,
            "permission": {"*": "deny"},
        }
    }
}
"""An agent of opencode's that has no tools."""

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
        "gemini": ProgramCommand(
            ("gemini", "-o", "json", "-e", "none"),
            "--model",
            (),
            read_gemini_output,
            MappingProxyType(
                {
                    "GEMINI_CLI_TRUST_WORKSPACE": "true",  # of the folder with these files alone
                    "GEMINI_SYSTEM_MD": ".gemini/system.md",
                }
            ),
            MappingProxyType(
                {
                    ".gemini/settings.json": json.dumps(_GEMINI_SETTINGS),
                    ".gemini/system.md": f"{_NO_TOOLS}\n",
                }
            ),
        ),
        "opencode": ProgramCommand(
            (
                *("opencode", "run", "--pure", "--agent", "agentforge"),
                *("--title", "agentforge", "--format", "json"),
            ),
            "--model",
            (),
            read_opencode_output,
            MappingProxyType(
                {
                    "OPENCODE_CONFIG_CONTENT": json.dumps(_OPENCODE_CONFIG),
                    "OPENCODE_DISABLE_CLAUDE_CODE": "1",
                }
            ),
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
