"""The words of a command that edits in place, with what it is given put in; pure.

{prompt_file}        the path of a file with the prompt, for programs that do not read it from
standard input
{state}              a folder of the program's own, kept from one call of the session to the next
{continue:WORDS}     these words where the program was called before and kept something there,
and nothing else: how it is told to go on with its conversation
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

PROMPT_FILE: Final = "{prompt_file}"
STATE: Final = "{state}"
_CONTINUE: Final = "{continue:"


_CLAUDE: Final = (
    *("env", "CLAUDE_CONFIG_DIR={state}", "claude", "-p", "--output-format", "json"),
    "--dangerously-skip-permissions",
)
_CODEX: Final = (
    *("env", "CODEX_HOME={state}", "codex", "exec", "--json", "--skip-git-repo-check"),
    "--dangerously-bypass-approvals-and-sandbox",
)
_OPENCODE: Final = (
    *("env", "XDG_DATA_HOME={state}", "XDG_CONFIG_HOME={state}", "XDG_STATE_HOME={state}"),
    *("opencode", "run", "--pure", "--title", "agentforge", "--format", "json", "--auto"),
)
_GEMINI: Final = (
    *("env", "GEMINI_CLI_HOME={state}", "GEMINI_CLI_TRUST_WORKSPACE=true"),
    *("gemini", "-o", "json", "--approval-mode", "yolo"),
)
_EDITING: Final = MappingProxyType(
    {
        "claude": (_CLAUDE, ("{continue:--continue}",)),
        "codex": (_CODEX, ("-",)),
        "gemini": (_GEMINI, ("{continue:--resume latest}",)),
        "opencode": (_OPENCODE, ("{continue:--continue}",)),
    }
)
"""What comes before a model's name, and what after it."""


def editing_command(name: str) -> list[str]:
    """Return the words of an agent program by its name, as it edits in a jail.

    Its own guards are off: the jail is the wall.

    Args:
        name: `claude`, `codex`, `gemini` or `opencode`, with `:MODEL` for a model of its.
    """
    program, _, model = name.partition(":")
    first, last = _EDITING[program]
    return [*first, *(["--model", model] if model else []), *last]


def keeps_state(words: Sequence[str]) -> bool:
    """Return whether a command names its state."""
    return any(STATE in word for word in words)


def words_faults(words: Sequence[str]) -> list[str]:
    """Return what is wrong with the placeholders of a command."""
    faults = []
    for word in words:
        if not word.startswith(_CONTINUE):
            continue
        if not word.endswith("}"):
            faults.append(f"{word[:60]!r} is not closed; quote it: '{{continue:--resume last}}'")
            continue
        try:
            shlex.split(word[len(_CONTINUE) : -1])
        except ValueError:
            faults.append(f"{word[:60]!r}: its quotes are not closed")
    if any(word.startswith(_CONTINUE) for word in words) and not keeps_state(words):
        faults.append("{continue:…} has nothing to go on with: no word names {state}")
    return faults


def filled_words(
    words: Sequence[str], *, prompt_file: str, state: str, continued: bool
) -> list[str]:
    """Return the words of one call.

    Args:
        words: Those of the command.
        prompt_file: Where the prompt is.
        state: Where the program's own folder is.
        continued: Whether that holds what an earlier call left.
    """
    filled: list[str] = []
    for word in words:
        if word.startswith(_CONTINUE):
            more = shlex.split(word[len(_CONTINUE) : -1]) if continued else []
        else:
            more = [word]
        filled += [one.replace(PROMPT_FILE, prompt_file).replace(STATE, state) for one in more]
    return filled
