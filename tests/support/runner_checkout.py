"""The usual test runners: found by `init`, judging an agent's work, and the person's own as before.

The agent is a script that is right at its third try. Before and after, the person runs their own
tests in the same checkout, which say what they said, and find no file of ours there.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from attrs import frozen

from tests.support.own_project import EDITING_AGENT, OwnProject, require_jail
from tests.support.repositories import plain_git
from tests.support.runner_projects import RunnerProject
from tests.support.soak import SOAKING
from tests.support.trees import Tree, tree_of

_VERDICT: Final = re.compile(r"\b(pass\w*|fail\w*|ok|ran)\b", re.IGNORECASE)
_PASSING: Final = re.compile(r"\x1b\[[0-9;]*m|\(?\b[0-9:.]+ ?m?s\b\)?")
"""What is another at each run: colours and times."""


@frozen
class Checkout:
    """A person's checkout of a project, of one commit, and how they run its tests."""

    row: RunnerProject
    project: OwnProject

    @classmethod
    def begun(cls, row: RunnerProject, folder: Path) -> Checkout:
        row.laid_out(folder)
        plain_git(folder, "init", "-q", "-b", "main")
        plain_git(folder, "add", "-A")
        plain_git(folder, "commit", "-q", "-m", "begin")
        return cls(row, OwnProject(folder, {}))

    def tree(self, *but: str) -> Tree:
        """Return all that is in it, git's own too, but these, its index and our ref."""
        return tree_of(self.project.checkout, but=("index", "agentforge", *but))

    def tested(self) -> tuple[int, list[str]]:
        """Run the person's tests; return the exit code, and the lines with a verdict."""
        done = self.project.run(["sh", "-c", self.row.host])
        lines = _PASSING.sub("", f"{done.stdout}\n{done.stderr}").splitlines()
        return done.returncode, sorted(line.strip() for line in lines if _VERDICT.search(line))

    def agent(self, phase: str) -> str:
        """Return the command of an agent that works in this phase."""
        code, tests = self.row.feature
        plan = self.project.checkout.parent / "plan.json"
        steps = {
            f"{phase}-{number}": [
                {"write": tests, "text": self.row.tests},
                {"write": code, "text": text},
            ]
            for number, text in enumerate(self.row.tries, 1)
        }
        plan.write_text(json.dumps(steps))
        return f"{sys.executable} {EDITING_AGENT} {plan}"


def run(checkout: Checkout) -> Any:
    """Have `init` begin the project, and run a workflow of one phase, judged as `init` found."""
    begun = checkout.project.agentforge("init")
    assert begun["project"]["test"] == checkout.row.test
    command, report = checkout.row.check
    judged = begun["gate"] or {"command": command, "report": report}  # of Python: the sandbox
    assert judged["command"] == command
    assert judged["report"] == (report if checkout.row.is_told else "exit-code")
    gate = {key: one for key, one in judged.items() if one} | {"kind": "suite", "report": report}
    document = {
        "schema_version": 1,
        "name": "change",
        "workflow_type": "change",
        "agent_mode": "edit",
        "role": "You write plain code.",
        "files": [{"group": "all", "paths": list(checkout.row.feature)}],
        "phases": [{"name": "change", "prompt": "Write it.", "writes": ["all"], "gate": gate}],
    }
    workflow = checkout.project.checkout.parent / "workflow.yaml"
    workflow.write_text(yaml.safe_dump(document))
    options = ("--about", "A feature.", "--agent", checkout.agent("change"), "--repo", ".")
    return checkout.project.agentforge("run", workflow, *options)


def do(checkout: Checkout) -> Any:
    """Have the task done in the checkout as it is: judged by what `do` finds, not yet applied."""
    outcome = checkout.project.agentforge("do", "A feature.", "--agent", checkout.agent("work"))
    assert outcome["applied"] is None
    return outcome


WAYS: Final[Mapping[str, tuple[Callable[[Checkout], Any], tuple[str, ...]]]] = {
    "run": (run, (".agentforge", ".gitignore")),
    "do": (do, ()),
}
"""The ways in which an agent's work is judged, with the files that each leaves in the checkout."""
CASES: Final = [
    pytest.param(way, has_caches, id=f"{way}, {'with caches' if has_caches else 'fresh'}")
    for way in WAYS
    for has_caches in (False, True)
    if SOAKING or has_caches == (way == "run")
]
"""With caches: the person's own tests ran before, and left in the checkout what the runner does."""


def assert_the_third_try_passes(
    row: RunnerProject, folder: Path, way: str, *, has_caches: bool
) -> None:
    """Have the work done in a new checkout; the person's own tests say what they said before."""
    require_jail()
    checkout = Checkout.begun(row, folder)
    work, ours = WAYS[way]
    said = checkout.tested() if has_caches else None
    before = checkout.tree(*ours)

    outcome = work(checkout)
    assert outcome["state"] == "completed", outcome
    assert [one["passed"] for one in outcome["verdicts"]] == [False, False, True]
    assert checkout.tree(*ours) == before

    again = checkout.tested()
    assert again[0] == 0, again
    assert said in (None, again)
    new = {os.fsdecode(path) for path in set(checkout.tree(*ours)) - set(before)}
    assert all(path.startswith(checkout.row.caches) for path in new), new

    checkout.project.agentforge("apply", outcome["session_id"])
    code, more = checkout.tested()
    assert code == 0, more
    assert more != again[1]
