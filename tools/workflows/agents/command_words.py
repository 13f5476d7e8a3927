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


def editing_command(name: str) -> list[str]:
    """Return the words of an agent program by its name, `claude` or `codex`, as it edits in a jail.

    Its own guards are off: the jail is the wall.

    Args:
        name: The program, with `:MODEL` for a model of its.
    """
    program, _, model = name.partition(":")
    if program == "claude":
        return [*_CLAUDE, *(["--model", model] if model else []), "{continue:--continue}"]
    return [*_CODEX, *(["-m", model] if model else []), "-"]


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
