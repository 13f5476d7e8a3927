"""An agent that edits in place, in a real jail: what it sees, what is taken, what is put back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import evolve

from agentforge_sessions.agents.running import RecordedAgent
from agentforge_sessions.agents.running.agent_jail import JailedAgent
from agentforge_sessions.harness import SessionManager, SessionState, SessionStore
from agentforge_sessions.jail import WORKSPACE, JailPolicy
from agentforge_sessions.wiring.bootstrap import build_agent_runner, open_snapshots
from agentforge_sessions.workflows import TDFLOW, AgentChoice, AgentWork, RunOutcome, WorkflowRunner
from agentforge_sessions.workflows.agents.port import (
    AgentCrashed,
    AgentFailed,
    AgentRequest,
    AgentTimeout,
    AgentUnavailable,
    TokenUsage,
)
from agentforge_sessions.workflows.run.step_journal import StepJournal
from agentforge_sessions.workflows.workflow import Workflow
from tests.support.agents import SPEC
from tests.support.jail_starters import PYTHON

AGENT: Final = Path(__file__).resolve().parents[3] / "examples" / "editing_agent.py"
GATE: Final = "/usr/bin/python3 run_tests.py"
RUNNER: Final = '''\
"""Runs the functions called test_… of tests/, and says in TAP how they ended."""
import pathlib, sys, traceback
sys.path.insert(0, ".")
sys.dont_write_bytecode = True
cases = []
for path in sorted(pathlib.Path("tests").glob("test_*.py")):
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    cases += [(f"{path.stem}.{name}", test) for name, test in space.items() if name[:5] == "test_"]
print(f"1..{len(cases)}")
bad = 0
for number, (name, test) in enumerate(cases, 1):
    try:
        test()
        print(f"ok {number} - {name}")
    except Exception as error:
        bad += 1
        print(f"not ok {number} - {name}")
        print(f"  ---\\n  message: {type(error).__name__}\\n  ...")
sys.exit(bool(bad))
'''
OLD_TEST: Final = "def test_old():\n    import other\n    assert other.ONE == 1\n"
TEST: Final = """\
def test_ac_01_two_numbers_are_added():
    import adder
    assert adder.add(1, 2) == 3
"""
CODE: Final = "def add(a, b):\n    return a + b\n"
GOOD: Final[dict[str, list[dict[str, Any]]]] = {
    "red-1": [{"write": "tests/test_adder.py", "text": TEST}],
    "green-1": [{"write": "adder.py", "text": CODE}],
    "refactor-1": [{"replace": "adder.py", "old": "a + b", "new": "b + a"}],
}


class Ground:
    """A repository, sessions of it, and an agent that does what its plan says."""

    def __init__(self, tmp_path: Path, policy: JailPolicy | None = None) -> None:
        self.policy = policy
        self.base = tmp_path / "sessions"
        self.repository = tmp_path / "repository"
        self.plan = tmp_path / "plan.json"
        self.repository.mkdir()
        for path, text in {
            "run_tests.py": RUNNER,
            "other.py": "ONE = 1\n",
            "tests/test_old.py": OLD_TEST,
            ".gitignore": "build/\n*.log\n",
            "tool.sh": "#!/bin/sh\n",
        }.items():
            place = self.repository / path
            place.parent.mkdir(exist_ok=True)
            place.write_text(text)
        (self.repository / "tool.sh").chmod(0o755)
        (self.repository / "link").symlink_to("other.py")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "base")
        self.manager = self.new_manager()

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.repository), *words], check=True, capture_output=True, text=True
        )
        return done.stdout

    def new_manager(self) -> SessionManager:
        store = SessionStore(self.base)
        return SessionManager(store, snapshots=open_snapshots(store))

    @property
    def store(self) -> SessionStore:
        return self.manager.store

    def workflow(self) -> Workflow:
        return evolve(TDFLOW, agent_mode="edit").with_command(GATE, report="tap")

    def choice(self, **more: Any) -> AgentChoice:
        return AgentChoice(kind="command", value=f"{PYTHON} {AGENT} {self.plan}", **more)

    def runner(self) -> WorkflowRunner:
        self.manager = self.new_manager()
        return build_agent_runner(manager=self.manager, jail=self.policy)

    def start(self, plan: dict[str, list[dict[str, Any]]], **more: Any) -> RunOutcome:
        self.plan.write_text(json.dumps(plan))
        work = AgentWork(
            workflow=more.pop("workflow", self.workflow()),
            name="adder",
            specification=SPEC.encode(),
            agent=self.choice(**more),
        )
        attachments = open_snapshots(self.store).attachments(
            self.repository, "HEAD", with_uncommitted=False
        )
        agent = JailedAgent(self.store, work.agent or self.choice(), self.policy)
        return self.runner().start(work, agent, attachments=attachments)

    def resume(self, outcome: RunOutcome) -> RunOutcome:
        return self.runner().resume(outcome.session_id)

    def file(self, outcome: RunOutcome, path: str) -> Path:
        return self.store.workspace_path(outcome.session_id) / path

    def steps(self, outcome: RunOutcome) -> StepJournal:
        return StepJournal(self.store, outcome.session_id)

    def verdicts(self, outcome: RunOutcome) -> dict[str, dict[str, Any]]:
        steps = self.steps(outcome)
        return {
            name.removesuffix(".verdict.json"): steps.read(name) or {}
            for name in steps.names()
            if name.endswith(".verdict.json")
        }

    def prompt(self, outcome: RunOutcome, name: str) -> str:
        found = self.steps(outcome).read(f"{name}.prompt.json")
        assert found is not None
        return str(found["prompt"])


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    made = Ground(tmp_path)
    try:
        JailedAgent(made.store, made.choice()).check()
    except AgentUnavailable as error:
        pytest.skip(str(error))
    return made


def test_a_component_of_a_repository_is_developed_in_place(ground: Ground) -> None:
    outcome = ground.start(GOOD)
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    assert ground.file(outcome, "adder.py").read_text() == CODE.replace("a + b", "b + a")
    assert not list(ground.file(outcome, ".").rglob(".git"))
    session = ground.store.load(outcome.session_id)
    assert session is not None
    changes = ground.manager.diff()
    assert [one.path for one in changes.files] == ["adder.py", "tests/test_adder.py"]
    verdicts = ground.verdicts(outcome)
    assert all(one["facts"].get("agent_sealed", True) for one in verdicts.values())
    red = verdicts["0001-red-1"]["facts"]
    assert red["all_tests"] == ["test_adder.test_ac_01_two_numbers_are_added", "test_old.test_old"]
    assert red["criteria"] == {"AC-01": 1}
    assert ground.git("status", "--porcelain") == ""


def test_without_walls_the_same_is_done_and_the_history_says_so(tmp_path: Path) -> None:
    ground = Ground(tmp_path, JailPolicy(walls=False))
    outcome = ground.start(
        {**GOOD, "red-1": [{"run": ["test", "-f", ".git/agent-prompt.md"]}, *GOOD["red-1"]]}
    )
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    assert ground.git("status", "--porcelain") == ""
    assert [one.path for one in ground.manager.diff().files] == ["adder.py", "tests/test_adder.py"]
    session = ground.store.load(outcome.session_id)
    assert session is not None
    said = "not sealed: the agent, the gate's command"
    assert len([one for one in session.history if said in (one.details or "")]) == 3
    assert "python3, editing without a jail, not sealed" in {
        found["agent"]
        for name in ground.steps(outcome).names()
        if (found := ground.steps(outcome).read(name)) and "agent" in found
    }


def test_what_a_phase_may_not_change_is_put_back_and_told(ground: Ground) -> None:
    weaker = TEST.replace("== 3", "== adder.add(1, 2)")
    outcome = ground.start(
        {
            **GOOD,
            "green-1": [
                {"write": "adder.py", "text": CODE},
                {"write": "tests/test_adder.py", "text": weaker},
                {"delete": "other.py"},
                {"append": "run_tests.py", "text": "sys.exit(0)\n"},
                {"write": "notes.txt", "text": "x"},
                {"write": "build/cache.bin", "text": "x"},
                {"write": "__pycache__/x.pyc", "text": "x"},
                {"link": "adder2.py", "to": "/etc/passwd"},
                {"mode": "tool.sh", "to": "644"},
            ],
            "green-2": [
                {"expect": "'tests/test_adder.py' is one of the tests, which are fixed in phase"},
                {"expect": "'notes.txt' is none of the files that phase green may write: adder.py"},
                {"run": ["test", "-f", "adder.py"]},
                {"run": ["test", "!", "-e", "notes.txt"]},
                {"run": ["grep", "-q", "== 3", "tests/test_adder.py"]},
                {"append": "adder.py", "text": "\n"},
            ],
        }
    )
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    first = ground.verdicts(outcome)["0002-green-1"]
    assert first["gate"] == "answer"
    assert not first["passed"]
    assert first["facts"]["put_back"] == [
        "adder2.py",
        "notes.txt",
        "run_tests.py",
        "tests/test_adder.py",
        "tool.sh",
        "other.py",
    ]
    assert first["facts"]["written"] == ["adder.py"]
    assert sorted(first["facts"]["dropped"]) == ["__pycache__/x.pyc", "build/cache.bin"]
    assert [one.path for one in ground.manager.diff().files] == ["adder.py", "tests/test_adder.py"]
    assert ground.file(outcome, "tests/test_adder.py").read_text() == TEST
    assert ground.file(outcome, "tool.sh").stat().st_mode & 0o100


def test_the_agents_git_is_its_own_and_thrown_away(ground: Ground) -> None:
    hook = {"write": ".git/hooks/post-checkout", "text": "#!/bin/sh\ntouch /tmp/escaped\n"}
    outcome = ground.start(
        {
            "red-1": [
                {"run": ["git", "diff", "--quiet", "HEAD"]},
                {"run": ["git", "check-ignore", "-q", "build/x"]},
                hook,
                {"mode": ".git/hooks/post-checkout", "to": "755"},
                {"run": ["git", "commit", "-qam", "mine", "--allow-empty"]},
                {"run": ["git", "config", "core.fsmonitor", "touch escaped"]},
                {"write": "tests/.git/config", "text": "[core]\n\tfsmonitor = touch escaped\n"},
                {"write": "tests/.GIT/config", "text": "[core]\n\tfsmonitor = touch escaped\n"},
                {"write": "tests/test_adder.py", "text": TEST},
            ],
            "green-1": [
                {"run": ["git", "diff", "--quiet", "HEAD"]},
                {"run": ["test", "!", "-e", ".git/hooks/post-checkout"]},
                {"write": "adder.py", "text": CODE},
            ],
            "refactor-1": [{"append": "adder.py", "text": "\n"}],
        }
    )
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    found = {path.name.lower() for path in ground.file(outcome, ".").rglob("*")}
    assert ".git" not in found
    assert "escaped" not in found
    assert not (ground.repository / "escaped").exists()


def test_what_can_be_run_stays_so(ground: Ground) -> None:
    workflow = evolve(
        ground.workflow(),
        phases=[
            evolve(phase, gate=evolve(phase.agents_gate, covers_criteria=False))
            for phase in ground.workflow().phases[:1]
        ],
    )
    outcome = ground.start(
        {
            "red-1": [
                {"write": "tests/test_adder.py", "text": TEST},
                {"write": "tests/helper.sh", "text": "#!/bin/sh\n"},
                {"mode": "tests/helper.sh", "to": "755"},
                {"mode": "tests/test_old.py", "to": "755"},
            ]
        },
        workflow=workflow,
    )
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    for path in ("tests/helper.sh", "tests/test_old.py"):
        assert ground.file(outcome, path).stat().st_mode & 0o100
    assert not ground.file(outcome, "tests/test_adder.py").stat().st_mode & 0o111
    modes = {one.path: one.new_mode for one in ground.manager.diff().files}
    assert modes["tests/helper.sh"] == modes["tests/test_old.py"] == "100755"


def test_a_fork_knows_the_base_and_the_red_tests_of_its_parent(ground: Ground) -> None:
    whole = ground.start(GOOD)
    assert whole.state is SessionState.COMPLETED, whole.reason
    before_green = next(
        one for one in ground.manager.checkpoints() if one.phase == "red" and one.succeeded
    )
    fork = ground.manager.fork(before_green.number)
    outcome = ground.runner().resume(fork.session_id)
    assert outcome.state is SessionState.COMPLETED, outcome.reason
    names = ground.steps(outcome).names()
    assert names[0] == "0000-base.json"
    assert "0001-red-1.verdict.json" in names
    green = [one for name, one in ground.verdicts(outcome).items() if "green" in name][-1]
    assert green["passed"]
    assert green["facts"]["test_digests"]


def test_a_prompt_of_a_repository_shows_what_matters_within_a_bound(ground: Ground) -> None:
    """In answer mode, with the same base: not every file, and no more than the bound."""
    for number in range(30):
        place = ground.repository / "tests" / f"test_more_{number:02}.py"
        place.write_text(f"# {number} {'x' * 5000}\ndef test_x{number}():\n    pass\n")
    (ground.repository / "large.py").write_text("# nobody asked for it\n")
    ground.git("add", "-A")
    ground.git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "more")
    ground.plan.write_text("{}")
    recordings = ground.base.parent / "recordings"
    recordings.mkdir()
    (recordings / "red-1.md").write_text(f"```python:tests/test_adder.py\n{TEST}```\n")
    (recordings / "green-1.md").write_text("```python:other.py\nONE = 2\n```\n")
    work = AgentWork(
        workflow=TDFLOW.with_command(GATE, report="tap"), name="adder", specification=SPEC.encode()
    )
    attachments = open_snapshots(ground.store).attachments(
        ground.repository, "HEAD", with_uncommitted=False
    )
    outcome = ground.runner().start(work, RecordedAgent(recordings), attachments=attachments)
    assert outcome.phases_done == ("red",), outcome.reason
    red, green = (ground.prompt(outcome, name) for name in ("0001-red-1.1", "0002-green-1.1"))
    assert "tests/test_more_00.py" in red
    assert "tests/test_more_29.py" not in red
    assert "nobody asked for it" not in red
    assert len(red) < 75_000
    assert "tests/test_adder.py" in green  # the session wrote it
    assert "test_more_00" not in green
    assert "the gate runs" in green.lower()
    assert f"`{GATE}` ended with 0: of 31 tests 31 passed" in " ".join(green.split())


def test_verify_sees_what_a_fresh_checkout_of_the_result_would_have(ground: Ground) -> None:
    (ground.repository / ".gitignore").write_text("adder.py\n")
    ground.git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qam", "ignore it")
    outcome = ground.start(GOOD)
    assert outcome.phases_done == ("red", "green", "refactor"), outcome.reason
    verify = ground.verdicts(outcome)["0004-verify-1"]
    assert not verify["passed"]
    assert "1 of 2 tests does not pass" in verify["summary"]
    assert any("adder.py is ignored" in one for one in verify["evidence"])


def agent(ground: Ground, command: str, **more: Any) -> JailedAgent:
    given = {name: more.pop(name) for name in ("policy", "variables") if name in more}
    return JailedAgent(ground.store, AgentChoice(kind="command", value=command, **more), **given)


def session(ground: Ground) -> str:
    ground.manager.create("tdflow", "red", 1000)
    found = ground.manager.current_session
    assert found is not None
    workspace = ground.store.workspace_path(found.session_id)
    workspace.mkdir(mode=0o700)
    (workspace / "there.txt").write_text("there\n")
    return found.session_id


def request(session_id: str, **more: Any) -> AgentRequest:
    given: dict[str, Any] = {
        "session_id": session_id,
        "workflow": "tdflow",
        "phase": "red",
        "attempt": 1,
        "turn": 1,
        "call": 1,
        "briefing": "",
        "prompt": "the prompt\n",
        "files": {},
        "tokens_left": 1000,
        "prompt_digest": "",
        "refuse": lambda path: None if path.startswith("out") else "no",
    }
    return AgentRequest(**given | more)


def test_it_sees_what_it_is_given_and_nothing_else(ground: Ground) -> None:
    session_id = session(ground)
    shown = "cat there.txt; cat {prompt_file}; cat; echo $GIVEN; echo $HIDDEN; pwd; ls /sys"
    made = agent(
        ground,
        f"sh -c '{shown}; test -e {ground.base} || echo unseen; echo x > out.txt' 2>&1",
        environment=("GIVEN",),
        variables={"GIVEN": "given", "HIDDEN": "hidden"},
    )
    answer = made.answer(request(session_id))
    lines = answer.text.splitlines()
    assert lines[:6] == ["there", "the prompt", "the prompt", "given", "", WORKSPACE]
    assert lines[-1] == "unseen"
    assert answer.change is not None
    assert [(one.path, one.content) for one in answer.change.written] == [("out.txt", b"x\n")]
    assert answer.change.sealed
    with pytest.raises(AgentUnavailable, match="MISSING is not set"):
        agent(ground, "true", environment=("MISSING",), variables={}).check()
    with pytest.raises(AgentUnavailable, match="no-such-program"):
        agent(ground, "env A=b no-such-program").check()


def test_the_network_is_there_only_where_it_is_given_and_then_told(ground: Ground) -> None:
    session_id = session(ground)
    count = "sh -c 'ls /sys/class/net 2>/dev/null | wc -l; cat /proc/net/dev | wc -l > out'"
    sealed = agent(ground, count)
    assert "sealed" in sealed.description
    assert "not sealed" not in sealed.description
    found = sealed.answer(request(session_id)).change
    assert found is not None
    assert found.sealed
    opened = agent(ground, count, network=True)
    assert opened.description == "sh, editing in a jail, with the network, not sealed"
    found = opened.answer(request(session_id)).change
    assert found is not None
    assert not found.sealed


def test_a_conversation_goes_on_from_the_state_that_the_last_answer_named(ground: Ground) -> None:
    session_id = session(ground)
    script = 'echo "$1" >> "$0/said"; cat "$0/said"'
    made = agent(ground, f"sh -c '{script}' {{state}} {{continue:again}}")
    first = made.answer(request(session_id))
    assert first.text == "\n"
    assert first.state == "red-1-1"
    second = made.answer(request(session_id, call=2, state=first.state))
    assert second.text == "\nagain\n"
    # A worker that was killed before the second answer was kept asks again, and from the first.
    again = made.answer(request(session_id, call=2, state=first.state))
    assert again == second
    assert made.answer(request(session_id, turn=2, state="red-9-1")).text == "\n"


def test_words_and_cost_are_taken_out_of_what_a_program_prints_as_json(ground: Ground) -> None:
    session_id = session(ground)
    models = '"modelUsage": {"m": {"inputTokens": 5, "outputTokens": 2}}'
    said = f'{{"result": "My words.", "subtype": "success", {models}}}'
    (ground.base.parent / "said").write_text(said)
    made = agent(ground, f"sh -c 'cat $0; echo x > out' {ground.base.parent / 'said'}")
    answer = made.answer(request(session_id))
    assert answer.text == "My words."
    assert answer.usage == TokenUsage(input_tokens=5, output_tokens=2)
    (ground.base.parent / "said").write_text(said.replace('"success"', '"error_max_turns"'))
    with pytest.raises(AgentFailed, match="My words") as failed:
        made.answer(request(session_id))
    assert failed.value.usage == answer.usage


def test_a_program_that_fails_changes_nothing(ground: Ground) -> None:
    session_id = session(ground)
    with pytest.raises(AgentCrashed) as crashed:
        agent(ground, "sh -c 'echo x > out.txt; echo why >&2; exit 3'").answer(request(session_id))
    assert crashed.value.exit_code == 3
    assert not crashed.value.answered
    assert "why" in str(crashed.value)
    with pytest.raises(AgentTimeout):
        agent(ground, "sleep 60", timeout_s=0.5).answer(request(session_id))
    workspace = ground.store.workspace_path(session_id)
    assert [path.name for path in workspace.iterdir()] == ["there.txt"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", "is empty"),
        ("a '", "No closing quotation"),
        ("a {continue:b}", "nothing to go on with"),
        ("a {state} {continue:b c}", "is not closed"),
    ],
)
def test_a_command_that_is_none_is_refused(tmp_path: Path, command: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        JailedAgent(SessionStore(tmp_path), AgentChoice(kind="command", value=command))
