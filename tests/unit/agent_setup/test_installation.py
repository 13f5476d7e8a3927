"""What is put into agent programs, and that taking it away leaves every byte as it was."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from agentforge_sessions.agents.setup import installation
from agentforge_sessions.agents.setup.health import installed_programs
from agentforge_sessions.agents.setup.installation import SetupRefused
from agentforge_sessions.agents.setup.manifest import Places, Scope, read_manifest, write_manifest
from agentforge_sessions.agents.setup.pieces import PIECES, Commands, hook_line

FOREIGN = """# mine, with a comment
model = "o3"   # and another

[[hooks.PreToolUse]]
[[hooks.PreToolUse.hooks]]
type = "command"
command = "my own hook"

[mcp_servers.other]
command = "other"
"""


class Machine:
    """One person's home and project."""

    def __init__(self, folder: Path) -> None:
        self.places = Places(folder / "home", folder / "project", {})
        self.places.home.mkdir(parents=True)
        self.places.project.mkdir()
        commands = folder / "bin with space"
        commands.mkdir()
        self.commands = Commands(commands / "agentforge-hook", commands / "agentforge", "1.2.3")
        for one in self.commands[:2]:
            one.write_text("#!/bin/sh\n")
            one.chmod(0o755)

    def install(self, program: str, scope: Scope = Scope.USER) -> list[str]:
        named = self.commands if scope is Scope.USER else self.commands.named()
        pieces = PIECES[program](self.places, scope, named)
        file = installation.manifest_path(self.places, program, scope)
        steps = installation.plan_install(pieces, read_manifest(file))
        installation.install(pieces, steps, file)
        return [one.change.value for one in steps]

    def uninstall(self, program: str, scope: Scope = Scope.USER) -> list[str]:
        file = installation.manifest_path(self.places, program, scope)
        manifest = read_manifest(file)
        if manifest is None:
            return []
        steps = installation.plan_uninstall(manifest, file.parent / "kept")
        installation.uninstall(manifest, steps, file)
        return [one.change.value for one in steps]

    def content(self) -> dict[str, bytes]:
        """Return every file and folder, with its content and mode."""
        root = self.places.home.parent
        found = {}
        for path in sorted(root.rglob("*")):
            mode = oct(path.lstat().st_mode).encode()
            found[str(path)] = mode + (path.read_bytes() if path.is_file() else b"")
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def codex_config(machine: Machine, text: str) -> Path:
    config = machine.places.home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_bytes(text.encode())
    return config


@pytest.mark.parametrize("program", list(PIECES))
@pytest.mark.parametrize("scope", list(Scope))
def test_where_nothing_was_nothing_is_left(machine: Machine, program: str, scope: Scope) -> None:
    before = machine.content()
    assert machine.install(program, scope)
    assert machine.content() != before
    assert machine.install(program, scope) == []
    assert machine.uninstall(program, scope)
    assert machine.content() == before
    assert machine.uninstall(program, scope) == []


@pytest.mark.parametrize("scope", list(Scope))
def test_no_folder_is_left_by_several_programs_in_whatever_order_they_go(
    machine: Machine, scope: Scope
) -> None:
    before = machine.content()
    for order in (list(PIECES), list(reversed(PIECES))):
        for program in PIECES:
            machine.install(program, scope)
        for program in order:
            assert machine.uninstall(program, scope)
        assert machine.content() == before


@pytest.mark.parametrize("program", list(PIECES))
def test_files_of_a_project_name_no_path_of_this_machine(machine: Machine, program: str) -> None:
    """The project has nothing but these files: no record of the installation, either."""
    before = set(machine.content())
    machine.install(program, Scope.PROJECT)
    new = [Path(one) for one in set(machine.content()) - before]
    root = str(machine.places.home.parent).encode()
    written = [one for one in new if one.is_file() and one.is_relative_to(machine.places.project)]
    assert written
    assert [one for one in written if root in one.read_bytes()] == []
    assert not (machine.places.project / ".agentforge").exists()
    assert any(b"agentforge-hook" in one.read_bytes() for one in written)


@pytest.mark.parametrize("program", list(PIECES))
def test_files_of_a_project_that_came_with_a_clone_are_installed_over_and_go(
    tmp_path: Path, program: str
) -> None:
    theirs, ours = Machine(tmp_path / "theirs"), Machine(tmp_path / "ours")
    theirs.install(program, Scope.PROJECT)
    shutil.copytree(theirs.places.project, ours.places.project, dirs_exist_ok=True)
    before = {one: text.split() for one, text in ours.content().items()}
    ours.install(program, Scope.PROJECT)
    after = {one: text.split() for one, text in ours.content().items() if one in before}
    assert after == before
    assert [one.problems for one in installed_programs(ours.places)] == [
        ("agentforge-hook can't be run", "agentforge can't be run")
    ]
    assert ours.uninstall(program, Scope.PROJECT)
    left = [one for one in ours.places.project.rglob("*") if one.is_file()]
    assert not any(b"agentforge" in one.read_bytes() for one in left)


@pytest.mark.parametrize("program", ["claude-code", "codex", "gemini"])
def test_hooks_of_a_project_are_silent_without_this_package(machine: Machine, program: str) -> None:
    line = hook_line(Path("agentforge-hook"), program)
    machine.install(program, Scope.PROJECT)
    written = [one for one in machine.places.project.rglob("*") if one.is_file()]
    assert any(json.dumps(line)[1:-1].encode() in one.read_bytes() for one in written)

    def called(path: Path) -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            env={"PATH": str(path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    assert called(machine.places.home) == (0, "")
    command = machine.commands.hook.parent / "agentforge-hook"
    command.write_text('#!/bin/sh\necho "$@"\n')
    assert called(command.parent) == (0, f"{program}\n")


def test_a_hook_of_the_persons_own_that_names_this_package_stays(machine: Machine) -> None:
    own = '{"hooks": {"AfterAgent": [{"hooks": [{"command": "agentforge show --json"}]}]}}'
    settings = gemini_settings(machine, own)
    machine.install("gemini", Scope.PROJECT)
    settings.write_text(settings.read_text().replace('"timeout": 60000', '"timeout": 5'))
    machine.uninstall("gemini", Scope.PROJECT)
    assert json.loads(settings.read_text()) == json.loads(own)


@pytest.mark.parametrize("text", ["", FOREIGN, FOREIGN.rstrip("\n"), FOREIGN.replace("\n", "\r\n")])
def test_a_persons_configuration_keeps_every_byte(machine: Machine, text: str) -> None:
    config = codex_config(machine, text)
    config.chmod(0o640)
    before = machine.content()
    machine.install("codex")
    installed = config.read_bytes().decode()
    assert installed.startswith(text)
    found = tomllib.loads(installed)
    assert found["mcp_servers"]["agentforge"]["command"] == str(machine.commands.agentforge)
    assert len(found["hooks"]["PreToolUse"]) == (2 if "PreToolUse" in text else 1)
    machine.install("codex")
    assert config.read_bytes().decode() == installed
    machine.uninstall("codex")
    assert machine.content() == before


def test_what_was_added_around_our_lines_since_stays(machine: Machine) -> None:
    config = codex_config(machine, FOREIGN)
    machine.install("codex")
    config.write_text(f"# above\n{config.read_text()}\n[later]\nx = 1\n")
    machine.uninstall("codex")
    assert config.read_text() == f"# above\n{FOREIGN}\n[later]\nx = 1\n"


def test_edited_lines_of_ours_are_taken_out_too(machine: Machine) -> None:
    config = codex_config(machine, FOREIGN.rstrip("\n"))
    machine.install("codex")
    config.write_text(config.read_text().replace("timeout = 60", "timeout = 5"))
    machine.uninstall("codex")
    assert config.read_text() == FOREIGN.rstrip("\n")


def test_an_edited_file_of_the_plugin_is_copied_aside_and_goes(machine: Machine) -> None:
    before = set(machine.content())
    machine.install("claude-code")
    skill = machine.places.home / ".claude/skills/agentforge/skills/session/SKILL.md"
    skill.write_text("my own words")
    assert "keep a copy of" in machine.uninstall("claude-code")
    left = [one for one in set(machine.content()) - before if Path(one).is_file()]
    assert [Path(one).read_text() for one in left] == ["my own words"]
    assert "/kept/" in left[0]


def test_a_newer_version_replaces_the_lines_and_goes_as_exactly(machine: Machine) -> None:
    config = codex_config(machine, FOREIGN.rstrip("\n"))
    machine.install("codex")
    other = machine.commands.hook.with_name("agentforge-hook-2")
    machine.commands = machine.commands._replace(hook=other)
    assert machine.install("codex") == ["add to"]
    assert config.read_text().count("# >>> agentforge") == 1
    assert str(other) in config.read_text()
    machine.uninstall("codex")
    assert config.read_text() == FOREIGN.rstrip("\n")


def test_a_file_that_a_newer_version_does_not_have_goes_unless_it_was_changed(
    machine: Machine,
) -> None:
    before = machine.content()
    machine.install("claude-code")
    folder = machine.places.home / ".claude/skills/agentforge/commands"
    file = installation.manifest_path(machine.places, "claude-code", Scope.USER)
    manifest = read_manifest(file)
    assert manifest is not None
    digest = hashlib.sha256(b"former").hexdigest()
    former = {str(folder / name): digest for name in ("former.md", "changed.md")}
    write_manifest(file, manifest._replace(files={**manifest.files, **former}))
    (folder / "former.md").write_text("former")
    (folder / "changed.md").write_text("my own words")
    assert machine.install("claude-code") == ["remove"]
    assert not (folder / "former.md").exists()
    (folder / "changed.md").unlink()
    machine.uninstall("claude-code")
    assert machine.content() == before


@pytest.mark.parametrize(
    "text", ["not = = toml", '[mcp_servers.agentforge]\ncommand = "mine"\n', 'hooks = "none"\n']
)
def test_a_configuration_that_our_lines_do_not_fit_into_is_refused(
    machine: Machine, text: str
) -> None:
    codex_config(machine, text)
    before = machine.content()
    with pytest.raises(SetupRefused, match="Nothing was changed"):
        machine.install("codex")
    assert machine.content() == before


def test_a_read_only_file_is_refused(machine: Machine) -> None:
    config = codex_config(machine, FOREIGN)
    config.chmod(0o444)
    before = machine.content()
    with pytest.raises(SetupRefused, match="read-only"):
        machine.install("codex")
    assert machine.content() == before


def test_a_configuration_that_is_a_link_stays_one(machine: Machine, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    real.write_text(FOREIGN)
    config = machine.places.home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.symlink_to(real)
    machine.install("codex")
    assert config.is_symlink()
    assert "agentforge" in real.read_text()
    machine.uninstall("codex")
    assert (config.is_symlink(), real.read_text()) == (True, FOREIGN)


SETTINGS = """{
  // mine, with a comment
  "ui": {"theme": "dark"}, /* and another */
  "hooks": {
    "BeforeTool": [{"hooks": [{"type": "command", "command": "my own hook"}]}],
    "AfterAgent": [
      {"hooks": [{"type": "command", "command": "another"}]}
    ]
  },
  "mcpServers": {}
}
"""


def gemini_settings(machine: Machine, text: str) -> Path:
    settings = machine.places.project / ".gemini" / "settings.json"
    settings.parent.mkdir()
    settings.write_bytes(text.encode())
    return settings


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"a": 1}',
        "{ // only\n}\n",
        SETTINGS,
        SETTINGS.replace("\n", "\r\n"),
        '{"hooks":{}}',
    ],
)
def test_persons_json_with_comments_keeps_every_byte(machine: Machine, text: str) -> None:
    settings = gemini_settings(machine, text)
    before = machine.content()
    machine.install("gemini", Scope.PROJECT)
    added = settings.read_bytes().decode()
    assert added != text
    rest = iter(added)
    assert all(letter in rest for letter in text), "all of it is there, in its order"
    found = json.loads(re.sub(r"//[^\n]*|/\*.*?\*/", "", added))
    server = found["mcpServers"]["agentforge"]
    assert server["command"] == "agentforge"
    assert "agentforge-hook gemini" in json.dumps(found["hooks"]["AfterAgent"][0])
    assert len(found["hooks"]["AfterAgent"]) == (2 if "another" in text and "ui" in text else 1)
    assert machine.install("gemini", Scope.PROJECT) == []
    machine.uninstall("gemini", Scope.PROJECT)
    assert machine.content() == before


def test_a_read_only_json_is_refused(machine: Machine) -> None:
    gemini_settings(machine, SETTINGS).chmod(0o444)
    before = machine.content()
    with pytest.raises(SetupRefused, match="read-only"):
        machine.install("gemini", Scope.PROJECT)
    assert machine.content() == before


def test_members_that_are_missing_are_found(machine: Machine) -> None:
    settings = gemini_settings(machine, SETTINGS)
    machine.install("gemini", Scope.PROJECT)
    (found,) = installed_programs(machine.places)
    lost = f"{settings} has not our lines as they were put in"
    assert lost not in found.problems
    settings.write_text(SETTINGS)
    (found,) = installed_programs(machine.places)
    assert lost in found.problems


def test_members_that_were_edited_or_have_new_neighbours_go_too(machine: Machine) -> None:
    settings = gemini_settings(machine, SETTINGS)
    machine.install("gemini", Scope.PROJECT)
    text = settings.read_text().replace('"timeout": 60000', '"timeout": 5')
    text = text.replace('"agentforge": {', '"other": {},\n    "agentforge": {')
    settings.write_text(text)
    machine.uninstall("gemini", Scope.PROJECT)
    left = settings.read_text()
    assert "agentforge" not in left
    found = json.loads(re.sub(r"//[^\n]*|/\*.*?\*/", "", left))
    assert found["mcpServers"] == {"other": {}}
    assert list(found["hooks"]) == ["BeforeTool", "AfterAgent"]
    assert "// mine, with a comment" in left


@pytest.mark.parametrize(
    "text", ["[]", '{"a": }', '{"mcpServers": {"agentforge": {"command": "x"}}}', '{"hooks": 1}']
)
def test_json_that_our_members_do_not_fit_into_is_refused(machine: Machine, text: str) -> None:
    gemini_settings(machine, text)
    before = machine.content()
    with pytest.raises(SetupRefused, match="Nothing was changed"):
        machine.install("gemini", Scope.PROJECT)
    assert machine.content() == before


@pytest.mark.parametrize("program", ["gemini", "opencode"])
def test_extension_and_plugin_name_the_commands_by_absolute_paths(
    machine: Machine, program: str
) -> None:
    machine.install(program)
    written = "".join(map(str, machine.content().values()))
    assert str(machine.commands.hook) in written
    assert str(machine.commands.agentforge) in written
    assert "@HOOK@" not in written
    for text in machine.places.home.rglob("*.toml"):
        command = tomllib.loads(text.read_text())
        assert command["description"]
        assert "$ARGUMENTS" not in command["prompt"]
    names = {one.name for one in machine.places.home.rglob("*") if one.is_file()}
    assert "SKILL.md" in names
    assert {"ask.toml", "gemini-extension.json"} <= names or {"ask.md", "agentforge.js"} <= names


def test_the_plugin_names_the_commands_by_absolute_paths(machine: Machine) -> None:
    machine.install("claude-code")
    root = machine.places.home / ".claude/skills/agentforge"
    hooks = json.loads((root / "hooks/hooks.json").read_text())["hooks"]
    assert set(hooks) >= {"SessionStart", "PreToolUse", "Stop", "PreCompact"}
    command = hooks["Stop"][0]["hooks"][0]["command"]
    guard, run = command.removesuffix(" || true").split(" && ")
    assert run == f"sh {guard.removeprefix('test -r ')} '{machine.commands.hook}' claude-code"
    server = json.loads((root / ".mcp.json").read_text())["mcpServers"]["agentforge"]
    assert server["command"] == str(machine.commands.agentforge)
    assert json.loads((root / ".claude-plugin/plugin.json").read_text())["version"] == "1.2.3"
    assert {one.name for one in (root / "commands").iterdir()} == {
        *("ask.md", "brief.md", "budget.md", "checkpoint.md", "diff.md", "fork.md", "rewind.md"),
        *("done.md", "new.md", "sessions.md", "switch.md"),
    }
    run = f"run `'{machine.commands.agentforge}' diff ID --stat`"
    assert run in (root / "commands/diff.md").read_text()
    for text in root.rglob("*.md"):
        assert not {"delete", "force", "remove"} & set(text.read_text().lower().split())


def test_what_was_lost_or_changed_since_is_found(machine: Machine) -> None:
    assert installed_programs(machine.places) == []
    machine.install("claude-code")
    machine.install("codex")
    assert [one.problems for one in installed_programs(machine.places)] == [(), ()]
    os.unlink(machine.commands.hook)
    (machine.places.home / ".codex" / "config.toml").write_text("")
    claude, codex = installed_programs(machine.places)
    assert claude.problems == (f"{machine.commands.hook} can't be run",)
    assert any("has not our lines" in one for one in codex.problems)
