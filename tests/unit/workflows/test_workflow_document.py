"""Reading workflow files: what they say, and what is said of those that are wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.workflows import (
    Input,
    InvalidWorkflow,
    Phase,
    Script,
    Workflow,
    load_workflow,
)
from agentforge_sessions.workflows.documents.workflow_document import read_snapshot
from agentforge_sessions.workflows.documents.workflow_snapshot import snapshot_of
from agentforge_sessions.workflows.workflow import RunRetry
from tests.support.soak import SOAKING

GOOD = """\
schema_version: 1
name: demo
workflow_type: tdflow
goal: Show it.
token_budget: 5000
phases:
  - name: red
    description: First.
    script: red.py
    tokens: 100
    deadline_s: 1.5
    fuel: 1_000_000
    success:
      exit_code: 1
      artifacts: [tests/a.py, b.txt]
    retry:
      max_attempts: 2
  - name: green
    code: |
      print('green')
inputs:
  - source: data.bin
    target: in/data.bin
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "red.py").write_text("print('röd')\n", encoding="utf-8")
    (tmp_path / "data.bin").write_bytes(b"\x00\xff")
    return tmp_path


def load(folder: Path, text: str | bytes) -> Workflow:
    path = folder / "w.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_workflow(path)


def faults(folder: Path, text: str | bytes) -> tuple[str, ...]:
    with pytest.raises(InvalidWorkflow) as caught:
        load(folder, text)
    assert caught.value.path == folder / "w.yaml"
    assert str(folder / "w.yaml") in str(caught.value)
    assert "Nothing was run" in str(caught.value)
    return caught.value.faults


# --- what is read ----------------------------------------------------------------------------


def test_reads_every_key(folder: Path) -> None:
    assert load(folder, GOOD) == Workflow(
        name="demo",
        workflow_type="tdflow",
        goal="Show it.",
        token_budget=5000,
        phases=[
            Phase(
                name="red",
                gate=Script(
                    code="print('röd')\n",
                    deadline_s=1.5,
                    fuel=1_000_000,
                    exit_code=1,
                    artifacts=["tests/a.py", "b.txt"],
                ),
                description="First.",
                tokens=100,
                max_attempts=2,
            ),
            Phase(name="green", gate=Script(code="print('green')\n")),
        ],
        inputs=[Input(target="in/data.bin", content=b"\x00\xff")],
    )


def test_what_is_left_out_has_its_default(folder: Path) -> None:
    text = "schema_version: 1\nname: a\nworkflow_type: b\nphases:\n  - {name: p, script: red.py}\n"
    workflow = load(folder, text)
    assert (workflow.goal, workflow.token_budget, workflow.inputs) == (None, 100_000, ())
    (phase,) = workflow.phases
    assert (phase.description, phase.tokens, phase.max_attempts) == (None, 0, 3)
    assert phase.gate == Script(
        code="print('röd')\n", deadline_s=None, fuel=None, exit_code=0, artifacts=()
    )


def test_key_without_a_value_counts_as_left_out(folder: Path) -> None:
    text = GOOD.replace("goal: Show it.", "goal:").replace("    tokens: 100", "    tokens: ~")
    workflow = load(folder, text)
    assert workflow.goal is None
    assert workflow.phases[0].tokens == 0


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_windows_line_endings_and_byte_order_marks_do_not_matter(folder: Path, mark: bytes) -> None:
    assert load(folder, mark + GOOD.replace("\n", "\r\n").encode()) == load(folder, GOOD)
    (folder / "red.py").write_bytes(mark + "print('röd')\n".encode())
    assert load(folder, GOOD).phases[0].gate.code == "print('röd')\n"


def test_scripts_of_a_newer_python_are_taken_as_they_are(folder: Path) -> None:
    (folder / "red.py").write_text("this is ~ no python we know\n")
    assert load(folder, GOOD).phases[0].gate.code == "this is ~ no python we know\n"


def test_script_may_be_a_link_and_have_an_absolute_path(folder: Path) -> None:
    (folder / "link.py").symlink_to(folder / "red.py")
    text = GOOD.replace("script: red.py", f"script: {folder / 'link.py'}")
    assert load(folder, text) == load(folder, GOOD)


def test_paths_are_relative_to_the_file_not_to_the_caller(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sub = folder / "sub"
    sub.mkdir()
    (sub / "w.yaml").write_text(GOOD.replace("red.py", "../red.py").replace("data", "../data", 1))
    monkeypatch.chdir("/")
    assert load_workflow(sub / "w.yaml").inputs[0].content == b"\x00\xff"


ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "examples" / "workflows").glob("*/workflow.yaml")),
    ids=lambda path: path.stem,
)
def test_workflows_of_the_repository_are_read_and_survive_a_snapshot(path: Path) -> None:
    workflow = load_workflow(path)
    assert read_snapshot(snapshot_of(workflow), path) == workflow


# --- what is refused -------------------------------------------------------------------------

HEAD = "schema_version: 1\nname: a\nworkflow_type: b\n"
ONE = f"{HEAD}phases:\n  - name: p\n    code: x\n"
BROKEN = {
    "empty file": ("", "it is empty"),
    "only a comment": ("# nothing\n", "it is empty"),
    "null": ("~\n", "line 1: expected the keys of a workflow, found nothing"),
    "a list": ("- a\n", "line 1: expected the keys of a workflow, found a list"),
    "a text": ("hello\n", "line 1: expected the keys of a workflow, found hello"),
    "no yaml": ("a: [1\nb: 2\n", "line 2: it is not YAML"),
    "tabs": ("a:\n\tb: 1\n", "line 2: it is not YAML"),
    "control character": ("a: \x01\n", "it is not YAML"),
    "not utf-8": (b"name: \xff\n", "byte 6, on its line 1, is not UTF-8"),
    "utf-16": ("name: a\n".encode("utf-16"), "is not UTF-8"),
    "second document": (f"{ONE}---\nname: b\n", "line 7: a second document begins"),
    "duplicate key": (f"{ONE}name: c\n", "line 7: the key 'name' stands twice (first on line 2)"),
    "duplicate key in a phase": (
        f"{ONE}    code: y\n",
        "line 7: the key 'code' stands twice (first on line 6)",
    ),
    "alias": (f"{ONE}goal: *g\n", "line 7: an alias (*g)"),
    "anchor": (f"{ONE}goal: &g text\n", "line 7: an anchor (&)"),
    "tag": (f"{ONE}goal: !!str text\n", "line 7: a tag (tag:yaml.org,2002:str)"),
    "python tag": (f"{ONE}goal: !!python/name:os.system x\n", "line 7: a tag"),
    "key that is no text": (f"{ONE}? [a]\n: b\n", "line 7: a key that is no text"),
    "merge key": (f"{ONE}<<: {{goal: a}}\n", "line 7: <<: there is no such key"),
    "too deep": (f"{ONE}goal: [[[[[[[[[[a]]]]]]]]]]\n", "line 7: nested deeper"),
    "no version": (ONE[18:], "line 1: schema_version: is missing"),
    "newer version": (
        ONE.replace("1", "2", 1),
        "line 1: schema_version: 2 is newer than 1, the newest that this version of "
        "AgentForge Harness reads; upgrade it",
    ),
    "version 0": (ONE.replace("1", "0", 1), "line 1: schema_version: expected 1, found 0"),
    "version as text": (ONE.replace("1", "'1'", 1), "schema_version: expected 1, found the text"),
    "no name": (ONE.replace("name: a\n", "", 1), "line 1: name: is missing"),
    "empty name": (ONE.replace("name: a", "name:", 1), "line 2: name: is empty"),
    "capital in the name": (ONE.replace("name: a", "name: A", 1), "line 2: name: 'A' is no name"),
    "long name": (ONE.replace("name: a", f"name: {'a' * 65}", 1), "is no name here"),
    "name with a line break": (ONE.replace("name: a", 'name: "a\\n"', 1), "is no name here"),
    "number as the name": (
        ONE.replace("name: a", "name: 12", 1),
        "line 2: name: expected text, found 12; put it in quotes",
    ),
    "truth as the name": (ONE.replace("name: a", "name: on", 1), "found on; put it in quotes"),
    "no type": (ONE.replace("workflow_type: b\n", ""), "line 1: workflow_type: is missing"),
    "type with a blank": (ONE.replace("_type: b", "_type: b c"), "line 3: workflow_type: 'b c'"),
    "list as the goal": (f"{ONE}goal: [a]\n", "line 7: goal: expected text, found a list"),
    "long goal": (f"{ONE}goal: {'a' * 4001}\n", "line 7: goal: has 4,001 characters"),
    "text as the budget": (
        f"{ONE}token_budget: much\n",
        "line 7: token_budget: expected a whole number, found much",
    ),
    "quoted budget": (f"{ONE}token_budget: '5'\n", "found the text '5'; take its quotes away"),
    "negative budget": (f"{ONE}token_budget: -1\n", "line 7: token_budget: expected 0 to"),
    "fraction as the budget": (f"{ONE}token_budget: 1.5\n", "expected a whole number, found 1.5"),
    "octal budget": (f"{ONE}token_budget: 010\n", "expected a whole number, found 010"),
    "huge budget": (f"{ONE}token_budget: {9**25}\n", "token_budget: expected 0 to 9,223"),
    "endless budget": (f"{ONE}token_budget: {'9' * 5000}\n", "expected a whole number"),
    "unknown key": (
        f"{ONE}phase: 1\n",
        "line 7: phase: there is no such key; did you mean 'phases'?",
    ),
    "misspelt key": (
        f"{ONE}    token: 1\n",
        "line 7: phases[0].token: there is no such key; did you mean 'tokens'?",
    ),
    "key in capitals": (
        f"{ONE}Goal: a\n",
        "line 7: Goal: there is no such key; did you mean 'goal'?",
    ),
    "key far off": (f"{ONE}zzz: a\n", "line 7: zzz: there is no such key; there are goal, inputs,"),
    "no phases": (HEAD, "line 1: phases: is missing"),
    "empty phases": (f"{HEAD}phases: []\n", "line 4: phases: is an empty list"),
    "phases as keys": (
        f"{HEAD}phases:\n  red: 1\n",
        "line 4: phases: expected a list, found keys and values",
    ),
    "phase as a text": (
        f"{HEAD}phases:\n  - red\n",
        "line 5: phases[0]: expected keys and values, found red",
    ),
    "phase without a name": (f"{HEAD}phases:\n  - code: x\n", "line 5: phases[0].name: is missing"),
    "phase with a path as its name": (
        ONE.replace("name: p", "name: ../p"),
        "line 5: phases[0].name: '../p' is no name here",
    ),
    "phases of one name": (
        f"{ONE}  - name: p\n    code: y\n",
        "line 7: phases[1].name: 'p' is the name of the phase on line 5 too",
    ),
    "too many phases": (
        HEAD + "phases:\n" + "".join(f"  - {{name: p{n}, code: x}}\n" for n in range(101)),
        "line 4: phases: are 101, 100 are allowed",
    ),
    "neither script nor code": (
        f"{HEAD}phases:\n  - name: p\n",
        "line 5: phases[0]: script (or code) is missing",
    ),
    "script and code": (
        f"{ONE}    script: red.py\n",
        "line 7: phases[0].script: stands beside code; keep one of the two",
    ),
    "empty code": (ONE.replace("code: x", "code: ''"), "line 6: phases[0].code: is empty"),
    "blank code": (ONE.replace("code: x", 'code: " \\n"'), "phases[0].code: is empty"),
    "code as a number": (ONE.replace("code: x", "code: 1"), "expected text, found 1"),
    "NUL in the code": (
        ONE.replace("code: x", 'code: "x\\0"'),
        "line 6: phases[0].code: holds a NUL character",
    ),
    "missing script": (
        ONE.replace("code: x", "script: nowhere.py"),
        "line 6: phases[0].script: nowhere.py can't be read: No such file or directory",
    ),
    "directory as the script": (
        ONE.replace("code: x", "script: ."),
        "line 6: phases[0].script: . can't be read: it is not a regular file",
    ),
    "device as the script": (
        ONE.replace("code: x", "script: /dev/zero"),
        "line 6: phases[0].script: /dev/zero can't be read: it is not a regular file",
    ),
    "NUL in the script's path": (
        ONE.replace("code: x", 'script: "a\\0b"'),
        "can't be read: no file has such a name",
    ),
    "empty path of the script": (ONE.replace("code: x", "script: ''"), "script: is empty"),
    "script that is not utf-8": (
        ONE.replace("code: x", "script: data.bin"),
        "line 6: phases[0].script: data.bin: byte 1, on its line 1, is not UTF-8",
    ),
    "negative tokens": (f"{ONE}    tokens: -5\n", "line 7: phases[0].tokens: expected 0 to"),
    "no deadline at all": (
        f"{ONE}    deadline_s: 0\n",
        "line 7: phases[0].deadline_s: expected more than 0, up to 86400 seconds, found 0",
    ),
    "endless deadline": (f"{ONE}    deadline_s: .inf\n", "expected a number of seconds"),
    "deadline that overflows": (
        f"{ONE}    deadline_s: 1e999\n",
        "up to 86400 seconds, found 1e999",
    ),
    "deadline with a unit": (
        f"{ONE}    deadline_s: 60s\n",
        "line 7: phases[0].deadline_s: expected a number of seconds, found 60s",
    ),
    "no fuel": (f"{ONE}    fuel: 0\n", "line 7: phases[0].fuel: expected 1 to"),
    "success as a text": (
        f"{ONE}    success: yes\n",
        "line 7: phases[0].success: expected keys and values, found yes",
    ),
    "misspelt success": (
        f"{ONE}    success: {{exitcode: 1}}\n",
        "line 7: phases[0].success.exitcode: there is no such key; did you mean 'exit_code'?",
    ),
    "exit code too large": (
        f"{ONE}    success: {{exit_code: 256}}\n",
        "line 7: phases[0].success.exit_code: expected 0 to 255, found 256",
    ),
    "artifacts as a text": (
        f"{ONE}    success: {{artifacts: a}}\n",
        "line 7: phases[0].success.artifacts: expected a list, found a",
    ),
    "absolute artifact": (
        f"{ONE}    success:\n      artifacts:\n        - /etc/passwd\n",
        "line 9: phases[0].success.artifacts[0]: '/etc/passwd' is not inside the workspace",
    ),
    "climbing artifact": (f"{ONE}    success: {{artifacts: [a/../../b]}}\n", "not inside"),
    "artifact that is a directory": (f"{ONE}    success: {{artifacts: [a/]}}\n", "empty part"),
    "artifact with a dot": (f"{ONE}    success: {{artifacts: [./a]}}\n", "write it plainly"),
    "empty artifact": (f"{ONE}    success: {{artifacts: ['']}}\n", "artifacts[0]: is empty"),
    "artifact with a line break": (
        f'{ONE}    success: {{artifacts: ["a\\nb"]}}\n',
        "holds a control character",
    ),
    "artifact twice": (f"{ONE}    success: {{artifacts: [a, a]}}\n", "'a' stands twice"),
    "long artifact": (f"{ONE}    success: {{artifacts: [{'a/' * 600}b]}}\n", "more than 1024"),
    "long part": (f"{ONE}    success: {{artifacts: [{'ä' * 101}]}}\n", "a part of more than 200"),
    "no attempts": (
        f"{ONE}    retry: {{max_attempts: 0}}\n",
        "line 7: phases[0].retry.max_attempts: expected 1 to 1,000, found 0",
    ),
    "misspelt retry": (
        f"{ONE}    retry: {{attempts: 1}}\n",
        "attempts: there is no such key; did you mean 'max_attempts'?",
    ),
    "too many retries of the run": (
        f"{ONE}retry: {{attempts: 1001}}\n",
        "line 7: retry.attempts: expected 0 to 1,000, found 1001",
    ),
    "retries without a wait": (
        f"{ONE}retry: {{wait_s: 0}}\n",
        "line 7: retry.wait_s: expected more than 0, up to 86400 seconds, found 0",
    ),
    "waits that shrink": (
        f"{ONE}retry: {{factor: 0}}\n",
        "line 7: retry.factor: expected 1 to 10, found 0",
    ),
    "misspelt retry of the run": (
        f"{ONE}retry: {{max_attempts: 1}}\n",
        "max_attempts: there is no such key; did you mean 'attempts'?",
    ),
    "inputs as keys": (f"{ONE}inputs: {{a: b}}\n", "line 7: inputs: expected a list"),
    "input without a source": (
        f"{ONE}inputs:\n  - target: a\n",
        "line 8: inputs[0].source: is missing",
    ),
    "input without a target": (
        f"{ONE}inputs:\n  - source: red.py\n",
        "line 8: inputs[0].target: is missing",
    ),
    "input with its text": (
        f"{ONE}inputs:\n  - {{target: a, source: red.py, text: b}}\n",
        "line 8: inputs[0].text: there is no such key",
    ),
    "missing input": (
        f"{ONE}inputs:\n  - source: no.txt\n    target: a\n",
        "line 8: inputs[0].source: no.txt can't be read: No such file or directory",
    ),
    "input outside": (
        f"{ONE}inputs:\n  - source: red.py\n    target: ../a\n",
        "line 9: inputs[0].target: '../a' is not inside the workspace",
    ),
    "inputs of one target": (
        f"{ONE}inputs:\n  - {{source: red.py, target: a}}\n  - {{source: red.py, target: a}}\n",
        "line 9: inputs[1].target: 'a' can't be there together with 'a' of line 8",
    ),
    "input below an input": (
        f"{ONE}inputs:\n  - {{source: red.py, target: a}}\n  - {{source: red.py, target: a/b}}\n",
        "line 9: inputs[1].target: 'a/b' can't be there together with 'a' of line 8",
    ),
    "input above an input": (
        f"{ONE}inputs:\n  - {{source: red.py, target: a/b}}\n  - {{source: red.py, target: a}}\n",
        "line 9: inputs[1].target: 'a' can't be there together with 'a/b' of line 8",
    ),
}


@pytest.mark.parametrize(("text", "fault"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_file_is_refused_with_its_fault(folder: Path, text: str | bytes, fault: str) -> None:
    told = faults(folder, text)
    assert len(told) == 1, told
    assert fault in told[0]


def test_file_with_one_fault_is_otherwise_good(folder: Path) -> None:
    assert load(folder, ONE).phases[0].gate.code == "x"


def test_every_fault_is_told_at_once_in_the_order_of_the_file(folder: Path) -> None:
    text = (
        GOOD.replace("name: demo", "name: Demo")
        .replace("tokens: 100", "tokens: ten")
        .replace("red.py", "gone.py")
        .replace("max_attempts: 2", "max_attempts: 0\n    colour: blue")
        .replace("in/data.bin", "/data.bin")
        .replace("goal: Show it.", "goal: !x Show it.")
    )
    lines = [int(one.split(":")[0].removeprefix("line ")) for one in faults(folder, text)]
    assert lines == [2, 4, 9, 10, 17, 18, 24]


def test_file_of_nothing_but_faults_is_given_up_after_a_hundred(folder: Path) -> None:
    told = faults(folder, ONE + "".join(f"key{n}: !t x\n" for n in range(500)))
    assert len(told) == 100
    with pytest.raises(InvalidWorkflow, match="and 88 more"):
        load_workflow(folder / "w.yaml")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("", None),
        ("retry: {}\n", RunRetry()),
        ("retry: {attempts: 0}\n", RunRetry(attempts=0)),
        (
            "retry: {attempts: 2, wait_s: 0.5, factor: 3, at_most_s: 60}\n",
            RunRetry(attempts=2, wait_s=0.5, factor=3, at_most_s=60.0),
        ),
    ],
)
def test_how_a_run_is_attempted_again_survives_a_snapshot(
    folder: Path, written: str, read: RunRetry | None
) -> None:
    workflow = load(folder, GOOD + written)
    assert workflow.retry == read
    assert read_snapshot(snapshot_of(workflow), folder).retry == read


@pytest.mark.parametrize("name", ["nowhere.yaml", "sub", "pipe"])
def test_file_that_cannot_be_read_is_refused_without_waiting(folder: Path, name: str) -> None:
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    with pytest.raises(InvalidWorkflow, match="can't be read") as caught:
        load_workflow(str(folder / name))
    assert caught.value.path == folder / name


def test_oversized_files_are_refused(folder: Path) -> None:
    (folder / "red.py").write_bytes(b"#" * ((1 << 20) + 1))
    (folder / "data.bin").write_bytes(b"#" * ((8 << 20) + 1))
    assert faults(folder, GOOD) == (
        "line 9: phases[0].script: red.py has more than 1,048,576 bytes, the limit",
        "line 22: inputs[0].source: data.bin has more than 8,388,608 bytes, the limit",
    )
    assert faults(folder, b"#" * ((4 << 20) + 1)) == ("has more than 4,194,304 bytes, the limit",)


@pytest.mark.no_cover  # of so many bytes it takes seconds; what it runs, other tests cover
@pytest.mark.parametrize("piece", [b"\x01\x01", b"a\n", b"ab"] if SOAKING else [b"ab"])
def test_scripts_and_inputs_of_just_the_limit_are_taken_and_survive_a_snapshot(
    folder: Path, piece: bytes
) -> None:
    (folder / "red.py").write_bytes(piece * (1 << 19))
    (folder / "data.bin").write_bytes(piece * (4 << 20))
    workflow = load(folder, GOOD)
    assert read_snapshot(snapshot_of(workflow), folder) == workflow


def test_too_much_in_all_is_refused_once(folder: Path) -> None:
    (folder / "red.py").write_bytes(b"#" * (1 << 20))
    phases = "".join(f"  - {{name: p{n}, script: red.py}}\n" for n in range(7))
    assert faults(folder, f"{HEAD}phases:\n{phases}") == (
        "line 9: phases[4].script: with it all scripts have more than 4,194,304 bytes, the limit",
    )
    (folder / "data.bin").write_bytes(b"#" * (3 << 20))
    inputs = "".join(f"  - {{source: data.bin, target: d{n}}}\n" for n in range(5))
    assert faults(folder, f"{ONE}inputs:\n{inputs}") == (
        "line 10: inputs[2].source: with it all inputs have more than 8,388,608 bytes, the limit",
    )


def test_workflow_that_no_session_could_keep_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = load(folder, GOOD)
    snapshot = snapshot_of(workflow)
    monkeypatch.setattr(
        "agentforge_sessions.workflows.documents.workflow_document.MAX_FILE_BYTES", len(snapshot)
    )
    assert load(folder, GOOD) == read_snapshot(snapshot, folder) == workflow
    monkeypatch.setattr(
        "agentforge_sessions.workflows.documents.workflow_document.MAX_FILE_BYTES",
        len(snapshot) - 1,
    )
    assert "with all its scripts and inputs, more than the limit" in faults(folder, GOOD)[0]
    with pytest.raises(InvalidWorkflow, match="more than the limit"):
        read_snapshot(snapshot, folder)


# --- snapshots -------------------------------------------------------------------------------


def test_snapshot_is_a_workflow_file_that_any_yaml_reader_takes(folder: Path) -> None:
    document = yaml.safe_load(snapshot_of(load(folder, GOOD)))
    assert document["phases"][0]["code"] == "print('röd')\n"
    assert document["phases"][0]["success"]["artifacts"] == ["tests/a.py", "b.txt"]
    assert document["inputs"] == [{"target": "in/data.bin", "base64": "AP8="}]


def test_inputs_that_are_text_stay_readable_in_the_snapshot(folder: Path) -> None:
    (folder / "data.bin").write_text("a: 1\nb: 2\n")
    assert b"text: |\n      a: 1\n      b: 2\n" in snapshot_of(load(folder, GOOD))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("code: |", "script: |", "script: there is no such key"),
        ("base64: AP8=", "base64: '?'", "inputs[0].base64: is not base64"),
        ("base64: AP8=", "source: x", "expected text or base64, one of the two"),
        ("base64: AP8=", "base64: AP8=\n    text: x", "expected text or base64"),
    ],
)
def test_damaged_snapshot_is_refused(folder: Path, old: str, new: str, fault: str) -> None:
    snapshot = snapshot_of(load(folder, GOOD)).decode()
    assert old in snapshot
    with pytest.raises(InvalidWorkflow) as caught:
        read_snapshot(snapshot.replace(old, new, 1).encode(), folder / "workflow.yaml")
    assert any(fault in one for one in caught.value.faults)
    assert caught.value.path == folder / "workflow.yaml"


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
codes = texts.filter(lambda text: text.strip() and "\0" not in text)
parts = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="/"),
    min_size=1,
    max_size=20,
).filter(lambda part: part not in {".", ".."})
paths = st.lists(parts, min_size=1, max_size=3).map("/".join)
phases = st.builds(
    Phase,
    name=names,
    gate=st.builds(
        Script,
        code=codes,
        deadline_s=st.none() | st.floats(1e-3, 86_400, exclude_min=True),
        fuel=st.none() | st.integers(1, 2**63 - 1),
        exit_code=st.integers(0, 255),
        artifacts=st.lists(paths, unique=True, max_size=4),
    ),
    description=st.none() | texts,
    tokens=st.integers(0, 2**63 - 1),
    max_attempts=st.integers(1, 1000),
)
workflows = st.builds(
    Workflow,
    name=st.from_regex(r"[a-z0-9][a-z0-9-]{0,63}", fullmatch=True),
    workflow_type=names,
    goal=st.none() | texts,
    token_budget=st.integers(0, 2**63 - 1),
    phases=st.lists(phases, min_size=1, max_size=4, unique_by=lambda phase: phase.name),
    inputs=st.lists(
        st.builds(
            Input,
            target=st.integers(0, 10**6).map("in/{}".format),
            content=st.binary(max_size=100) | texts.map(str.encode),
        ),
        max_size=3,
        unique_by=lambda one: one.target,
    ),
)


@given(workflows)
def test_snapshot_gives_the_same_workflow_back(workflow: Workflow) -> None:
    assert read_snapshot(snapshot_of(workflow), Path("workflow.yaml")) == workflow
