"""Work on a person's repository, and bringing it home: killed at any instant, nothing is lost.

A worker has an agent develop in a session of a checkout and then applies the result to it. It is
killed again and again, alone or with the git that it started. While the agent works, the checkout
stays as it is to the byte; after a kill of the apply, it is as before or wholly applied once the
apply was finished or undone. Where a jail can be made, some of the runs are those of a person: an
agent that edits in place and gates by command, each in a jail. Run as a module, this file forks
such workers on request.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from agentforge_sessions.harness import SessionContext, SessionManager, SessionState, SessionStore
from agentforge_sessions.harness.views.checkpoints import snapshots_of
from agentforge_sessions.repository import GitFailed
from agentforge_sessions.repository.apply.apply import abort_apply, continue_apply
from agentforge_sessions.repository.apply.apply_plan import ApplyOptions
from agentforge_sessions.wiring.bootstrap import build_agent_runner
from agentforge_sessions.wiring.workspaces.session_results import SessionResults
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from agentforge_sessions.workflows import TDFLOW, AgentChoice, AgentWork
from agentforge_sessions.workflows.agents.port import AgentAnswer, AgentRequest, TokenUsage
from agentforge_sessions.workflows.runner import WorkflowRunner
from tests.crash._forked_workers import KILLED, Workers, serve
from tests.support.agents import (
    BETTER,
    CODE,
    GREEN,
    RED,
    REFACTOR,
    SPEC,
    WRONG,
    FakeGates,
    block,
    tdflow_work,
)
from tests.support.applying import lay, look_at, services_in
from tests.support.jail_starters import PYTHON
from tests.support.own_project import EDITING_AGENT, require_jail
from tests.support.repositories import commit_all, new_checkout, plain_git
from tests.support.soak import SOAKING

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600 if SOAKING else 600)]

KILLS = 200 if SOAKING else 4
"""How often a run is killed, and how often an apply is."""
SCRIPT = {
    ("red", 1): RED,
    ("green", 1): block("adder.py", WRONG),
    ("green", 2): GREEN,
    ("refactor", 1): REFACTOR,
}
JAILED_KILLS = 200
"""How often a run whose agent and gates are commands in jails is killed."""
PLAN = {
    "red-1": {
        "tests/test_adder.py": "def test_ac_01_two_numbers_are_added():\n"
        "    import adder\n"
        "    assert adder.add(1, 2) == 3\n"
    },
    "green-1": {"adder.py": WRONG if SOAKING else CODE},
    "green-2": {"adder.py": CODE},
    "refactor-1": {"adder.py": BETTER},
}
JAILED = TDFLOW if SOAKING else evolve(TDFLOW, phases=TDFLOW.phases[:2])
"""Ten jails a run; five of them outside of a soak."""
GATE = f"{PYTHON} -S run_tests.py"
RUNNER = '''\
"""Runs the functions called test_… of tests/, and says in a JUnit report how they ended."""
import os, pathlib, sys, xml.sax.saxutils
sys.path.insert(0, ".")
cases, bad = [], 0
for path in sorted(pathlib.Path("tests").glob("test_*.py")):
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    for name in [name for name in space if name.startswith("test_")]:
        fault = ""
        try:
            space[name]()
        except Exception as error:
            bad += 1
            fault = f"<failure message={xml.sax.saxutils.quoteattr(repr(error))}/>"
        cases.append(f'<testcase classname="{path.stem}" name="{name}">{fault}</testcase>')
report = f"<testsuite>{''.join(cases)}</testsuite>"
pathlib.Path(os.environ["AGENTFORGE_REPORT"]).write_text(report)
sys.exit(bool(bad))
'''
_ID = re.compile(r"\b[0-9a-f]{7,64}\b|\b[0-9]+\.[0-9]+ s\b")
_APPLIED = ("adder.py", "tests/test_adder.py")


# ------------------------------------------------------------------------------------- the worker


class LoggingAgent:
    """Answers by the request alone, and tells of each call in a log that no session knows of."""

    description = "logging"

    def __init__(self, log: Path) -> None:
        self._log = log

    def answer(self, request: AgentRequest) -> AgentAnswer:
        with self._log.open("a") as log:
            log.write(f"{request.phase}.{request.turn}\n")
        return AgentAnswer(
            text=SCRIPT[request.phase, request.turn],
            usage=TokenUsage(input_tokens=10, output_tokens=10),
        )


def work(base: Path, log: Path) -> None:
    """Begin, go on with, or bring home the one session of a base."""
    folder = base.parent
    store = SessionStore(base)
    snapshots = SessionSnapshots(store)
    manager = SessionManager(store, snapshots=snapshots)
    session = one_session(store)
    if session is not None and session.state is SessionState.COMPLETED:
        options = ApplyOptions(commit=(folder / "commit").exists(), message="x")
        SessionResults(snapshots, services_in(folder)).apply(session, options)
        return
    if (folder / "jailed").exists():
        work_in_jails(manager, folder, session)
        return
    runner = WorkflowRunner(manager, FakeGates(), lock_timeout_s=5, monotonic=lambda: 0.0)
    agent = LoggingAgent(log)
    if session is not None:
        runner.resume(session.session_id, agent)
        return
    attachments = snapshots.attachments(
        folder / "checkout", "HEAD", with_uncommitted=(folder / "uncommitted").exists()
    )
    runner.start(tdflow_work(), agent, attachments=attachments)


def work_in_jails(manager: SessionManager, folder: Path, session: SessionContext | None) -> None:
    """Do the same with an agent that edits in place and gates by command."""
    tempfile.tempdir = str(folder / "scratch")
    runner = build_agent_runner(manager=manager, monotonic=lambda: 0.0)
    if session is not None:
        runner.resume(session.session_id)
        return
    choice = AgentChoice(kind="command", value=f"{PYTHON} -S {EDITING_AGENT} {folder / 'plan'}")
    job = AgentWork(
        workflow=evolve(JAILED, agent_mode="edit").with_command(GATE),
        name="adder",
        specification=SPEC.encode(),
        agent=choice,
    )
    snapshots = SessionSnapshots(manager.store)
    begun = snapshots.attachments(
        folder / "checkout", "HEAD", with_uncommitted=(folder / "uncommitted").exists()
    )
    runner.resume(runner.begin(job, attachments=begun))


def one_session(store: SessionStore) -> SessionContext | None:
    names = store.list_sessions() if store.base_path.is_dir() else []
    return store.load(names[0]) if names else None


# ---------------------------------------------------------------------------------- what is judged


def standing(top: Path) -> dict[str, tuple[object, ...]]:
    """All files of a checkout and of its repository, to the byte: index, stash and refs, too.

    Objects are no part of it, nor the refs by which a session keeps its base, nor what is out of
    sight and swept by the next apply.
    """
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(top):
        inside = os.path.relpath(folder, top)
        if inside == ".git":
            folders[:] = [
                one for one in folders if one != "objects" and not one.startswith(".discarded-")
            ]
        if inside == ".git/refs" and "agentforge" in folders:
            folders.remove("agentforge")
        for name in [*folders, *files] if not inside.startswith(".git/") else files:
            mode, shown = look_at(Path(folder, name))
            found[os.path.normpath(f"{inside}/{name}")] = (stat.S_IFMT(mode), shown)
    return found


def timeless(found: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """Without what a commit's time makes another: its id, and the reflogs."""
    moving = {".git/refs/heads/main", ".git/logs/HEAD", ".git/logs/refs/heads/main"}
    return {name: one for name, one in found.items() if name not in moving}


def without_reflogs(found: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """Without the reflogs: they tell of an undone commit, too, as of a reset of git's."""
    return {name: one for name, one in found.items() if not name.startswith(".git/logs/")}


class Place:
    """A checkout with work of a person's, a session of it, and a log of the agent's calls."""

    def __init__(
        self,
        template: Path,
        folder: Path,
        *,
        uncommitted: bool = False,
        commit: bool = False,
        jailed: bool = False,
    ) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self.folder = folder
        self.top = folder / "checkout"
        subprocess.run(["cp", "-a", template, self.top], check=True)
        wishes = {"uncommitted": uncommitted, "commit": commit, "jailed": jailed}
        for name, wanted in wishes.items():
            if wanted:
                (folder / name).touch()
        (folder / "scratch").mkdir()
        plan = {
            turn: [{"write": path, "text": text} for path, text in files.items()]
            for turn, files in PLAN.items()
        }
        (folder / "plan").write_text(json.dumps(plan))
        self.base = folder / "sessions"
        self.log = folder / "log"
        self.store = SessionStore(self.base)
        self.snapshots = SessionSnapshots(self.store)

    @property
    def session(self) -> SessionContext | None:
        return one_session(self.store)

    def is_complete(self) -> bool:
        session = self.session
        return session is not None and session.state is SessionState.COMPLETED

    def trees(self) -> list[tuple[str, str | None, str]]:
        """What each checkpoint of the history says that the workspace held."""
        session = self.session
        if session is None:
            return []
        own = self.base / session.session_id / "snapshots.git"
        found = [
            (entry, snapshot)
            for entry in session.history
            if (snapshot := getattr(entry.event, "snapshot", None)) is not None
        ]
        if not found:
            return []
        asked = [f"{snapshot}^{{tree}}" for _, snapshot in found]
        shown = plain_git(own, "rev-parse", *asked).stdout.decode().split()
        return [
            (entry.action, entry.phase, tree) for (entry, _), tree in zip(found, shown, strict=True)
        ]

    def require_agreement(self) -> None:
        """Fail unless every snapshot that the session refers to is there."""
        session = self.session
        if session is None or not snapshots_of(session):
            return
        known = {one.id for one in self.snapshots.of(session.session_id).list()}
        assert set(snapshots_of(session)) <= known

    def story(self) -> tuple[object, ...]:
        """Everything that must be the same however often a worker was killed."""
        session = self.session
        assert session is not None
        root = self.store.workspace_path(session.session_id)
        return (
            session.state,
            [(one.action, one.phase, _ID.sub("…", one.details or "")) for one in session.history],
            [(one.path, one.artifact_type, one.phase) for one in session.artifacts],
            session.token_budget,
            session.revision,
            self.trees(),
            {
                str(path.relative_to(root)): path.read_bytes()
                for path in sorted(root.rglob("*"))
                if path.is_file()
            },
        )


# --------------------------------------------------------------------------------------- the tests


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers("tests.crash.test_repository_run_crash") as one:
        yield one


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with everything in it that could be lost."""
    top = tmp_path_factory.mktemp("template") / "checkout"
    files = {f"src/m{number}.py": f"x = {number}\n" for number in range(40)}
    new_checkout(
        top,
        {
            **files,
            "README": "r\n",
            "edited": "1\n",
            ".gitignore": "*.o\n",
            "run_tests.py": RUNNER,
            "tests/test_older.py": "def test_older():\n    assert 1 + 1 == 2\n",
        },
    )
    lay(top, {"README": "put away\n"})
    plain_git(top, "stash", "push", "-q")
    lay(top, {"edited": "2\n"})
    commit_all(top, "second")
    lay(top, {"staged": "s\n"})
    plain_git(top, "add", "staged")
    lay(top, {"staged": "and edited\n", "edited": "3\n", "notes/mine": "u\n", "x.o": "ignored\n"})
    lay(top, {"link": "-> /nowhere"})
    (top / "src/m1.py").unlink()
    (top / "src/m2.py").chmod(0o755)
    return top


def killed_after(rng: random.Random, whole_s: float) -> dict[str, Any]:
    return {"life_s": rng.uniform(0, 1.1 * whole_s), "with_children": rng.random() < 0.5}


def test_killed_runs_end_the_same_and_the_checkout_never_changes(
    workers: Workers, template: Path, tmp_path: Path
) -> None:
    campaign(workers, template, tmp_path, kills=KILLS)


@pytest.mark.skipif(not SOAKING, reason="a run in jails takes ten times as long as one with fakes")
def test_killed_runs_with_a_real_agent_and_real_gates_end_the_same(
    workers: Workers, template: Path, tmp_path: Path
) -> None:
    require_jail()
    campaign(workers, template, tmp_path, kills=JAILED_KILLS, jailed=True)


def campaign(
    workers: Workers, template: Path, tmp_path: Path, *, kills: int, jailed: bool = False
) -> None:
    """Kill runs until as many were killed; each of them ends as one that nobody killed."""
    seed = int(os.environ.get("AGENTFORGE_SEED", "20261123"))
    rng = random.Random(seed)
    stories, trees, before = {}, {}, {}
    whole_s = 0.0
    kinds = (False, True)
    for uncommitted in kinds:
        calm = Place(template, tmp_path / "calm", uncommitted=uncommitted, jailed=jailed)
        before[uncommitted] = standing(calm.top)
        begun = time.monotonic()
        assert workers.run(calm.base, calm.log) == 0
        whole_s = time.monotonic() - begun
        assert calm.is_complete()
        assert standing(calm.top) == before[uncommitted]
        stories[uncommitted], trees[uncommitted] = calm.story(), calm.trees()
        assert len(trees[uncommitted]) >= (len(JAILED.phases) if jailed else len(SCRIPT))

    killed = sessions = 0
    while killed < kills:
        uncommitted = kinds[sessions % len(kinds)]
        sessions += 1
        place = Place(template, tmp_path / "killed", uncommitted=uncommitted, jailed=jailed)
        patience = 1.0
        while not place.is_complete():
            stood = len(place.trees())
            end = killed_after(rng, whole_s * patience) if killed < kills else {}
            code = workers.run(place.base, place.log, **end)
            assert code in {0, KILLED}, f"seed {seed}"
            killed += code == KILLED
            if code != KILLED:  # quicker than it was when it was measured
                whole_s *= 0.9
            assert standing(place.top) == before[uncommitted], f"seed {seed}"
            place.require_agreement()
            found = place.trees()
            assert found == trees[uncommitted][: len(found)], f"seed {seed}"
            # A machine that became slower must not keep us here for ever.
            patience = 1.0 if len(found) > stood else patience * 1.3
        assert place.story() == stories[uncommitted], f"seed {seed}"
    print(f"{killed} kills over {sessions} sessions, run {whole_s * 1000:.0f} ms")


@pytest.mark.parametrize("commit", [False, True], ids=["plain", "commit"])
def test_a_killed_apply_of_a_run_is_finished_or_undone(
    workers: Workers, template: Path, tmp_path: Path, commit: bool
) -> None:
    seed = int(os.environ.get("AGENTFORGE_SEED", "20261123"))
    rng = random.Random(seed)
    calm = Place(template, tmp_path / "calm", commit=commit)
    assert workers.run(calm.base, calm.log) == 0
    kept = tmp_path / "kept"
    subprocess.run(["cp", "-a", calm.top, kept], check=True)
    before = standing(calm.top)
    begun = time.monotonic()
    assert workers.run(calm.base, calm.log) == 0
    whole_s = time.monotonic() - begun
    after = timeless(standing(calm.top))
    assert set(_APPLIED) <= set(after) - set(before)
    services = services_in(tmp_path)

    journal = calm.top / ".git" / "agentforge-apply"
    ends = {"before": 0, "after": 0, "finished": 0, "undone": 0}
    kills = 0
    while kills < KILLS // 2:
        shutil.rmtree(calm.top)
        subprocess.run(["cp", "-a", kept, calm.top], check=True)
        end = killed_after(rng, whole_s)
        if rng.random() < 0.7:  # in what changes the checkout: a small part of the whole
            end = {**end, "life_s": end["life_s"] * rng.random() / 4, "since": journal.exists}
        code = workers.run(calm.base, calm.log, **end)
        assert code in {0, KILLED}, f"seed {seed}"
        kills += code == KILLED
        if code != KILLED:  # quicker than it was when it was measured
            whole_s *= 0.9
        if journal.exists():
            if rng.random() < 0.5:
                end = "finished"
                as_told(lambda: continue_apply(calm.top, services=services), calm.top)
            else:
                end = "undone"
                as_told(lambda: abort_apply(calm.top, services=services), calm.top)
        else:
            end = "before" if standing(calm.top) == before else "after"
        ends[end] += 1
        found = standing(calm.top)
        if end in {"before", "undone"}:
            assert without_reflogs(found) == without_reflogs(before), f"seed {seed}"
        else:
            assert timeless(found) == after, f"seed {seed}"
        assert plain_git(calm.top, "stash", "list").stdout.count(b"\n") == 1
        assert calm.is_complete()
    print(f"{kills} kills of an apply of {whole_s * 1000:.0f} ms: {ends}")


def as_told(act: Callable[[], object], top: Path) -> None:
    """Do it; where a killed git left a lock of the branch, remove that first, as git says."""
    try:
        act()
    except GitFailed:
        left = [top / ".git" / "refs" / "heads" / "main.lock", top / ".git" / "HEAD.lock"]
        if not any(lock.exists() for lock in left):
            raise
        for lock in left:
            lock.unlink(missing_ok=True)
        act()


if __name__ == "__main__":
    serve(work)
