"""What is put into each agent program: whole files of ours, and blocks in files of the person's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from ..agent_programs import claude_code, codex
from .places import Places, Scope

BEGIN: Final = "# >>> agentforge: put here by `agentforge install codex`; `uninstall` takes it away"
END: Final = "# <<< agentforge"
_STOP_TIMEOUT_S: Final = 900
_TIMEOUT_S: Final = 60
_START_TIMEOUT_S: Final = 120
"""How long the server may take to start: some seconds, or more where the machine is busy."""
_ANSWER_TIMEOUT_S: Final = 3600
"""How long a person may take to answer; Codex gives up a tool after a minute by itself."""
_STATIC: Final = frozenset({".md"})


class Commands(NamedTuple):
    """The commands that the programs call, by absolute paths.

    Attributes:
        hook: `agentforge-hook`.
        agentforge: `agentforge`.
        version: The version of this package.
    """

    hook: Path
    agentforge: Path
    version: str


class Pieces(NamedTuple):
    """What is put into one program.

    Attributes:
        files: Files of ours, by where they are.
        blocks: A block of text for files of the person's.
        commands: What the program runs of ours.
        next_step: What the person has to do, or None.
    """

    files: Mapping[Path, bytes]
    blocks: Mapping[Path, str]
    commands: tuple[Path, ...]
    next_step: str | None


def pieces_of_claude(places: Places, scope: Scope, commands: Commands) -> Pieces:
    """Return what Claude Code loads by itself: one plugin folder, and no setting."""
    root = places.claude(scope) / "skills" / "agentforge"
    files = {root / name: content for name, content in plugin_files(commands).items()}
    hooks = _hooks(claude_code.EVENTS, f"{_quoted(commands.hook)} {claude_code.NAME}")
    files[root / "hooks" / "hooks.json"] = f"{json.dumps({'hooks': hooks}, indent=2)}\n".encode()
    trust = (
        "Claude Code loads it once you trust this folder: start `claude` here, and answer what it "
        "asks."
        if scope is Scope.PROJECT
        else None
    )
    return Pieces(files, {}, (commands.hook, commands.agentforge), trust)


def pieces_of_codex(places: Places, scope: Scope, commands: Commands) -> Pieces:
    """Return what Codex reads: a block in its configuration, and the skill."""
    folder = places.codex(scope)
    skill = plugin_files(commands)["skills/session/SKILL.md"]
    skill = skill.replace(b"name: session\n", b"name: agentforge-session\n", 1)
    return Pieces(
        {folder / "skills" / "agentforge-session" / "SKILL.md": skill},
        {folder / "config.toml": _codex_block(commands)},
        (commands.hook, commands.agentforge),
        "Codex runs no hook that you have not reviewed: start `codex`, enter /hooks, and trust "
        "those of agentforge.",
    )


PIECES: Final[Mapping[str, Callable[[Places, Scope, Commands], Pieces]]] = MappingProxyType(
    {claude_code.NAME: pieces_of_claude, codex.NAME: pieces_of_codex}
)
"""What is put into each program, by the program's name."""


def plugin_files(commands: Commands) -> dict[str, bytes]:
    """Return the plugin folder that comes with this package, with the commands filled in."""
    root = resources.files(__package__) / "plugin"
    found = {}
    for name, file in _walk(root, ""):
        text = file.read_text("utf-8")
        if Path(name).suffix not in _STATIC:
            text = text.replace("@VERSION@", _inside_json(commands.version))
            text = text.replace("@AGENTFORGE@", _inside_json(str(commands.agentforge)))
        found[name] = text.encode()
    return found


def _walk(folder: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    for one in sorted(folder.iterdir(), key=lambda entry: entry.name):
        name = f"{above}{one.name}"
        if one.is_dir():
            yield from _walk(one, f"{name}/")
        else:
            yield name, one


def _hooks(events: tuple[str, ...], command: str) -> dict[str, object]:
    return {
        event: [{"hooks": [{"type": "command", "command": command, "timeout": _timeout(event)}]}]
        for event in events
    }


def _timeout(event: str) -> int:
    return _STOP_TIMEOUT_S if event == "Stop" else _TIMEOUT_S


def _codex_block(commands: Commands) -> str:
    lines = [BEGIN]
    hook = json.dumps(f"{_quoted(commands.hook)} {codex.NAME}", ensure_ascii=False)
    for event in codex.EVENTS:
        lines += [f"[[hooks.{event}]]", f"[[hooks.{event}.hooks]]", 'type = "command"']
        lines += [f"command = {hook}", f"timeout = {_timeout(event)}"]
    lines += ["[mcp_servers.agentforge]"]
    lines += [f"command = {json.dumps(str(commands.agentforge), ensure_ascii=False)}"]
    lines += ['args = ["mcp", "--tools", "sessions,questions"]']
    lines += [
        f"startup_timeout_sec = {_START_TIMEOUT_S}",
        f"tool_timeout_sec = {_ANSWER_TIMEOUT_S}",
    ]
    lines += [END]
    return "\n".join(lines) + "\n"


def _quoted(path: Path) -> str:
    """Return a path as a word of a shell's command line, for the programs run one."""
    import shlex

    return shlex.quote(str(path))


def _inside_json(text: str) -> str:
    return json.dumps(text)[1:-1]
