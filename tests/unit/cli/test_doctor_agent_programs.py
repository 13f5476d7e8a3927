"""What `agentforge doctor` says of the agent programs: versions, trusted hooks, sessions begun."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from agentforge_sessions.agents.programs.codex import EVENTS
from agentforge_sessions.agents.programs.registry import PROGRAMS, find_program
from agentforge_sessions.agents.setup.health import find_command, said_version
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.store.sessions_place import sessions_directory
from tests.support.agent_commands import put_codex, put_codex_answering, put_command
from tests.support.trusting import trusted
from tests.unit.cli.conftest import CommandLine

FOLDERS = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "AGENTFORGE_SESSION"),
    *("AGENTFORGE_STORE", "AGENTFORGE_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"),
)


class Person:
    """A person with a home, a project that they work in, and a path of their own."""

    def __init__(self, folder: Path, agentforge: CommandLine) -> None:
        self.home, self.bin, self.project = folder / "home", folder / "bin", folder / "project"
        for one in (self.home, self.bin, self.project / ".agentforge"):
            one.mkdir(parents=True)
        self.base = self.project / ".agentforge" / "sessions"
        self._agentforge = agentforge

    def install(self, program: str) -> str:
        """Install into a program; return the command of the hook as it stands there."""
        assert self._agentforge("install", program).code == 0
        text = (self.home / ".codex" / "config.toml").read_text() if program == "codex" else ""
        found = re.search(r'^command = "(.* codex \|\| true)"$', text, re.MULTILINE)
        return found[1] if found else ""

    def configure(self, text: str) -> None:
        trusted(self.project, text)

    def begin(self, *, tokens: int = 1000, used: int = 0) -> SessionManager:
        manager = SessionManager(SessionStore(self.base))
        manager.create("agent", None, token_budget=tokens)
        if used:
            manager.record_tokens(used)
        return manager

    def finding(self, name: str) -> tuple[str, str, str | None] | None:
        """Return what doctor says of a check: status, message, advice; None if it has none."""
        checks = self._agentforge("doctor", "--json").document["checks"]
        found = [one for one in checks if one["name"] == name]
        assert len(found) <= 1
        return (found[0]["status"], found[0]["message"], found[0]["advice"]) if found else None

    def found(self, name: str) -> tuple[str, str, str]:
        """Return what doctor says of a check that it makes, with "" for no advice."""
        found = self.finding(name)
        assert found is not None
        return found[0], found[1], found[2] or ""


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agentforge: CommandLine) -> Person:
    made = Person(tmp_path, agentforge)
    for name in FOLDERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("PATH", str(made.bin))
    monkeypatch.chdir(made.project)
    assert sessions_directory(made.project) is None
    return made


def hook(command: str, trust: str = "trusted", *, enabled: bool = True) -> dict[str, object]:
    return {"command": command, "trustStatus": trust, "enabled": enabled, "eventName": "stop"}


# ------------------------------------------------------------------------------------ installing


def test_install_without_a_program_installs_nothing_and_lists_the_programs(
    person: Person, agentforge: CommandLine
) -> None:
    put_command(person.bin, "claude", "exit 3")
    person.install("codex")
    before = sorted(person.home.rglob("*"))
    rows = {one["program"]: one for one in agentforge("install", "--json").document["programs"]}
    assert set(rows) == set(PROGRAMS)
    assert rows["claude-code"] == {
        "program": "claude-code",
        "path": str(person.bin / "claude"),
        "installed": [],
    }
    assert (rows["codex"]["path"], rows["codex"]["installed"]) == (None, ["user"])
    shown = agentforge("install")
    assert shown.code == 0
    assert "not on the path" in shown.out
    assert sorted(person.home.rglob("*")) == before
    assert agentforge("install", "--remove").code == 2


def test_install_says_what_the_next_prompt_does(person: Person, agentforge: CommandLine) -> None:
    session = person.begin().current_session
    assert session is not None
    document = agentforge("install", "claude-code", "--json").document
    assert document["at_next_prompt"] == f"a prompt goes on with {session.session_id} (active)"
    shown = agentforge("install", "claude-code").out
    assert f"Then, in {person.project}: a prompt goes on with {session.session_id}" in shown
    tried = agentforge("install", "claude-code", "--dry-run", "--json").document
    assert tried["at_next_prompt"] is None


# ---------------------------------------------------------------------------------- the versions


def test_versions_that_were_tried_are_those_that_the_tests_install() -> None:
    makefile = (Path(__file__).parents[3] / "Makefile").read_text()
    pinned = dict(re.findall(r"(\w+)=[@\w/-]+@([\d.]+)", makefile))
    tried = {one.COMMAND: one.TRIED for one in map(find_program, PROGRAMS) if one is not None}
    assert tried == {name: pinned.get(name) for name in tried}


def test_doctor_compares_the_versions_of_programs_with_those_that_were_tried(
    person: Person,
) -> None:
    assert person.finding("versions") is None
    person.install("claude-code")
    person.install("opencode")
    person.install("codex")
    put_command(person.bin, "claude", "echo '2.1.330 (Claude Code)'")
    put_codex(person.bin, [], version="codex-cli 0.170.0-alpha.1")
    put_command(person.bin, "gemini", "echo 9.9.9")  # nobody uses it here
    found = person.finding("versions")
    assert found == (
        "ok",
        "claude 2.1.330; codex 0.170.0-alpha.1, tried with 0.169.0; opencode is not on the path",
        None,
    )


def test_doctor_looks_at_the_version_of_the_program_that_runs_ask(person: Person) -> None:
    person.configure("[run]\nagent = 'gemini:pro'\n")
    put_command(person.bin, "gemini", 'test "$*" = --version && echo 0.61.0')
    assert person.finding("versions") == ("ok", "gemini 0.61.0", None)


@pytest.mark.parametrize("body", ["echo no node >&2; exit 127", "echo 'a word'", "exit 0"])
def test_program_that_says_no_version_is_a_warning(person: Person, body: str) -> None:
    person.install("claude-code")
    path = put_command(person.bin, "claude", body)
    found = person.found("versions")
    status, message, advice = found
    assert (status, advice) == ("warn", f"See what it says: {path} --version")
    assert message.startswith("claude: `--version` ended with exit code ")
    assert ("no node" in message) is ("no node" in body)


def test_program_that_does_not_say_its_version_in_time_is_ended(tmp_path: Path) -> None:
    program = put_command(tmp_path, "claude", f"exec {shlex.quote(_sleep())} 3600")
    said = said_version(program, {}, timeout_s=0.2)
    assert said == (None, "it did not say its version within 0.2 s")


def _sleep() -> str:
    return next(one for one in ("/bin/sleep", "/usr/bin/sleep") if os.path.exists(one))


def test_program_of_a_relative_folder_of_the_path_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put_command(tmp_path / "bin", "claude", "echo 1.0.0")
    assert find_command("claude", {"PATH": "bin:."}) is None
    assert find_command("claude", {"PATH": f"{tmp_path}/bin"}) == tmp_path / "bin" / "claude"
    assert find_command("claude", {}) is None


# ------------------------------------------------------------------------------- trust in Codex


def test_doctor_says_that_codex_runs_the_hooks(person: Person) -> None:
    assert person.finding("hook trust") is None
    ours = person.install("codex")
    assert person.finding("hook trust") == ("ok", "not asked: codex is not on the path", None)
    others = hook("/elsewhere/agentforge-hook codex", "untrusted")
    put_codex(person.bin, [others, hook(ours), hook(ours, "managed")])
    assert person.finding("hook trust") == ("ok", "codex runs all hooks of agentforge", None)


def test_list_says_that_the_hooks_in_codex_are_not_reviewed(
    person: Person, agentforge: CommandLine
) -> None:
    """It reads what Codex saved of the review, and starts nothing."""
    said = "Codex records nothing"

    def remarks() -> str:
        return agentforge("list").err

    put_command(person.bin, "codex", "exit 3")
    assert said not in remarks()
    person.install("codex")
    assert remarks().startswith(said)
    assert not (person.bin / "codex-was-asked").exists()
    config = person.home / ".codex" / "config.toml"
    with config.open("a") as file:
        for number, event in enumerate(EVENTS):
            assert said in remarks(), event
            file.write(f"[hooks.state.'{config}:{event}:0:0']\ntrusted_hash = 'x{number}'\n")
            file.flush()
    assert said not in remarks()
    assert agentforge("install", "--remove", "codex").code == 0
    assert said not in remarks()


@pytest.mark.parametrize("text", ["not = = toml", "hooks = 1", "[hooks]\nstate = ['x']"])
def test_list_says_nothing_of_a_configuration_of_codex_that_it_can_not_read(
    person: Person, agentforge: CommandLine, text: str
) -> None:
    person.install("codex")
    (person.home / ".codex" / "config.toml").write_text(text)
    assert "Codex" not in agentforge("list").err


@pytest.mark.parametrize(
    ("trust", "enabled", "said"),
    [
        ("untrusted", True, "they are untrusted"),
        ("modified", True, "they are modified"),
        ("a word of later versions", True, "they are a word of later versions"),
        ("trusted", False, "they are off"),
    ],
)
def test_doctor_warns_of_a_hook_that_codex_does_not_run(
    person: Person, trust: str, enabled: bool, said: str
) -> None:
    ours = person.install("codex")
    put_codex(person.bin, [hook(ours), hook(ours, trust, enabled=enabled)])
    found = person.found("hook trust")
    assert (found[0], said in found[1], "/hooks" in found[2]) == ("warn", True, True)
    begun = person.found("hooks")
    person.begin()
    continued = person.found("hooks")
    for one in (begun, continued):
        assert (one[0], "no session will begin here" in one[1]) == ("warn", True)
    assert said in continued[1]


def test_doctor_warns_where_codex_does_not_list_the_hooks(person: Person) -> None:
    person.install("codex")
    put_codex(person.bin, [])
    found = person.found("hook trust")
    assert found[:2] == ("warn", "codex does not list the hooks of agentforge")


def test_codex_that_gives_no_list_is_said_with_its_reason_and_hides_no_session(
    person: Person,
) -> None:
    person.install("codex")
    person.begin()
    refusals = {
        "no such method": lambda: put_codex_answering(
            person.bin, {"id": 2, "error": {"message": "no such method"}}
        ),
        "exit code 3: no home": lambda: put_command(
            person.bin, "codex", "echo no home >&2; exit 3"
        ),
        "can't be run": lambda: (person.bin / "codex").write_bytes(b"\x7fELF nothing"),
    }
    for said, make in refusals.items():
        make()
        found = person.found("hook trust")
        assert (found[0], "could not be asked" in found[1], said in found[1]) == (
            "warn",
            True,
            True,
        ), found
        hooks = person.found("hooks")
        assert hooks[0] == "ok"


def test_codex_is_asked_for_the_hooks_of_the_folder_that_one_works_in(person: Person) -> None:
    put_codex(person.bin, [hook(person.install("codex"))])
    person.finding("hook trust")
    lines = (person.bin / "codex-was-asked").read_text().splitlines()
    asked = [json.loads(line) for line in lines]
    assert [one["method"] for one in asked] == ["initialize", "initialized", "hooks/list"]
    assert asked[-1]["params"] == {"cwds": [str(person.project)]}


# ------------------------------------------------------------------------- sessions that begin


def test_doctor_says_that_no_program_has_the_hook(person: Person) -> None:
    assert person.finding("hooks") == (
        "ok",
        "no session will begin here, because no agent program has the hook",
        None,
    )


def test_doctor_says_why_a_prompt_begins_no_session(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.install("claude-code")

    def because(*words: str) -> None:
        found = person.found("hooks")
        status, message, advice = found
        assert (status, bool(advice)) == ("warn", True)
        for one in ("no session will begin here, because ", *words):
            assert one in f"{message} {advice}"

    person.configure("[agents]\ncreate = false\n")
    because("none is open", "create is false")
    person.configure("[agents]\ncreate = 'yes'\n")
    because("config.toml", "agents.create")
    person.configure("")
    first, second = person.begin(), person.begin()
    assert first.current_session is not None
    assert second.current_session is not None
    because("several are open", first.current_session.session_id, "switch ID")
    first.abort("no longer wanted")
    monkeypatch.setenv("AGENTFORGE_SESSION", first.current_session.session_id)
    because("AGENTFORGE_SESSION names", "which is aborted")
    monkeypatch.setenv("AGENTFORGE_SESSION", "nosuch")
    because("nosuch")
    monkeypatch.delenv("AGENTFORGE_SESSION")
    monkeypatch.chdir(person.home)
    because("is in no Git repository", "agentforge init")


def test_doctor_says_that_a_session_which_cannot_be_read_keeps_others_from_beginning(
    person: Person,
) -> None:
    person.install("claude-code")
    session = person.begin().current_session
    assert session is not None
    (person.base / session.session_id / "session.yaml").write_bytes(b"\x00")
    found = person.found("hooks")
    assert (found[0], session.session_id in found[1]) == ("warn", True)


def test_doctor_says_which_session_a_prompt_begins_or_goes_on_with(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.install("claude-code")
    assert person.finding("hooks") == ("ok", "in claude-code, a prompt begins a session", None)
    assert not person.base.exists()
    manager = person.begin()
    session = manager.current_session
    assert session is not None
    goes_on = f"in claude-code, a prompt goes on with {session.session_id} (active)"
    assert person.finding("hooks") == ("ok", goes_on, None)
    person.begin()
    monkeypatch.setenv("AGENTFORGE_SESSION", session.session_id)
    assert person.finding("hooks") == ("ok", goes_on, None)


def test_doctor_says_that_a_prompt_begins_a_session_in_any_repository(person: Person) -> None:
    person.install("claude-code")
    (person.project / ".agentforge").rmdir()
    (person.project / ".git").mkdir()
    (person.project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert person.finding("hooks") == ("ok", "in claude-code, a prompt begins a session", None)


def test_doctor_says_that_a_spent_budget_refuses_prompts(person: Person) -> None:
    person.install("claude-code")
    manager = person.begin(tokens=10, used=10)
    assert manager.current_session is not None
    found = person.found("hooks")
    status, message, advice = found
    assert (status, "a prompt is refused" in message) == ("warn", True)
    assert f"agentforge session budget {manager.current_session.session_id} --extend" in advice


def test_program_that_does_not_call_the_hook_is_named_beside_those_that_do(
    person: Person,
) -> None:
    person.install("claude-code")
    ours = person.install("codex")
    put_codex(person.bin, [hook(ours, "untrusted")])
    found = person.found("hooks")
    assert found[0] == "ok"
    assert found[1].startswith("in claude-code, a prompt begins a session; not in codex: ")


def test_program_whose_hook_is_lost_begins_no_session(person: Person) -> None:
    person.install("claude-code")
    for one in (person.home / ".claude").rglob("hooks.json"):
        one.unlink()
    found = person.found("hooks")
    assert found[0] == "warn"
    assert "no session will begin here, because claude-code: " in found[1]
    assert "hooks.json is missing" in found[1]
