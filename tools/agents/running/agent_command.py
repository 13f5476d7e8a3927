"""The command line of an agent that edits in place, and its program's state between calls.

{prompt_file}        the path of a file with the prompt, for programs that do not read it from
standard input
{state}              a folder for the program's own state, preserved between calls of the session
{continue:WORDS}     these words if an earlier call left state there, else nothing: the options
that make the program continue its conversation

Each answer names the state that the program left then, so a session that is taken back continues
from the state of that time. If a state can't be saved, the program starts without one.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from attrs import frozen

from ...base.event_log import get_logger
from ...base.files import DurableError, OsFileSystem, discard_tree, make_durable_directory
from ...base.files.atomic_file import random_token
from ...base.files.filesystem import DIRECTORY_FLAGS
from ...base.files.safe_path import directory_beneath
from ...base.files.trees import CopyLimits, TreeTooLarge, copy_tree
from ...harness.session_layout import AGENT_STATE

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
"""The words before a model's name, and those after it."""
LIMITS: Final = CopyLimits(max_entries=10_000, max_bytes=64 << 20, max_depth=32)
"""The most that is saved of one state."""
_log = get_logger("agentforge.agents")


def editing_command(name: str) -> list[str]:
    """Return the command line with which an agent program edits in a jail.

    The program's own guards are switched off: the jail contains it.

    Args:
        name: `claude`, `codex`, `gemini` or `opencode`, with `:MODEL` for one of its models.
    """
    program, _, model = name.partition(":")
    first, last = _EDITING[program]
    return [*first, *(["--model", model] if model else []), *last]


def keeps_state(words: Sequence[str]) -> bool:
    """Return whether a command has the placeholder of its state."""
    return any(STATE in word for word in words)


def words_faults(words: Sequence[str]) -> list[str]:
    """Return the faults of a command's placeholders."""
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
        words: The command's words.
        prompt_file: The path of the prompt.
        state: The path of the program's own folder.
        continued: Whether that folder holds state of an earlier call.
    """
    filled: list[str] = []
    for word in words:
        if word.startswith(_CONTINUE):
            more = shlex.split(word[len(_CONTINUE) : -1]) if continued else []
        else:
            more = [word]
        filled += [one.replace(PROMPT_FILE, prompt_file).replace(STATE, state) for one in more]
    return filled


@frozen
class AgentStates:
    """The states of one session's agent.

    Attributes:
        session_directory: The session's directory.
    """

    session_directory: Path

    def bring(self, name: str | None, target_fd: int) -> bool:
        """Copy a state into an empty folder; return whether that gave it any content."""
        if name is None:
            return False
        fs = OsFileSystem()
        try:
            fd = os.open(self.session_directory / AGENT_STATE / name, DIRECTORY_FLAGS)
        except OSError:
            return False
        try:
            copy_tree(fs, fd, target_fd, limits=LIMITS)
        finally:
            os.close(fd)
        return bool(fs.listdir(target_fd))

    def keep(
        self, name: str, source_fd: int, *, former: str | None, left_out: Collection[str] = ()
    ) -> str | None:
        """Save a state, remove all others but the former one; return its name, or None on failure.

        Args:
            name: Its name; a state of this name is replaced.
            source_fd: The folder, open.
            former: The state that the program continued from.
            left_out: The paths of what is not saved.
        """
        fs = OsFileSystem()
        folder = self.session_directory / AGENT_STATE
        make_durable_directory(fs, folder)
        fd = os.open(folder, DIRECTORY_FLAGS)
        try:
            for one in fs.listdir(fd):
                if one != former or one == name:
                    discard_tree(fs, fd, one, parent=folder, token=random_token)
            fs.mkdir(name, 0o700, dir_fd=fd)
            with directory_beneath(fs, fd, [name]) as target_fd:
                copy_tree(
                    fs,
                    source_fd,
                    target_fd,
                    limits=LIMITS,
                    left_out=lambda entry: "/".join(entry.names) in left_out,
                )
        except (TreeTooLarge, OSError, DurableError) as error:
            _log.warning("agent.state_not_kept", name=name, problem=str(error))
            with suppress(OSError, DurableError):
                discard_tree(fs, fd, name, parent=folder, token=random_token)
            return None
        finally:
            os.close(fd)
        return name
