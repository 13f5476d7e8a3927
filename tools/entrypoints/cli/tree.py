"""The tree of commands: those at the top, those in groups, and what to type for another word."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Final

from .on_demand import ListedCommand, new_group

_COMMANDS: Final = f"{__package__}.commands"

_TREE: Final = Path(__file__).with_suffix(".txt")
"""Each group with the panels of its help, and each command's name, its place and its help.

The place is a module in `entrypoints.cli.commands`; the function has the command's name unless it
follows the module after a colon.
"""

_FORMER: Final = MappingProxyType(
    {
        "cleanup": "prune --kind agent",
        "drive": "run WORKFLOW.yaml",
        "help": "--help",
        "take-up": "resume ID --in PROGRAM",
        "uninstall": "install --remove PROGRAM",
    }
)
"""What to type for words that no command has."""


def _read() -> dict[str, dict[str, ListedCommand]]:
    groups: dict[str, dict[str, ListedCommand]] = {}
    group = panel = ""
    for line in _TREE.read_text("utf-8").splitlines():
        indent = len(line) - len(line.lstrip())
        if not indent:
            group = line.removeprefix("top")
        elif indent == 1:
            panel = line.strip()
        else:
            name, at, text = line.split(maxsplit=2)
            target = f"{__package__}{at}" if at.startswith(".") else f"{_COMMANDS}.{at}"
            target = target if ":" in target else f"{target}:{name}"
            groups.setdefault(group, {})[name] = ListedCommand(target, text, panel)
    return groups


TREE: Final[Mapping[str, Mapping[str, ListedCommand]]] = _read()
"""The commands of each group, by its words; those at the top have none."""


def instead(group: str, word: str) -> str:
    """Return what to type instead of a word that names no command of a group.

    Returns:
        The end of a sentence: the command of that word elsewhere, else the one of the nearest word;
        "" if no word is near.
    """
    found = dict(_FORMER)
    for name in (group, "", *TREE):
        for one in TREE.get(name, ()):
            found.setdefault(one, f"{name} {one}".strip())
    if word in found:
        return f"; it is `agentforge {found[word]}`"
    near = get_close_matches(word, TREE.get(group, ()), 1) or get_close_matches(word, found, 1)
    return f"; the nearest is `agentforge {found[near[0]]}`" if near else ""


session = new_group("session", TREE["session"], help="Look at one session, and change it.")
fleet = new_group("fleet", TREE["fleet"], help="Have workers run sessions, here and elsewhere.")
store = new_group(
    "store",
    TREE["fleet store"],
    help="Look at where the sessions are, bring its tables, and copy sessions between stores.",
)
sandbox = new_group(
    "sandbox",
    TREE["sandbox"],
    help="Run code in the sandbox, and manage the files of its sessions.",
)
webhooks = new_group(
    "webhooks",
    TREE["webhooks"],
    help="List the webhooks of the configuration and what waits for them; try them; deliver.",
)
