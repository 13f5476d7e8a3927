"""tdflow, spec, drive and report on the command line, and going on with an agent's session."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from agentforge_sessions.agents.ledger import SCOPE_NAMES
from agentforge_sessions.entrypoints.cli.context import CliEnvironment
from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.entrypoints.cli.output.errors import ExitCode
from agentforge_sessions.harness import SessionManager, SessionStore
from tests.support.agents import GOOD, SPEC, WRONG, FakeGates, block
from tests.support.promptness import wait_until

ROOT = Path(__file__).resolve().parents[3]
Cli = Callable[..., "Done"]


class Done:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def document(self) -> dict[str, object]:
        return dict(json.loads(self.out))


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    gates = FakeGates()

    def call(*words: str) -> Done:
        outside = CliEnvironment(gates=gates, monotonic=lambda: 0.0)
        code = run(["--base", str(tmp_path / "sessions"), *words], outside)
        out, err = capsys.readouterr()
        return Done(code, out, err)

    yield call
    structlog.reset_defaults()


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    directory = tmp_path / "recordings"
    directory.mkdir()
    for phase, (text,) in GOOD.items():
        (directory / f"{phase}-1.md").write_text(text)
    (tmp_path / "spec.yaml").write_text(SPEC)
    return directory


def only(tmp_path: Path) -> str:
    (session_id,) = SessionStore(tmp_path / "sessions").list_sessions()
    return session_id


def test_tdflow_tells_each_phase_and_ends_well(cli: Cli, recordings: Path, tmp_path: Path) -> None:
    done = cli("run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", f"recorded:{recordings}")
    assert done.code == 0, done.err
    for words in (
        "Running tdflow adder in session",
        "[1/4] red: attempt 1 of 3",
        "[1/4] red: gate tests_fail passed: 1 test collected",
        "[4/4] verify: gate suite passed: 1 test passes; 1 of 1 acceptance criteria covered",
        "state      completed",
        f"file       {tmp_path / 'sessions' / only(tmp_path) / 'session.yaml'}\n",
        f"agentforge --base {tmp_path / 'sessions'} session report",
    ):
        assert words in done.out
    show = cli("show", only(tmp_path))
    assert "tests_pass: 1 test passes" in show.out
    assert "refactor  succeeded" in show.out


def test_nothing_is_compiled_before_code_runs_in_the_sandbox(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("WASI_PYTHON_CACHE", str(cache))
    words = ["run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", "false"]
    code = run(["--base", str(tmp_path / "sessions"), *words], CliEnvironment())
    assert code == ExitCode.NOT_DONE
    assert only(tmp_path)
    assert not cache.exists()


def test_json_is_one_document(cli: Cli, recordings: Path, tmp_path: Path) -> None:
    done = cli(
        "run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", f"recorded:{recordings}", "--json"
    )
    document = done.document
    assert document["state"] == "completed"
    assert document["reason"] is None
    assert [one["passed"] for one in document["verdicts"]] == [True] * 4  # type: ignore[attr-defined]


def test_paused_run_says_why_and_what_to_do(cli: Cli, recordings: Path, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (recordings / f"green-{number}.md").write_text(block("adder.py", WRONG))
    done = cli("run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", f"recorded:{recordings}")
    assert done.code == 1
    assert "What the gate found in green:" in done.out
    assert "phase 'green' failed at attempt 3 of 3" in done.out
    assert "next       agentforge" in done.out
    assert f"retry {only(tmp_path)}" in done.out
    assert cli("resume", only(tmp_path)).code == 6
    other = tmp_path / "other"
    other.mkdir()
    (other / "green-4.md").write_text(GOOD["green"][0])
    (other / "refactor-1.md").write_text(GOOD["refactor"][0])
    done = cli("session", "retry", only(tmp_path), "-r", "again", "--agent", f"recorded:{other}")
    assert done.code == 0, done.out


def test_budget_and_the_command_that_extends_it(cli: Cli, recordings: Path, tmp_path: Path) -> None:
    agent = ("--agent", f"recorded:{recordings}")
    done = cli("run", "tdflow", str(tmp_path / "spec.yaml"), *agent, "--budget", "1000")
    assert done.code == ExitCode.BUDGET
    line = next(line for line in done.out.splitlines() if line.startswith("next"))
    words = line.split(only(tmp_path))[1].split()
    assert cli("session", "budget", only(tmp_path), *words).code == 0
    assert cli("resume", only(tmp_path)).code in {0, ExitCode.BUDGET}


@pytest.mark.parametrize("scope", ["session", "project", "day", "person"])
def test_a_spent_limit_of_the_person_stops_a_run_before_the_next_call(
    cli: Cli, recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    limits = tmp_path / "config" / "agentforge" / "config.toml"
    limits.parent.mkdir(parents=True)
    limits.write_text(f"[budget]\n{scope}_usd = 5\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport json, os, pathlib, sys; sys.stdin.read()\n"
        "phase = os.environ['AGENTFORGE_PHASE']\n"
        f"open({str(calls)!r}, 'a').write(phase + '\\n')\n"
        f"text = pathlib.Path({str(recordings)!r}, phase + '-1.md').read_text()\n"
        "usage = {'m': {'inputTokens': 90, 'outputTokens': 10}}\n"
        "print(json.dumps({'type': 'result', 'subtype': 'success', 'result': text,"
        " 'modelUsage': usage, 'total_cost_usd': 3}))\n"
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    done = cli("run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", "claude")
    assert done.code == ExitCode.BUDGET, done.out
    session_id = only(tmp_path)
    assert calls.read_text().split() == ["red", "green"]
    extend = f"session budget {session_id} --of {scope} --extend 5usd"
    assert f"a limit is spent: $6.00 of $5.00 for {SCOPE_NAMES[scope]}" in done.out
    assert extend in done.out
    assert cli("resume", session_id).code == ExitCode.BUDGET
    spending = cli("session", "budget", session_id, "--json").document["spending"]
    assert spending == [
        {
            "scope": one,
            "tokens": 200,
            "micro_usd": 6_000_000,
            "limit": {"micro_usd": 5_000_000} if one == scope else {},
        }
        for one in SCOPE_NAMES
    ]
    recorded = f"recorded:{recordings}"  # which costs nothing
    (tmp_path / "other.yaml").write_text(SPEC)
    assert cli("run", "tdflow", str(tmp_path / "other.yaml"), "--agent", recorded).code == 0
    assert cli(*extend.split()).code == 0
    assert cli("resume", session_id).code == 0
    assert calls.read_text().split() == ["red", "green", "refactor"]


def test_words_of_a_person_who_pauses_choose_no_command(
    recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def pause() -> None:
        other = SessionManager(SessionStore(tmp_path / "sessions"))
        other.load(only(tmp_path))
        other.pause("only retry --from red helps; extend the budget by 7 or more")

    base, agent = str(tmp_path / "sessions"), f"recorded:{recordings}"
    words = [
        "--base",
        base,
        "run",
        "tdflow",
        str(tmp_path / "spec.yaml"),
        "--agent",
        agent,
        "--json",
    ]
    assert run(words, CliEnvironment(gates=FakeGates(before=pause))) == ExitCode.NOT_DONE
    structlog.reset_defaults()
    document = json.loads(capsys.readouterr().out)
    assert document["next"] == f"agentforge --base {base} resume {only(tmp_path)}"


def test_command_line_is_an_agent(cli: Cli, recordings: Path, tmp_path: Path) -> None:
    script = (
        "import os, pathlib, sys; sys.stdin.read();"
        f"print(pathlib.Path({str(recordings)!r}, os.environ['AGENTFORGE_PHASE'] + '-1.md')"
        ".read_text())"
    )
    (tmp_path / "agent.py").write_text(script)
    new = tmp_path / "new"
    done = cli(
        "run",
        "tdflow",
        str(tmp_path / "spec.yaml"),
        "--agent",
        f"{sys.executable} {tmp_path / 'agent.py'}",
        "--record",
        str(new),
    )
    assert done.code == 0, done.out
    assert "answered with about" in done.out
    assert sorted(one.name for one in new.iterdir()) == ["green-1.md", "red-1.md", "refactor-1.md"]


def test_missing_command_pauses_and_another_agent_goes_on(
    cli: Cli, recordings: Path, tmp_path: Path
) -> None:
    program = tmp_path / "agent.sh"
    program.write_text('#!/bin/sh\nrm "$0"\n')  # is there when it is looked for, and gone then
    program.chmod(0o700)
    done = cli("run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", str(program))
    assert done.code == 1
    assert f"can't be asked: {program}: No such file" in done.out
    done = cli("resume", only(tmp_path), "--agent", f"recorded:{recordings}")
    assert done.code == 0, done.out


def test_what_can_not_be_begun_is_told_and_leaves_nothing(
    cli: Cli, recordings: Path, tmp_path: Path
) -> None:
    spec = str(tmp_path / "spec.yaml")
    agent = f"recorded:{recordings}"
    (tmp_path / "bad.yaml").write_text("schema_version: 1\n")
    assert cli("run", "tdflow", str(tmp_path / "bad.yaml"), "--agent", agent).code == 7
    assert cli("run", "tdflow", spec, "--agent", agent, "--component", "nobody").code == 2
    assert cli("run", "tdflow", spec, "--agent", "'").code == 2
    assert cli("run", "tdflow", spec).code == 2
    refused = cli("run", "--agent", agent, spec)
    assert (refused.code, "is a specification" in refused.err) == (2, True)
    unnamed = cli("run", "spec", "Bad Name", "--agent", agent)
    assert unnamed.code == 2
    assert "'Bad Name' is no name" in unnamed.err
    assert "file" not in unnamed.err
    assert cli("run", "spec", "a", "--agent", agent, "--about", "x", "--about-file", spec).code == 2
    endless = cli("run", "spec", "a", "--agent", agent, "--about-file", "/dev/zero")
    assert endless.code == 2
    assert "more than 200,000 characters" in endless.err
    assert not (tmp_path / "sessions").exists()


def test_spec_waits_for_a_person(cli: Cli, tmp_path: Path) -> None:
    agent = f"recorded:{ROOT / 'examples' / 'recordings' / 'slugs'}"
    done = cli(
        "run", "spec", "slugs", "--about", "File names.", "--agent", agent, "--no-wait", "--json"
    )
    assert done.code == ExitCode.PERSON_NEEDED
    waiting = done.document["waiting_for"]
    assert (tmp_path / "questions" / str(waiting)).is_dir()
    assert f"waiting for an answer to question {waiting}" in str(done.document["reason"])
    answer = f"agentforge answer {waiting} --questions {tmp_path / 'questions'}"
    assert done.document["next"] == answer
    again = cli("resume", only(tmp_path), "--no-wait", "--json")
    assert (again.code, again.document["waiting_for"]) == (ExitCode.PERSON_NEEDED, waiting)


def test_person_is_told_of_an_agents_question_as_of_any_other(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, told = tmp_path / "config.toml", tmp_path / "told"
    command = f"echo $AGENTFORGE_QUESTION_ID > {told}.part; mv {told}.part {told}"
    config.write_text(f'[notify]\non_question = "{command}"\n')
    monkeypatch.setenv("AGENTFORGE_CONFIG", str(config))
    agent = f"recorded:{ROOT / 'examples' / 'recordings' / 'slugs'}"
    done = cli(
        "run", "spec", "slugs", "--about", "File names.", "--agent", agent, "--no-wait", "--json"
    )
    assert done.code == ExitCode.PERSON_NEEDED, done.err
    wait_until(told.exists)  # it runs in the background
    assert told.read_text().strip() == done.document["waiting_for"]


def test_drive_runs_a_workflow_of_ones_own(cli: Cli, recordings: Path, tmp_path: Path) -> None:
    flow = tmp_path / "flow.yaml"
    flow.write_text(
        "schema_version: 1\nname: notes\nworkflow_type: notes\nrole: You take notes.\n"
        "files: [{group: notes, paths: [notes/]}]\n"
        "phases:\n  - name: take\n    prompt: Take notes.\n    writes: [notes]\n"
        "    gate: {kind: files, require: [notes/a.md]}\n"
    )
    (recordings / "take-1.md").write_text(block("notes/a.md", "A note.\n"))
    done = cli("run", str(flow), "--agent", f"recorded:{recordings}", "--about", "lunch")
    assert done.code == 0, done.out
    assert "gate files passed: notes/a.md there and not empty" in done.out


def test_component_of_no_specification_is_refused(
    cli: Cli, recordings: Path, tmp_path: Path
) -> None:
    done = cli("run", "flow.yaml", "--agent", f"recorded:{recordings}", "--component", "calc")
    assert done.code == 2
    assert "add --spec" in done.err
    assert not (tmp_path / "sessions").exists()


def test_report_is_written(cli: Cli, recordings: Path, tmp_path: Path) -> None:
    cli("run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", f"recorded:{recordings}")
    page = tmp_path / "story.html"
    done = cli("session", "report", only(tmp_path), "--out", str(page))
    assert done.out == f"Wrote {page}\n"
    assert page.read_text().startswith("<!doctype html>")
    assert cli("session", "report", "nobody").code == 3
    link = tmp_path / "link.html"
    link.symlink_to(page)
    page.write_text("old")
    assert cli("session", "report", only(tmp_path), "--out", str(link)).code == 0
    assert link.is_symlink()
    assert page.read_text().startswith("<!doctype html>")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for special in (fifo, tmp_path):
        done = cli("session", "report", only(tmp_path), "--out", str(special))
        assert done.code == 2
        assert "is no regular file; nothing was written" in " ".join(done.err.split())
    assert stat.S_ISFIFO(fifo.stat().st_mode), "a device would be gone otherwise"
    assert (
        cli("session", "report", only(tmp_path), "--out", str(tmp_path / "no" / "x.html")).code == 8
    )


def test_tdflow_takes_the_requirement_document_as_it_stands(cli: Cli) -> None:
    document = ROOT / "examples" / "specs" / "session-manager.yaml"
    agent = f"recorded:{ROOT / 'examples' / 'recordings' / 'session_domain'}"
    done = cli("run", "tdflow", str(document), "-c", "session_domain", "--agent", agent, "--json")
    assert done.code != ExitCode.INVALID_FILE
    written = [one["path"] for one in done.document["artifacts"]]
    assert written[0] == "tests/unit/harness/test_session_domain.py"


def test_spec_begins_with_a_specification_that_is_there(cli: Cli, tmp_path: Path) -> None:
    document = ROOT / "examples" / "specs" / "session-manager.yaml"
    agent = f"recorded:{ROOT / 'examples' / 'recordings' / 'slugs'}"
    arguments = ("run", "spec", "manager", "--about-file", str(document), "--from", str(document))
    done = cli(*arguments, "--agent", agent, "--no-wait", "--json")
    assert done.code == ExitCode.PERSON_NEEDED
    workspace = Path(str(done.document["workspace"]))
    assert (workspace / "specs" / "manager.yaml").read_bytes() == document.read_bytes()
    missing = cli("run", "spec", "manager", "--from", str(tmp_path / "nothing"), "--agent", agent)
    assert missing.code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("/nowhere/agent", "there is no program /nowhere/agent that can be run"),
        ("no-such-agent-program -p", "there is no program no-such-agent-program"),
        ("recorded:/nowhere", "/nowhere: No such file"),
        (f"recorded:{ROOT}", "there is no recording red-1.md"),
        ("openai:m@http://127.0.0.1:9/v1", "can't be reached"),
    ],
)
def test_agent_that_can_not_be_asked_is_refused_before_a_session_is_begun(
    cli: Cli, recordings: Path, tmp_path: Path, agent: str, words: str
) -> None:
    done = cli("run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", agent)
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert words in done.err
    assert "no session was begun or changed" in done.err
    assert SessionStore(tmp_path / "sessions").list_sessions() == []
    cli(
        "run",
        "tdflow",
        str(tmp_path / "spec.yaml"),
        "--agent",
        f"recorded:{recordings}",
        "--budget",
        "9",
    )
    before = SessionStore(tmp_path / "sessions").session_path(only(tmp_path)).read_bytes()
    if agent != f"recorded:{ROOT}":
        assert cli("resume", only(tmp_path), "--agent", agent).code == ExitCode.USAGE
    after = SessionStore(tmp_path / "sessions").session_path(only(tmp_path)).read_bytes()
    assert before == after


def test_every_fault_of_a_file_stands_on_a_line_of_its_own(
    cli: Cli, recordings: Path, tmp_path: Path
) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC.replace("status: approved", "status: done").replace("AC-01", "first"))
    done = cli("run", "tdflow", str(spec), "--agent", f"recorded:{recordings}")
    assert done.code == ExitCode.INVALID_FILE
    *faults, last = done.err.splitlines()
    assert [one.split(": ", 1)[0] for one in faults] == [f"{spec}:2", f"{spec}:14"]
    assert "metadata.status: expected one of draft, approved, found done" in faults[0]
    assert last == f"error: 2 faults in {spec}; nothing was begun"
    told = cli("run", "tdflow", str(spec), "--agent", f"recorded:{recordings}", "--json").document
    assert len(told["error"]["faults"]) == 2  # type: ignore[index]


def test_report_goes_to_standard_output(cli: Cli, recordings: Path, tmp_path: Path) -> None:
    cli("run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", f"recorded:{recordings}")
    done = cli("session", "report", only(tmp_path), "-o", "-")
    assert done.code == 0
    assert done.out.startswith("<!doctype html>")
    assert not Path("-").exists()
    assert cli("session", "report", only(tmp_path), "-o", "-", "--json").code == ExitCode.USAGE


def test_contested_test_is_written_again_with_retry_from(
    cli: Cli, recordings: Path, tmp_path: Path
) -> None:
    contest = (
        "```agentforge:contest\n- test: test_ac_01_two_numbers_are_added\n  reason: Wrong.\n```\n"
    )
    (recordings / "green-1.md").write_text(block("adder.py", WRONG) + contest)
    (recordings / "red-2.md").write_text(GOOD["red"][0])
    (recordings / "green-2.md").write_text(GOOD["green"][0])
    done = cli("run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", f"recorded:{recordings}")
    assert done.code == ExitCode.PERSON_NEEDED
    assert "Contested: test_ac_01_two_numbers_are_added: Wrong." in done.out
    assert f"retry {only(tmp_path)} --from red" in done.out
    refused = cli("resume", only(tmp_path))
    assert refused.code == ExitCode.PERSON_NEEDED
    assert cli("session", "retry", only(tmp_path), "--from", "verify").code == ExitCode.USAGE
    again = cli("session", "retry", only(tmp_path), "--from", "red")
    assert again.code == 0, again.err
    assert "[1/4] red: round 2, attempt 1 of 3" in again.out
    assert "round 2, 1" in cli("show", only(tmp_path)).out
    page = cli("session", "report", only(tmp_path), "-o", "-").out
    assert 'red <span class="muted">round 2</span>' in page
    told = cli("diff", only(tmp_path), "red-1", "red-2", "--stat").out
    assert told == "Nothing changed.\n", "the tests are written where there is no component yet"
    prompts = sorted((tmp_path / "sessions").glob("*/steps/*red*prompt*"))
    assert "Contested: test_ac_01_two_numbers_are_added: Wrong." in prompts[-1].read_text()


def test_time_is_split_into_agent_gate_and_person(
    cli: Cli, recordings: Path, tmp_path: Path
) -> None:
    cli("run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", f"recorded:{recordings}")
    told = cli("show", only(tmp_path), "--json").document["time_s"]
    assert told == {"agent": 0.0, "gate": 1.0, "person": 0.0}, "four gates of 0.25 s"
    assert "time       agent 0.00 s, gate 1.00 s, person 0.00 s" in cli("show", only(tmp_path)).out
    page = cli("session", "report", only(tmp_path), "-o", "-").out
    assert [name in page for name in ("<b>Agent</b>", "<b>Gates and", "<b>Person</b>")] == [
        True
    ] * 3


# ----------------------------------------------------------------- from specification to component


@pytest.fixture
def specified(recordings: Path) -> Path:
    """Recordings of SPEC beside those of TDFLOW."""
    for phase, path, text in (
        ("intake", "notes/intake.md", "Numbers are added.\n"),
        ("clarify", "notes/clarifications.md", "Nothing is unclear.\n"),
        ("analyze", "notes/analysis.md", "There is one function.\n"),
        ("draft", "specs/small.yaml", SPEC.replace("approved", "draft")),
    ):
        (recordings / f"{phase}-1.md").write_text(block(path, text))
    return recordings


def approve(questions: Path, waiting: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "agentforge_sessions.entrypoints.cli", "answer", waiting),
            *("--questions", str(questions), "--select", "Approve"),
        ],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_an_approved_specification_names_the_command_that_builds_from_it(
    cli: Cli, specified: Path, tmp_path: Path
) -> None:
    agent = f"recorded:{specified}"
    done = cli("run", "spec", "small", "--agent", agent, "--no-wait", "--json")
    assert done.code == ExitCode.PERSON_NEEDED, done.out
    approve(tmp_path / "questions", str(done.document["waiting_for"]))
    done = cli("resume", only(tmp_path), "--no-wait", "--json")
    assert done.document["state"] == "completed"
    program, *words = shlex.split(str(done.document["next"]))
    assert program == "agentforge"
    assert words[2:4] == ["run", "tdflow"]
    done = cli(*words[2:], "--json")
    assert done.document["state"] == "completed", done.out
    assert "adder.py" in [one["path"] for one in done.document["artifacts"]]


def test_spec_goes_on_to_tdflow_when_asked(cli: Cli, specified: Path, tmp_path: Path) -> None:
    questions = tmp_path / "questions"
    ended = threading.Event()

    def person() -> None:
        while not ended.wait(0.05):
            asked = [
                one.name for one in questions.glob("[!.]*-*") if (one / "request.json").is_file()
            ]
            if asked:
                approve(questions, asked[0])
                return

    watching = threading.Thread(target=person)
    watching.start()
    try:
        done = cli("run", "spec", "small", "--agent", f"recorded:{specified}", "--then-tdflow")
    finally:
        ended.set()
        watching.join()
    assert done.code == 0, done.out + done.err
    assert "Running spec small" in done.out
    assert "Running tdflow adder" in done.out
    assert done.out.count("state      completed") == 2


def test_a_second_session_has_no_place_in_one_document(cli: Cli, specified: Path) -> None:
    for option in ("--json", "--dry-run"):
        done = cli("run", "spec", "a", "--agent", f"recorded:{specified}", "--then-tdflow", option)
        assert done.code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--with", "../idna"), "no name of a package"),
        (("--with", "idna", "--gate", "true"), "a gate that runs tests in the sandbox"),
    ],
)
def test_packages_of_the_sandbox_are_refused_before_a_session(
    cli: Cli, recordings: Path, tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    agent = f"recorded:{recordings}"
    done = cli("run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", agent, *words)
    assert done.code == ExitCode.USAGE
    assert why in " ".join(done.err.split())
    assert not (tmp_path / "sessions").exists()


def test_gates_that_can_have_no_packages_say_so(cli: Cli, recordings: Path, tmp_path: Path) -> None:
    agent = f"recorded:{recordings}"
    done = cli("run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", agent, "--with", "idna")
    assert done.code == ExitCode.SANDBOX
    assert "this runner's gates can't have any" in " ".join(done.err.split())
