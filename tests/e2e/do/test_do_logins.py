"""An agent program that is logged in by files in the person's home gets a copy of these alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen

from tests.e2e.do.conftest import BAD, GOOD, Desk, desk_of, repository
from tests.support.agent_commands import put_command
from tests.support.own_project import require_jail

CHECKED = ("--check", "sh check.sh")
SECRET = "an invented login"


@frozen
class Kept:
    """Where a program has its login.

    Attributes:
        name: The program.
        key: The variable that logs it in, too.
        variable: The one that names its folder, and the folder in a home.
        files: The login's files in that folder.
        more: What else the program finds in its own folder.
    """

    name: str
    key: str
    variable: tuple[str, str]
    files: tuple[str, ...]
    more: tuple[str, ...] = ()


PROGRAMS = [
    Kept("claude", "ANTHROPIC_API_KEY", ("CLAUDE_CONFIG_DIR", ".claude"), (".credentials.json",)),
    Kept("codex", "OPENAI_API_KEY", ("CODEX_HOME", ".codex"), ("auth.json",)),
    Kept(
        "gemini",
        "GEMINI_API_KEY",
        ("GEMINI_CLI_HOME", ""),
        (".gemini/oauth_creds.json", ".gemini/google_accounts.json"),
        (".gemini/settings.json",),
    ),
    Kept(
        "opencode",
        "OPENAI_API_KEY",
        ("XDG_DATA_HOME", ".local/share"),
        ("opencode/auth.json",),
    ),
]


@pytest.fixture(params=PROGRAMS, ids=lambda one: one.name)
def login(request: pytest.FixtureRequest) -> Kept:
    found: Kept = request.param
    return found


@pytest.fixture
def desk(tmp_path: Path, login: Kept) -> Desk:
    """A repository, and a program on PATH that says what it finds in its folder and spoils it."""
    require_jail()
    desk = desk_of(repository(tmp_path / "project"))
    look = f'(cd "${login.variable[0]}" && find . -type f | sort && cat $(find . -name "*.json"))'
    spoil = f'for one in {" ".join(login.files)}; do echo x >> "${login.variable[0]}/$one"; done'
    seen = f"{look} | sed s/invented/seen/ >> seen.txt; ls -A $HOME >> seen.txt; {spoil}"
    turns = f"if [ $AGENTFORGE_TURN = 1 ]; then {BAD}; else {GOOD}; fi"
    put_command(tmp_path / "bin", login.name, f"cat > /dev/null; {seen}; {turns}; echo said")
    (tmp_path / "tmp").mkdir()
    desk.environment |= {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "TMPDIR": f"{tmp_path}/tmp"}
    desk.environment.pop("XDG_DATA_HOME")
    return desk


def write_login(folder: Path, login: Kept) -> None:
    for one in login.files:
        (folder / one).parent.mkdir(parents=True, exist_ok=True)
        (folder / one).write_text(login_of(login))
        (folder / one).with_name("private.json").write_text("not for the agent")


def login_of(login: Kept) -> str:
    return f"{SECRET} of {login.name}\n"


def with_secret(folder: Path) -> list[str]:
    return [one.name for one in folder.rglob("*") if one.is_file() and SECRET in _text(one)]


def _text(path: Path) -> str:
    return path.read_text(errors="replace")


def seen_by(desk: Desk) -> str:
    """What the program found in its folder, at each of its calls."""
    return _text(Path(desk.document("--continue")["workspace"]) / "seen.txt")


@pytest.mark.parametrize("named", [False, True], ids=["home", "variable"])
def test_a_program_gets_a_copy_of_its_login_and_nothing_is_copied_back(
    desk: Desk, login: Kept, tmp_path: Path, named: bool
) -> None:
    variable, below = login.variable
    folder = tmp_path / ("elsewhere" if named else below)
    if named:
        desk.environment[variable] = str(folder)
    write_login(folder, login)
    done = desk.do("x", *CHECKED)
    shown = f"~/{(folder / login.files[0]).relative_to(tmp_path)}"
    assert done.err.count(f"{login.name} is logged in by a copy of {shown}.") == 1
    seen = seen_by(desk)
    files = sorted(f"./{one}" for one in (*login.files, *login.more))
    assert seen.splitlines()[: len(files)] == files
    assert seen.count(f"an seen login of {login.name}") == 2 * len(login.files), "at each call"
    assert "not for the agent" not in seen
    assert {(folder / one).read_text() for one in login.files} == {login_of(login)}
    assert len(with_secret(tmp_path)) == len(login.files), "the session has none of it"
    assert os.listdir(tmp_path / "tmp") == []


@pytest.mark.parametrize("login", PROGRAMS[:1], indirect=True, ids=["claude"])
@pytest.mark.parametrize(
    ("variables", "words"),
    [({"ANTHROPIC_API_KEY": "a-key"}, ()), ({}, ("--no-agent-network",))],
    ids=["a variable has precedence", "nothing to log in to"],
)
def test_a_program_that_needs_no_login_gets_none(
    desk: Desk, login: Kept, tmp_path: Path, variables: dict[str, str], words: tuple[str, ...]
) -> None:
    write_login(tmp_path / ".claude", login)
    desk.environment |= variables
    assert "logged in by" not in desk.do("x", *CHECKED, *words).err
    assert "an seen login" not in seen_by(desk)


def _link(path: Path) -> None:
    path.rename(path.parent / "other")
    path.symlink_to("other")


def _large(path: Path) -> None:
    path.write_bytes(b"x" * ((64 << 10) + 1))


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _strangers(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 4711, 4711)


@pytest.mark.parametrize("spoil", [_link, _large, _fifo, _strangers])
@pytest.mark.parametrize("login", PROGRAMS[:1], indirect=True, ids=["claude"])
def test_a_file_that_is_not_plainly_the_persons_is_not_given(
    desk: Desk, login: Kept, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    write_login(tmp_path / ".claude", login)
    spoil(tmp_path / ".claude" / ".credentials.json")
    said = " ".join(desk.do("x", *CHECKED, code=2).err.split())
    assert "claude is not logged in where it works" in said
    assert "~/.claude/.credentials.json can't be given" in said
    assert "ANTHROPIC_API_KEY" in said
