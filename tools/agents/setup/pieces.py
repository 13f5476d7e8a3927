"""What is installed in each agent program: our own files, and blocks in files of the person's."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ..programs import claude_code, codex, gemini, opencode
from .manifest import Places, Scope

BEGIN: Final = "# >>> agentforge: put here by `agentforge install codex`; `--remove` takes it away"
END: Final = "# <<< agentforge"
_STOP_TIMEOUT_S: Final = 900
_TIMEOUT_S: Final = 60
_START_TIMEOUT_S: Final = 120
"""How long the server may take to start: a fraction of a second, more on a busy machine."""
_ANSWER_TIMEOUT_S: Final = 3600
"""How long a person may take to answer; Codex's own default ends a tool after a minute."""
_GUARD: Final = Path(__file__).with_name("hook.sh")
"""The script that calls the hook only where it may have something to do."""


class Commands(NamedTuple):
    """The commands that the programs call: by absolute paths, or by names in a project's files.

    Attributes:
        hook: `agentforge-hook`.
        agentforge: `agentforge`.
        version: The version of this package.
    """

    hook: Path
    agentforge: Path
    version: str

    def named(self) -> Commands:
        """Return them as a project's files name them: other machines have them elsewhere."""
        return self._replace(hook=Path(self.hook.name), agentforge=Path(self.agentforge.name))


class Pieces(NamedTuple):
    """The pieces to install in one program.

    Attributes:
        files: Our own files, by path.
        blocks: A block of text for each of the person's files.
        commands: Our commands that the program runs.
        next_step: What the person has to do next, or None.
        members: Members for JSON files of the person's.
    """

    files: Mapping[Path, bytes]
    blocks: Mapping[Path, str]
    commands: tuple[Path, ...]
    next_step: str | None
    members: Mapping[Path, Mapping[str, Any]] = MappingProxyType({})


def pieces_of_claude(places: Places, scope: Scope, commands: Commands) -> Pieces:
    """Return the pieces of Claude Code: one plugin folder, which it loads by itself; no setting."""
    root = places.claude(scope) / "skills" / "agentforge"
    files = {root / name: content for name, content in plugin_files(commands).items()}
    hooks = _hooks(claude_code.EVENTS, hook_line(commands.hook, claude_code.NAME))
    files[root / "hooks" / "hooks.json"] = f"{json.dumps({'hooks': hooks}, indent=2)}\n".encode()
    trust = (
        "Claude Code loads it once you trust this folder: start `claude` here, and answer what it "
        "asks."
        if scope is Scope.PROJECT
        else None
    )
    return Pieces(files, {}, (commands.hook, commands.agentforge), trust)


def pieces_of_codex(places: Places, scope: Scope, commands: Commands) -> Pieces:
    """Return the pieces of Codex: a block in its configuration, and the skill."""
    folder = places.codex(scope)
    return Pieces(
        {folder / "skills" / "agentforge-session" / "SKILL.md": _skill(plugin_files(commands))},
        {folder / "config.toml": _codex_block(commands)},
        (commands.hook, commands.agentforge),
        "Codex runs no hook that you have not reviewed: start `codex`, enter /hooks, and trust "
        "those of agentforge.",
    )


def pieces_of_opencode(places: Places, scope: Scope, commands: Commands) -> Pieces:
    """Return the pieces of opencode: plugin, skill and commands, loaded by itself; no setting."""
    folder = places.opencode(scope)
    shared = plugin_files(commands)
    files = {
        folder / "plugin" / "agentforge.js": plugin_files(commands, "opencode")["agentforge.js"],
        folder / "skills" / "agentforge-session" / "SKILL.md": _skill(shared),
    }
    for name, content in shared.items():
        if name.startswith("commands/"):
            files[folder / "command" / "agentforge" / name.removeprefix("commands/")] = content
    return Pieces(files, {}, (commands.hook, commands.agentforge), None)


def pieces_of_gemini(places: Places, scope: Scope, commands: Commands) -> Pieces:
    """Return the pieces of Gemini CLI: an extension, which is possible for a user only.

    For one project the pieces are members of its settings, with the skill and commands beside them.
    """
    is_project = scope is Scope.PROJECT
    folder = places.gemini(scope)
    root = folder if is_project else folder / "extensions" / "agentforge"
    shared, files = plugin_files(commands), {}
    files[root / "skills" / "agentforge-session" / "SKILL.md"] = _skill(shared)
    for name, content in shared.items():
        if name.startswith("commands/"):
            command = Path(name).with_suffix(".toml").name
            files[root / "commands" / "agentforge" / command] = _gemini_command(content)
    extension = plugin_files(commands, "gemini")["gemini-extension.json"]
    hooks = _gemini_hooks(commands.hook)
    run = (commands.hook, commands.agentforge)
    if is_project:
        members = {"mcpServers": json.loads(extension)["mcpServers"], "hooks": hooks}
        return Pieces(files, {}, run, _GEMINI_TRUST, {folder / "settings.json": members})
    files[root / "gemini-extension.json"] = extension
    text = f"{json.dumps({'hooks': hooks}, indent=2)}\n"
    files[root / "hooks" / "hooks.json"] = text.encode()
    return Pieces(files, {}, run, None)


_GEMINI_TRUST: Final = (
    "Gemini CLI runs a project's hooks once you trust this folder: start `gemini` here, and answer "
    "what it asks."
)


_LAST_PIECE: Final = """it=$(cat); case "${it##*'"llm_response"'}" in *'"finishReason":"'*)"""
"""Lets only the last piece of an answer through: the program reports each piece as it arrives."""


def _gemini_hooks(hook: Path) -> dict[str, list[object]]:
    """Return the hooks in Gemini CLI's form; its time limits are in milliseconds.

    Any exit code but 0 and 1 blocks the turn there, even that of a missing command.
    """
    command = hook_line(hook, gemini.NAME)
    commands = {"AfterModel": f'{_LAST_PIECE} printf %s "$it" | {{ {command}; }};; esac'}
    return {
        event: [
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": commands.get(event, command),
                        "timeout": timeout * 1_000,
                    }
                ]
            }
        ]
        for event in gemini.EVENTS
        for timeout in (_STOP_TIMEOUT_S if event == "AfterAgent" else _TIMEOUT_S,)
    }


def _gemini_command(content: bytes) -> bytes:
    """Return a command of the plugin in Gemini CLI's form."""
    _, head, prompt = content.decode().split("---\n", 2)
    description = head.partition("description:")[2].partition("\n")[0].strip()
    prompt = prompt.strip().replace("$ARGUMENTS", "{{args}}")
    named = {"description": description, "prompt": prompt}
    return "".join(f"{name} = {json.dumps(text)}\n" for name, text in named.items()).encode()


PIECES: Final[Mapping[str, Callable[[Places, Scope, Commands], Pieces]]] = MappingProxyType(
    {
        claude_code.NAME: pieces_of_claude,
        codex.NAME: pieces_of_codex,
        gemini.NAME: pieces_of_gemini,
        opencode.NAME: pieces_of_opencode,
    }
)
"""The function that returns a program's pieces, by the program's name."""


def _skill(shared: Mapping[str, bytes]) -> bytes:
    """Return the skill with a full name, for programs that put no plugin name before it."""
    skill = shared["skills/session/SKILL.md"]
    return skill.replace(b"name: session\n", b"name: agentforge-session\n", 1)


def plugin_files(commands: Commands, folder: str = "plugin") -> dict[str, bytes]:
    """Return the files of a folder of this package, with the commands filled in."""
    root = resources.files(__package__) / folder
    found = {}
    for name, file in _walk(root, ""):
        text = file.read_text("utf-8")
        if Path(name).suffix == ".md":
            text = text.replace("@AGENTFORGE@", shlex.quote(str(commands.agentforge)))
        else:
            text = text.replace("@VERSION@", _inside_json(commands.version))
            text = text.replace("@AGENTFORGE@", _inside_json(str(commands.agentforge)))
            text = text.replace("@HOOK@", _inside_json(str(commands.hook)))
            guard = str(_GUARD) if commands.hook.is_absolute() else ""
            text = text.replace("@GUARD@", _inside_json(guard))
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
        event: [{"hooks": [{"type": "command", "command": command, "timeout": timeout_s(event)}]}]
        for event in events
    }


def timeout_s(event: str) -> int:
    """Return how long Claude Code and Codex wait for the hook of an event, in seconds."""
    return _STOP_TIMEOUT_S if event == "Stop" else _TIMEOUT_S


def _codex_block(commands: Commands) -> str:
    lines = [BEGIN]
    hook = json.dumps(hook_line(commands.hook, codex.NAME), ensure_ascii=False)
    for event in codex.EVENTS:
        lines += [f"[[hooks.{event}]]", f"[[hooks.{event}.hooks]]", 'type = "command"']
        lines += [f"command = {hook}", f"timeout = {timeout_s(event)}"]
    server = json.dumps(str(commands.agentforge), ensure_ascii=False)
    lines += ["[mcp_servers.agentforge]", f"command = {server}"]
    lines += ['args = ["mcp"]']
    # Codex passes few variables on; the server needs these to find the person's own settings.
    lines += ['env_vars = ["XDG_STATE_HOME", "XDG_CONFIG_HOME"]']
    lines += [f"startup_timeout_sec = {_START_TIMEOUT_S}"]
    lines += [f"tool_timeout_sec = {_ANSWER_TIMEOUT_S}", END]
    return "\n".join(lines) + "\n"


def hook_line(hook: Path, program: str) -> str:
    """Return the command line by which a program calls our hook; silent if the hook is missing.

    A hook named by its path is called through `hook.sh`, which is of this package and never of a
    project. A hook named without its path comes from a project's files.
    """
    word, guard = shlex.quote(str(hook)), shlex.quote(str(_GUARD))
    if hook.is_absolute():
        return f"test -r {guard} && sh {guard} {word} {program} || true"
    return f"command -v {word} >/dev/null && {word} {program} || true"


def _inside_json(text: str) -> str:
    return json.dumps(text)[1:-1]
