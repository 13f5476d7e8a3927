from __future__ import annotations

import io
import json
import os
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentforge_sessions.base.cancellation import CancelToken
from agentforge_sessions.entrypoints.cli.options import parse_size
from agentforge_sessions.entrypoints.cli.running import sandbox_shell
from agentforge_sessions.entrypoints.cli.running.sandbox_shell import is_complete, run_cancellable
from agentforge_sessions.sandbox import (
    SandboxResult,
    create_session_sandbox,
    list_session_files,
    read_session_file,
    write_session_file,
)
from tests.unit.cli.conftest import CommandLine, Ended


class Sandboxes:
    """`agentforge sandbox …` on a workspace root of its own."""

    def __init__(self, command_line: CommandLine, root: Path) -> None:
        self.command_line = command_line
        self.root = root

    def __call__(self, command: str, *arguments: object) -> Ended:
        root = ("--workspace-root", self.root)
        return self.command_line("sandbox", command, *root, *arguments)

    def new(self, session_id: str, **files: str) -> str:
        create_session_sandbox(workspace_root=self.root, new_id=lambda: session_id)
        for name, content in files.items():
            write_session_file(session_id, name, content, self.root)
        return session_id


@pytest.fixture
def sandboxes(agentforge: CommandLine, tmp_path: Path) -> Sandboxes:
    return Sandboxes(agentforge, tmp_path / "workspaces")


# --------------------------------------------------------------------------------------------- ids


def test_an_id_may_be_shortened_to_any_part_that_no_other_has(sandboxes: Sandboxes) -> None:
    sandboxes.new("alpha-one", a="1")
    sandboxes.new("beta-one", b="2")
    sandboxes.new("alpha", c="3")
    for shortened, file in [("alpha", "c"), ("beta", "b"), ("ta-o", "b"), ("alpha-", "a")]:
        assert sandboxes("ls", shortened).out == f"{file}\n"


def test_a_shortened_id_that_fits_several_is_refused_with_those_it_fits(
    sandboxes: Sandboxes,
) -> None:
    sandboxes.new("alpha-one")
    sandboxes.new("beta-one")
    done = sandboxes("ls", "one", "--json")
    assert done.code == 4
    assert done.document["error"]["candidates"] == ["alpha-one", "beta-one"]


@pytest.mark.parametrize("command", [["ls"], ["cat"], ["rm"], ["put"], ["delete"]])
def test_a_session_that_is_not_there_is_not_found_and_not_made(
    sandboxes: Sandboxes, command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    more = {"cat": ["x"], "rm": ["x", "--yes"], "put": [tmp_path / "file"], "delete": ["--yes"]}
    done = sandboxes(command[0], "nosuch", *more.get(command[0], []))
    assert done.code == 3
    assert "agentforge sandbox list" in done.err
    assert not sandboxes.root.exists()


@pytest.mark.parametrize("given", ["../up", "a/b", "", "\x1b[2J"])
def test_what_can_be_no_id_is_a_wrong_command_line(sandboxes: Sandboxes, given: str) -> None:
    done = sandboxes("ls", given)
    assert done.code == 2
    assert "\x1b" not in done.err


@pytest.mark.parametrize("command", ["exec", "shell"])
def test_code_runs_in_no_session_that_is_not_there(sandboxes: Sandboxes, command: str) -> None:
    code = ["-c", "1"] if command == "exec" else []
    assert sandboxes(command, *code, "--session", "nosuch").code == 3
    assert sandboxes(command, *code, "--agent-session", "nosuch").code == 3
    both = sandboxes(command, *code, "--agent-session", "a", "--session", "b")
    assert both.code == 2
    assert not sandboxes.root.exists()


# ---------------------------------------------------------------------------------------- sessions


def test_list_shows_the_last_used_first_and_what_is_wrong_with_metadata(
    sandboxes: Sandboxes,
) -> None:
    for name in ("one", "two", "three", "four"):
        sandboxes.new(name)
    (sandboxes.root / "three" / ".metadata.json").unlink()
    (sandboxes.root / "four" / ".metadata.json").write_text("{")
    (sandboxes.root / "not an id").mkdir()
    (sandboxes.root / "link").symlink_to(sandboxes.root / "one")
    done = sandboxes("list", "--json")
    assert done.code == 0
    found = {one["session_id"]: one for one in done.document["sessions"]}
    assert list(found)[:2] == ["two", "one"]
    assert set(found) == {"one", "two", "three", "four"}
    assert found["one"]["created_at"].endswith("+00:00")
    assert found["three"]["problem"] == "no metadata"
    assert found["four"]["created_at"] is None
    assert found["four"]["problem"]
    assert sandboxes("ls", "link").code == 3
    lines = sandboxes("list").out.splitlines()
    assert lines[0].split() == ["ID", "CREATED", "UPDATED", "NOTE"]
    assert len(lines) == 5


def test_list_of_a_root_that_is_not_there_is_empty(sandboxes: Sandboxes) -> None:
    assert sandboxes("list").code == 0
    assert sandboxes("list", "--json").document["sessions"] == []
    assert not sandboxes.root.exists()


def test_delete_needs_a_yes_and_takes_the_workspace(sandboxes: Sandboxes) -> None:
    sandboxes.new("alpha", file="x")
    assert sandboxes("delete", "alpha").code == 2
    assert (sandboxes.root / "alpha" / "file").exists()
    assert sandboxes("delete", "alph", "--yes", "--json").document["deleted"] is True
    assert not (sandboxes.root / "alpha").exists()


# ------------------------------------------------------------------------------------------- files


def test_ls_takes_a_pattern_and_never_shows_the_metadata(sandboxes: Sandboxes) -> None:
    session = sandboxes.new("alpha", a="1")
    write_session_file(session, "deep/er/b.csv", "2", sandboxes.root)
    assert sandboxes("ls", session).out == "a\ndeep/er/b.csv\n"
    assert sandboxes("ls", session, "**/*.csv", "--json").document["files"] == ["deep/er/b.csv"]
    assert sandboxes("ls", session, "*.csv").out == ""


def test_cat_in_json_carries_any_bytes(sandboxes: Sandboxes) -> None:
    session = sandboxes.new("alpha", text="häh")
    write_session_file(session, "bytes", b"\xff\x00", sandboxes.root)
    text = sandboxes("cat", session, "text", "--json").document
    assert (text["encoding"], text["content"], text["size_bytes"]) == ("utf-8", "häh", 4)
    data = sandboxes("cat", session, "bytes", "--json").document
    assert (data["encoding"], data["content"]) == ("base64", "/wA=")


def test_put_takes_the_files_own_name_unless_one_is_given(
    sandboxes: Sandboxes, tmp_path: Path
) -> None:
    session = sandboxes.new("alpha")
    (tmp_path / "local.txt").write_bytes(b"\x00\xff")
    assert sandboxes("put", session, tmp_path / "local.txt").code == 0
    done = sandboxes("put", session, tmp_path / "local.txt", "in/there", "--json")
    assert (done.document["path"], done.document["size_bytes"]) == ("in/there", 2)
    assert list_session_files(session, sandboxes.root) == ["in/there", "local.txt"]
    assert read_session_file(session, "local.txt", sandboxes.root) == b"\x00\xff"


@pytest.mark.parametrize("endless", [False, True])
def test_what_is_larger_than_a_file_of_a_workspace_is_refused_before_memory_is_full(
    sandboxes: Sandboxes, tmp_path: Path, endless: bool
) -> None:
    sandboxes.new("a")
    large = Path("/dev/zero") if endless else tmp_path / "large"
    if not endless:
        large.touch()
        os.truncate(large, 1 << 40)
    for words in (["put", "a", large, "x"], ["exec", "--session", "a", large]):
        ended = sandboxes(*words)
        assert ended.code == 2
        assert f"{large} has more than 268,435,456 bytes" in ended.err
    assert list_session_files("a", sandboxes.root) == []


def test_put_reads_standard_input_and_then_needs_a_path(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sandboxes.new("alpha")
    assert sandboxes("put", session, "-").code == 2
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xfe")))
    assert sandboxes("put", session, "-", "piped").code == 0
    assert read_session_file(session, "piped", sandboxes.root) == b"\xfe"


def test_rm_needs_a_yes_and_recursive_for_a_directory_with_files(sandboxes: Sandboxes) -> None:
    session = sandboxes.new("alpha", a="1")
    write_session_file(session, "d/b", "2", sandboxes.root)
    assert sandboxes("rm", session, "a").code == 2
    assert sandboxes("rm", session, "d", "--yes").code == 6
    assert list_session_files(session, sandboxes.root) == ["a", "d/b"]
    assert sandboxes("rm", session, "a", "--yes").code == 0
    assert sandboxes("rm", session, "d", "--yes", "--recursive").code == 0
    assert list_session_files(session, sandboxes.root) == []


@pytest.mark.parametrize(
    ("path", "code", "kind"),
    [
        ("../outside", 2, "PathEscapesWorkspace"),
        ("/etc/passwd", 2, "PathEscapesWorkspace"),
        ("link", 2, "PathEscapesWorkspace"),
        (".METADATA.json", 2, "ReservedSessionPath"),
        ("nosuch", 3, "WorkspaceFileMissing"),
        ("d", 6, "WorkspaceFileRefused"),
        ("a/b", 6, "WorkspaceFileRefused"),
    ],
)
def test_each_path_that_can_not_be_read_has_its_exit_code(
    sandboxes: Sandboxes, path: str, code: int, kind: str
) -> None:
    session = sandboxes.new("alpha", a="1")
    (sandboxes.root / session / "d").mkdir()
    (sandboxes.root / session / "link").symlink_to("/etc/passwd")
    done = sandboxes("cat", session, path, "--json")
    assert (done.code, done.document["error"]["type"]) == (code, kind)


def test_agent_session_addresses_the_workspace_of_an_agents_session(
    sandboxes: Sandboxes, agentforge: CommandLine, tmp_path: Path
) -> None:
    session_id = agentforge.new()
    done = sandboxes("ls", "--agent-session", session_id)
    assert done.code == 3
    assert "no workspace yet" in done.err
    workspace = agentforge.store.workspace_path(session_id)
    workspace.mkdir(mode=0o700)
    (tmp_path / "f").write_text("x")
    assert sandboxes("put", "--agent-session", session_id[-4:], tmp_path / "f").code == 0
    assert sandboxes("ls", "--agent-session", session_id).out == "f\n"
    assert sandboxes("cat", "--agent-session", session_id, "f").out == "x"
    assert sandboxes("rm", "--agent-session", session_id, "f", "--yes").code == 0
    assert os.listdir(workspace) == []


# ------------------------------------------------------------------------------------ running code


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "there is no code"),
        (["nosuch.py"], "can't be read"),
        (["-", "--stdin", "-"], "both"),
        (["-c", "1", "--stdin", "nosuch"], "can't be read"),
        (["-c", "1", "--memory", "1MB"], "memory_bytes must be"),
        (["-c", "1", "--memory", "much"], "is no size"),
        (["-c", "1", "--timeout", "0"], "deadline_s must be"),
        (["-c", "1", "--timeout", "nan"], "deadline_s must be"),
        (["-c", "1", "--fuel", "0"], "fuel_budget must be"),
        (["-c", "a\0b"], "NUL"),
    ],
)
def test_a_wrong_command_line_runs_nothing_and_leaves_no_session(
    sandboxes: Sandboxes, arguments: list[str], told: str
) -> None:
    done = sandboxes("exec", *arguments)
    assert done.code == 2
    assert told in done.err
    assert sandboxes("list", "--json").document["sessions"] == []


def test_code_that_is_no_utf_8_is_refused(sandboxes: Sandboxes, tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b"x = '\xe4'")
    done = sandboxes("exec", tmp_path / "latin.py")
    assert done.code == 2
    assert "not UTF-8 at byte 5" in done.err


@pytest.mark.parametrize(
    ("code", "ended", "trapped"),
    [
        ("raise SystemExit(9)", 9, None),
        ("raise SystemExit(130)", 130, None),
        ("raise SystemExit(255)", 255, None),
        ("1/0", 1, None),
        ("import os; os.abort()", 124, "crash"),
    ],
)
def test_the_exit_code_of_the_code_is_passed_on_and_a_limit_is_124(
    sandboxes: Sandboxes, code: str, ended: int, trapped: str | None
) -> None:
    done = sandboxes("exec", "-c", code, "--json")
    assert done.code == ended
    assert done.document["trapped"] == trapped
    assert done.document["exit_code"] == (None if trapped else ended)


def test_code_that_used_up_its_fuel_is_told(sandboxes: Sandboxes) -> None:
    done = sandboxes("exec", "-c", "while True: pass", "--fuel", "60000000")
    assert done.code == 124
    assert "used up its fuel" in done.err


def test_exec_bounds_the_memory(sandboxes: Sandboxes) -> None:
    done = sandboxes("exec", "-c", "b'x' * (200 << 20)", "--memory", "128MiB", "--json")
    assert (done.code, done.document["exit_code"], done.document["trapped"]) == (1, 1, "memory")


def test_a_quota_that_refused_something_is_told(
    sandboxes: Sandboxes,
) -> None:
    code = "f = open('big', 'wb'); f.truncate(300 << 20); f.close()"
    done = sandboxes("exec", "-c", code, "--memory", "1GiB")
    assert done.code == 1
    assert "the workspace's quota refused something: file_bytes" in done.err


def test_a_write_that_was_not_kept_is_told_and_is_no_success(sandboxes: Sandboxes) -> None:
    code = "import os\nfd = os.open('big', os.O_WRONLY | os.O_CREAT)\n" + (
        "try: os.ftruncate(fd, 300 << 20)\nexcept OSError: pass"
    )
    done = sandboxes("exec", "-c", code, "--memory", "1GiB")
    assert done.code == 124
    assert "failed: not kept as written: big (EFBIG)" in done.err
    document = sandboxes("exec", "-c", code, "--memory", "1GiB", "--json").document
    assert (document["success"], document["exit_code"]) == (False, 0)
    assert document["lost_writes"] == [
        {"path": "big", "method": "write", "errno": "EFBIG", "at": "write"}
    ]


def test_a_workspace_that_is_in_use_is_a_conflict(sandboxes: Sandboxes) -> None:
    import fcntl

    session = sandboxes.new("alpha")
    held = os.open(sandboxes.root / session, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = sandboxes("exec", "-c", "1", "--session", session, "--timeout", "0.1", "--json")
    finally:
        os.close(held)
    assert (done.code, done.document["error"]["type"]) == (5, "WorkspaceBusy")


def test_ctrl_c_cancels_and_a_second_one_gives_up_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens: list[CancelToken] = []
    running = threading.Event()
    release = threading.Event()

    class Impatient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            running.wait(60)
            if len(interrupts) == 2:
                raise AssertionError("waits on after two")
            interrupts.append(tokens[0].cancelled)
            raise KeyboardInterrupt

    def stubborn(token: CancelToken) -> SandboxResult:
        tokens.append(token)
        running.set()
        release.wait(60)
        raise AssertionError("nobody waits for this")

    interrupts: list[bool] = []
    named = SimpleNamespace(Event=Impatient, Thread=threading.Thread)
    monkeypatch.setattr(sandbox_shell, "threading", named)
    with pytest.raises(KeyboardInterrupt):
        run_cancellable(stubborn)
    release.set()
    assert interrupts == [False, True]


# ------------------------------------------------------------------------------------- small parts


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MB", 512_000_000),
        ("1GiB", 1 << 30),
        ("64 mib", 64 << 20),
        ("100k", 100_000),
        ("12", 12),
        ("12B", 12),
    ],
)
def test_a_size_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("source", "complete"),
    [
        ("x = 1", True),
        ("def f():", False),
        ("def f():\n  return 1", False),
        ("def f():\n  return 1\n", True),
        ("f(", False),
        ("'''a\nb", False),
        ("for", True),
        ("def f[T](x):", False),
        ("def f[T](x):\n  pass\n", True),
        ("a\0", True),
        (r"'\d'", True),
    ],
)
def test_a_statement_is_complete_as_in_python(source: str, complete: bool) -> None:
    assert is_complete(source) is complete


def test_a_statement_is_looked_at_in_silence() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert is_complete(r"'\d'")
    assert told == []


def test_shell_reads_no_more_than_it_is_given(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("x = 2\nx * 2\n"))
    done = sandboxes("shell", "--json")
    assert done.code == 0
    documents = [json.loads(line) for line in done.out.splitlines()]
    assert [(one["turn"], one["stdout"]) for one in documents] == [(1, ""), (2, "4\n")]


def test_shell_takes_syntax_that_this_python_may_not_know(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = "type N = int\ndef first[T](x: list[T]) -> T:\n    return x[0]\n\nfirst([5])\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    done = sandboxes("shell", "--session", sandboxes.new("one"))
    assert (done.code, done.out, done.err) == (0, "5\n", "")


def test_shell_loses_one_statement_to_a_limit(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = "x = 1\nwhile True: pass\n\nx\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    done = sandboxes("shell", "--session", sandboxes.new("one"), "--fuel", "60000000")
    assert (done.code, done.out) == (0, "1\n")
    assert (
        "stopped (out of fuel): the variables are those of before, files as they are now"
        in done.err
    )


def test_shell_takes_answers_as_lines_and_shows_what_waits_as_json(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = (
        "from agentforge import ask, call\n"
        "picked = await ask('Which?', options=['a', 'b', 'c'], multi_select=True)\n3, a\n"
        "picked, await call('size', of='x')\n"
        '{"n": 2}\n'
        "await ask('Last?')\n"
    )
    session = sandboxes.new("one")
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    done = sandboxes("shell", "--session", session)
    assert (done.code, done.out) == (0, "(['c', 'a'], {'n': 2})\n")
    assert 'the result of size({"of": "x"}), as JSON:\n' in done.err
    monkeypatch.setattr(sys, "stdin", io.StringIO("well\n"))
    done = sandboxes("shell", "--session", session, "--json")
    assert json.loads(done.out)["stdout"] == "'well'\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO("await ask('Again?')\n"))
    done = sandboxes("shell", "--session", session, "--json")
    assert json.loads(done.out)["suspended"]["requests"][0]["question"] == "Again?"


def test_shell_waits_for_a_program_that_sleeps(
    sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = "import asyncio\nawait asyncio.sleep(1.2)\n'awake'\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    done = sandboxes("shell", "--session", sandboxes.new("one"))
    assert (done.code, done.out) == (0, "'awake'\n")
    assert done.err.startswith("  /app/<input 2>:1 in <module>")
    assert "asleep until 2" in done.err
