"""The command `agentforge-hook` as a process: garbage, many at once, killed, on a full disk."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.agents.hooks.binding import conversations_folder
from agentforge_sessions.agents.hooks.project_place import find_project
from tests.support.agent_conversations import Conversation, Project, Repository
from tests.support.person import persons_folders
from tests.support.soak import SOAKING

PROGRAM = "from agentforge_sessions.entrypoints.hook.main import main; main()"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def start_hook(data: bytes, *arguments: str, program: str = PROGRAM) -> subprocess.Popen[bytes]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AGENTFORGE_")}
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.close()
    process.stdin = None
    return process


def run_hook(data: bytes, *arguments: str, program: str = PROGRAM) -> tuple[int, bytes, bytes]:
    process = start_hook(data, *arguments, program=program)
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"\xff\xfe\x00", b"[" * 100_000, b"null"])
def test_garbage_on_standard_input_has_no_answer_and_no_failure(data: bytes) -> None:
    code, out, err = run_hook(data, "claude-code")
    assert (code, out) == (0, b"")
    assert err.count(b"\n") == 1
    assert b"Traceback" not in err


@pytest.mark.parametrize("arguments", [(), ("nosuch",), ("claude-code", "more"), ("--help",)])
def test_other_arguments_have_no_answer_and_no_failure(arguments: tuple[str, ...]) -> None:
    code, out, _ = run_hook(b"{}", *arguments)
    assert (code, out) == (0, b"")


def test_an_answer_is_one_line_of_json(project: Project) -> None:
    project.begin(goal="Count")
    talk = Conversation(project)
    payload = json.dumps(talk.payload("SessionStart", source="startup")).encode()
    code, out, err = run_hook(payload, "claude-code")
    assert (code, err, out.count(b"\n")) == (0, b"", 1)
    assert "Goal: “Count" in json.loads(out)["hookSpecificOutput"]["additionalContext"]


def test_what_fails_is_a_line_on_standard_error_and_the_turn_goes_on(project: Project) -> None:
    session_id = project.begin()
    talk = Conversation(project)
    talk.start()
    project.store.session_path(session_id).write_bytes(b"\x00")
    talk.spend(100)
    payload = json.dumps(talk.payload("PreToolUse", tool_name="Bash", tool_input={})).encode()
    code, out, err = run_hook(payload, "claude-code")
    assert (code, out) == (0, b"")
    assert err.startswith(b"agentforge-hook: SessionCorrupted: ")


@pytest.mark.timeout(400)
def test_thirty_hooks_at_once_charge_each_token_once(project: Project) -> None:
    """One that waited too long for the others says so, and leaves its part to the next."""
    session_id = project.begin(budget=1_000_000)
    talks = [Conversation(project, f"conversation-{number}") for number in range(3)]
    for talk in talks:
        talk.start()
        for _ in range(5):
            talk.spend(100)
    payloads = [
        json.dumps(talk.payload("PostToolUse", tool_name="Bash", tool_input={})).encode()
        for talk in talks
        for _ in range(10)
    ]
    processes = [start_hook(payload, "claude-code") for payload in payloads]
    outputs = [one.communicate(timeout=300)[0] for one in processes]
    assert outputs == [b""] * 30
    assert [one.returncode for one in processes] == [0] * 30
    for talk in talks:
        talk.use_tool()
    assert project.session(session_id).token_budget.tokens_used == 1_500


KILLED_AT = """
import os, signal, sys
from agentforge_sessions.base.files import OsFileSystem
number = int(sys.argv.pop())
calls = 0
def counted(name):
    real = getattr(OsFileSystem, name)
    def call(*given, **named):
        global calls
        calls += 1
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **named)
    return staticmethod(call)
for name in ("writev", "fsync", "rename", "unlink", "open"):
    setattr(OsFileSystem, name, counted(name))
from agentforge_sessions.entrypoints.hook.main import main
main()
"""


def test_a_hook_that_is_killed_before_any_file_call_charges_once(project: Project) -> None:
    """Each call of one run is a place to die in; the next hook finds what is to be charged."""
    session_id = project.begin(budget=1_000_000)
    talk = Conversation(project)
    talk.start()
    spent = 0
    killed = 0
    instants = range(1, 30)
    for number in random.Random(7).sample(instants, 12):
        talk.spend(100)
        spent += 100
        payload = json.dumps(talk.payload("Stop")).encode()
        code, _, _ = run_hook(payload, "claude-code", str(number), program=KILLED_AT)
        killed += code == -signal.SIGKILL
        talk.use_tool()
        assert project.session(session_id).token_budget.tokens_used == spent
    assert killed >= 3


FULL_DISK = """
import errno, os
from agentforge_sessions.base.files import OsFileSystem
def full(fd, buffers):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
OsFileSystem.writev = staticmethod(full)
from agentforge_sessions.entrypoints.hook.main import main
main()
"""


def test_on_a_full_disk_the_turn_goes_on_and_nothing_is_lost(project: Project) -> None:
    session_id = project.begin(budget=1_000)
    talk = Conversation(project)
    talk.start()
    talk.spend(600)
    payload = json.dumps(talk.payload("PreToolUse", tool_name="Bash", tool_input={})).encode()
    code, out, err = run_hook(payload, "claude-code", program=FULL_DISK)
    assert (code, out) == (0, b"")
    assert b"No space left" in err
    assert project.session(session_id).token_budget.tokens_used == 0
    talk.use_tool()
    assert project.session(session_id).token_budget.tokens_used == 600


def test_on_a_full_disk_a_spent_budget_stops_the_agent_all_the_same(project: Project) -> None:
    project.begin(budget=1_000)
    talk = Conversation(project)
    talk.start()
    talk.spend(1_600)
    payload = json.dumps(talk.payload("PreToolUse", tool_name="Bash", tool_input={})).encode()
    code, out, _ = run_hook(payload, "claude-code", program=FULL_DISK)
    assert (code, json.loads(out)["continue"]) == (0, False)


TAKES_LONG: Final = (
    *("attr", "attrs", "rich", "structlog", "typer", "wasmtime", "yaml"),
    *("ast", "asyncio", "dis", "inspect", "logging", "shutil", "subprocess", "tempfile"),
)


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("SessionStart", {"source": "resume"}),
        ("UserPromptSubmit", {"prompt": "Go on"}),
        ("PreToolUse", {"tool_name": "Bash", "tool_input": {}}),
        ("Stop", {"last_assistant_message": "Done."}),
    ],
)
def test_the_hook_loads_nothing_that_takes_long(
    project: Project, event: str, fields: dict[str, object]
) -> None:
    """What is asked for, but not used, is not loaded: it has the class of a module to be loaded.

    Nor is any text compiled, as an annotation would be: the first one takes longest.
    """
    session_id = project.begin()
    talk = Conversation(project)
    talk.start()
    talk.spend(100)
    revision = project.session(session_id).revision
    program = (
        "import builtins, sys, os, types\n"
        "def compiled(source, name, *given, **named):\n"
        "    if name == '<string>': sys.stderr.write(f'compiled: {source!r}')\n"
        "    return compiles(source, name, *given, **named)\n"
        "compiles, builtins.compile = builtins.compile, compiled\n"
        "def shown(code):\n"
        "    loaded = {n for n, one in sys.modules.items() if type(one) is types.ModuleType}\n"
        f"    sys.stderr.write(' '.join(sorted(loaded & {set(TAKES_LONG)!r})))\n"
        "    sys.stderr.flush()\n"
        "    real(code)\n"
        "real, os._exit = os._exit, shown\n"
    ) + PROGRAM
    payload = json.dumps(talk.payload(event, **fields)).encode()
    code, _, err = run_hook(payload, "claude-code", program=program)
    assert (code, err) == (0, b"")
    assert project.session(session_id).revision > revision


SOON_AFTER: Final = """
import os, sys, types, json
from agentforge_sessions.entrypoints.hook.main import LoadedWhenUsed
sys.meta_path.insert(0, LoadedWhenUsed())
from agentforge_sessions.agents.hooks.handler import handle
from agentforge_sessions.fleet import stores
def clock():
    from datetime import UTC, datetime
    return datetime.fromtimestamp(os.stat(sys.argv[2]).st_mtime + 1.0, UTC)
answer = handle(sys.argv[1], json.load(sys.stdin), os.environ, stores=stores, clock=clock)
loaded = [name for name, one in sys.modules.items() if type(one) is types.ModuleType]
print(json.dumps([answer, loaded]))
"""
"""An event a second after the session was saved."""


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_an_event_of_a_tool_loads_nothing_of_the_session_while_its_record_can_wait(
    project: Project, event: str
) -> None:
    session_id = project.begin(budget=1_000_000)
    talk = Conversation(project)
    talk.start()
    talk.spend(100)
    talk.use_tool()
    talk.spend(100)
    made = project.folder / "made.py"
    made.write_text("made = True\n")
    fields = {"tool_name": "Write", "tool_input": {"file_path": str(made)}, "tool_response": {}}
    path = project.store.session_path(session_id)
    data = json.dumps(talk.payload(event, **fields)).encode()
    code, out, err = run_hook(data, "claude-code", str(path), program=SOON_AFTER)
    assert (code, err) == (0, b"")
    answer, loaded = json.loads(out)
    assert answer is None
    assert {*TAKES_LONG, "dataclasses", "hashlib", "ipaddress", "sqlite3"}.isdisjoint(loaded)
    ours = {one.split(".")[1] for one in loaded if one.startswith("agentforge_sessions.")}
    assert ours == {"agents", "base", "entrypoints", "fleet"}
    assert "agentforge_sessions.fleet.stores" not in loaded
    assert project.session(session_id).token_budget.tokens_used == 100
    talk.hook("Stop")
    assert project.session(session_id).token_budget.tokens_used == 200
    assert ("agent_edited" in project.actions(session_id)) == (event == "PostToolUse")


ROUNDS: Final = 50 if SOAKING else 3


@pytest.mark.timeout(100 + 40 * ROUNDS)
def test_of_eight_first_prompts_at_once_one_creates_the_session(tmp_path: Path) -> None:
    """The next prompt of each is in it, even if a first one waited too long for the others."""
    for number in range(ROUNDS):
        repository = Repository(tmp_path / f"project-{number}")
        talks = [Conversation(repository, f"conversation-{one}") for one in range(8)]
        prompts = [
            json.dumps(one.payload("UserPromptSubmit", prompt=f"prompt of {one.name}")).encode()
            for one in talks
        ]
        processes = [start_hook(one, "claude-code") for one in prompts]
        for one in processes:
            one.communicate(timeout=300)
        (session_id,) = repository.store.list_sessions()
        for talk in talks:
            talk.prompt("and on")
        assert repository.store.list_sessions() == [session_id]
        events = [entry.event for entry in repository.session(session_id).history]
        on = [one.agent_session for one in events if getattr(one, "text", "") == "and on"]
        assert sorted(on) == [talk.name for talk in talks]


HOLDER = """
import sys, time
from pathlib import Path
from agentforge_sessions.base.files import DirectoryLock, OsFileSystem
with DirectoryLock(OsFileSystem(), Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("which", ["conversation", "session", "project"])
def test_a_stopped_holder_of_a_lock_delays_a_prompt_for_a_short_time_and_loses_nothing(
    tmp_path: Path, which: str
) -> None:
    repository = Repository(tmp_path / "project")
    talk = Conversation(repository)
    place = find_project(repository.folder)
    assert place is not None
    if which == "project":
        directory = place.state(persons_folders())
        directory.mkdir(parents=True)
        talk.start()
    else:
        talk.prompt("Begin")
        (session_id,) = repository.store.list_sessions()
        conversations = conversations_folder(place.identity, persons_folders())
        conversation = conversations / "claude-code" / talk.name
        directory = repository.store.session_path(session_id).parent
        directory = conversation if which == "conversation" else directory
    with subprocess.Popen([sys.executable, "-c", HOLDER, directory], stdout=subprocess.PIPE) as one:
        try:
            assert one.stdout is not None
            assert one.stdout.readline() == b"held\n"
            one.send_signal(signal.SIGSTOP)
            prompt = json.dumps(talk.payload("UserPromptSubmit", prompt="Count the words")).encode()
            began = time.monotonic()
            code, out, err = run_hook(prompt, "claude-code")
            took_s = time.monotonic() - began
        finally:
            one.kill()
    assert (code, out, err) == (0, b"", b"")
    assert took_s < 20, "it waits for two seconds, and a busy machine for some more"
    talk.use_tool()
    (session_id,) = repository.store.list_sessions()
    said = [
        one.data["text"] for one in repository.session(session_id).history if "prompt" in one.action
    ]
    assert said[-1:] == ["Count the words"]
