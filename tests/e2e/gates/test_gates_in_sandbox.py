"""Gates on real tests in the real sandbox."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from agentforge_sessions.harness import PhaseResult
from agentforge_sessions.sandbox import ExecutionPolicy, prepare
from agentforge_sessions.wiring.gates.gate_kit import prepare_kit
from agentforge_sessions.wiring.gates.gate_sandbox import SandboxGates
from agentforge_sessions.workflows.documents.specification import Component, Criterion
from agentforge_sessions.workflows.gate_port import (
    GateExecution,
    GatePlaces,
    GateSandbox,
    GateUnavailable,
)
from agentforge_sessions.workflows.gates.gates import run_gate
from agentforge_sessions.workflows.gates.verdict import GateInput, Verdict
from agentforge_sessions.workflows.workflow import Gate
from tests.support.soak import SOAKING

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

COMPONENT = Component(
    component_id="adder",
    location="adder.py",
    tests=("tests/",),
    criteria=[
        Criterion(criterion_id="AC-01", text="It adds."),
        Criterion(criterion_id="AC-02", text="It refuses text."),
    ],
)
PYTEST = """\
import pytest
from adder import NotANumber, add

@pytest.fixture
def numbers():
    return 1, 2

@pytest.mark.parametrize("more", [0, 1])
def test_ac_01_it_adds(numbers, more, tmp_path):
    (tmp_path / "seen").write_text("x")
    assert add(*numbers) + more == 3 + more

def test_ac_02_it_refuses_text():
    with pytest.raises(NotANumber):
        add("1", 2)
"""
UNITTEST = """\
import unittest
from adder import NotANumber, add

class AdderTest(unittest.TestCase):
    def test_ac_01_it_adds(self):
        self.assertEqual(add(1, 2), 3)

    def test_ac_02_it_refuses_text(self):
        with self.assertRaises(NotANumber):
            add("1", 2)
"""
CODE = """\
class NotANumber(TypeError):
    pass

def add(a, b):
    if isinstance(a, str) or isinstance(b, str):
        raise NotANumber
    return a + b
"""
TEXTS = {"pytest": PYTEST, "unittest": UNITTEST}
QUICKER = ["unittest", "pytest"] if SOAKING else ["unittest"]
"""The framework that starts sooner, for what depends on neither; `make soak` tries both."""


@pytest.fixture(scope="module")
def gates() -> SandboxGates:
    prepare()
    return SandboxGates()


def judge(
    gates: SandboxGates, kind: str, files: dict[str, str], framework: str = "pytest", **more: object
) -> Verdict:
    return judge_in(gates, kind, files, framework, **more)


def judge_in(
    gates: GateSandbox, kind: str, files: dict[str, str], framework: str = "pytest", **more: object
) -> Verdict:
    gate = Gate(kind=kind, framework=framework, covers_criteria=True, deadline_s=300, **more)  # type: ignore[arg-type]
    given = {path: text.encode() for path, text in files.items()}
    return run_gate(gate, GateInput(files=given, component=COMPONENT), gates)


def test_sandbox_is_a_gate_sandbox(gates: SandboxGates) -> None:
    assert isinstance(gates, GateSandbox)


@pytest.mark.parametrize("framework", ["pytest", "unittest"])
def test_red_green_and_verify(gates: SandboxGates, framework: str) -> None:
    tests = {"tests/test_adder.py": TEXTS[framework]}
    red = judge(gates, "tests_fail", tests, framework)
    assert red.passed, red.evidence
    assert red.facts["failed"] == red.facts["collected"] == (3 if framework == "pytest" else 2)
    assert red.duration_s > 0
    done = {**tests, "adder.py": CODE}
    # The two run alike; what they differ in is judged here, whatever the framework.
    kinds = ("tests_pass", "suite") if framework == "unittest" or SOAKING else ("tests_pass",)
    for kind in kinds:
        verdict = judge(gates, kind, done, framework)
        assert verdict.passed, verdict.evidence
        assert "2 of 2 acceptance criteria covered" in verdict.summary
    if framework == "pytest" and not SOAKING:
        return
    wrong = judge(gates, "tests_pass", {**done, "adder.py": CODE.replace("+", "-")}, framework)
    assert not wrong.passed
    assert any("AssertionError" in piece for piece in wrong.evidence)
    assert any("test_ac_01_it_adds" in piece for piece in wrong.evidence)


SPOILT: dict[str, tuple[Callable[[str], str], str]] = {
    "syntax": (lambda text: text + "\ndef (\n", "SyntaxError"),
    "import": (lambda text: "import nowhere\n" + text, "ModuleNotFoundError"),
    "use": (lambda text: text + "\nadd(1, 2)\n", "because it uses adder while it is imported"),
    "criterion": (lambda text: text.replace("ac_02", "ac_2"), "AC-02 has no test"),
    "exit": (lambda text: text + "\nimport os; os._exit(0)\n", "ended the interpreter"),
    "sysexit": (lambda text: text + "\nimport sys; sys.exit(0)\n", ""),
    "name": (
        lambda text: text.replace("add(1, 2)", "adds(1, 2)").replace("add(*", "adds(*"),
        "NameError",
    ),
    "endless": (lambda text: text + "\nwhile True: pass\n", "limit on deadline"),
}
# What ends the process or never ends does so under either framework, what can't be imported is told
# alike, and criteria are counted from the names alone: unittest, which starts sooner, shows these.
UNDER_PYTEST = SPOILT if SOAKING else ("syntax", "sysexit")


@pytest.mark.parametrize(
    ("framework", "spoilt"),
    [("pytest", name) for name in UNDER_PYTEST] + [("unittest", name) for name in SPOILT],
)
def test_red_is_not_passed_for_another_reason(
    gates: SandboxGates, framework: str, spoilt: str
) -> None:
    spoil, words = SPOILT[spoilt]
    text = spoil(TEXTS[framework])
    deadline_s = 1 if "deadline" in words else 300  # for all others a busy machine may take long
    gate = Gate(kind="tests_fail", framework=framework, covers_criteria=True, deadline_s=deadline_s)
    given = GateInput(files={"tests/test_adder.py": text.encode()}, component=COMPONENT)
    verdict = run_gate(gate, given, gates)
    assert not verdict.passed
    assert words in "\n".join([verdict.summary, *verdict.evidence])


RIGHT = (
    "def test_ac_01():\n    with pytest.raises(Exception):\n        add(1)",
    "def test_ac_01(): assert add.x.y",
    "def test_ac_01(): assert add == 3",
    "def test_ac_01(): assert isinstance(3, NotANumber)",
    "def test_ac_01():\n    import adder\n    assert adder.LIMIT == 3",
)
WRONG = {
    "def test_ac_01(): pass": "passes before there is an implementation",
    "@pytest.mark.skip\ndef test_ac_01(): add(1, 2)": "is skipped",
    "def test_ac_01(nothing): add(1, 2)": "wrong reason: FixtureLookupError",
    "@pytest.mark.xfail\ndef test_ac_01(): assert False": "is skipped",
    "async def test_ac_01(): assert add(1, 2) == 3": "is a coroutine",
    "def test_ac_01(): assert 1 == 2": "fails without having used adder",
    "def test_ac_01(): pytest.fail('todo')": "fails without having used adder",
    "def test_ac_01(): raise NotImplementedError": "fails without having used adder",
    "def test_ac_01():\n    with pytest.raises(NotANumber):\n        pass": (
        "fails without having used adder"
    ),
    "def test_ac_01():\n    with pytest.raises(NotANumber):\n        raise ValueError": (
        "wrong reason: ValueError"
    ),
}


def odd(number: int) -> str:
    return f"test_ac_01_odd_{number:02}"


def judge_odd(gates: SandboxGates, tests: Iterable[str]) -> Verdict:
    """Judge the good tests and these, each under a name of its own."""
    named = [test.replace("test_ac_01", odd(number)) for number, test in enumerate(tests)]
    text = "\n\n".join([PYTEST, *named])
    return judge(gates, "tests_fail", {"tests/test_adder.py": text})


@pytest.fixture(scope="module")
def wrong(gates: SandboxGates) -> Verdict:
    """The verdict on all that is wrong, in one run."""
    return judge_odd(gates, WRONG)


def test_red_passes_each_test_that_fails_for_want_of_the_implementation(
    gates: SandboxGates,
) -> None:
    verdict = judge_odd(gates, RIGHT)
    assert verdict.passed, verdict.evidence
    assert verdict.facts["failed"] == verdict.facts["collected"] == 3 + len(RIGHT)


def test_red_is_not_passed_for_any_other(wrong: Verdict) -> None:
    assert not wrong.passed
    assert f"{len(WRONG)} of {3 + len(WRONG)} tests do not fail for the right" in wrong.summary
    assert len(wrong.evidence) == len(WRONG)


@pytest.mark.parametrize("test", WRONG)
def test_each_red_test_has_to_fail_for_want_of_the_implementation(
    wrong: Verdict, test: str
) -> None:
    name = odd(list(WRONG).index(test))
    (piece,) = (one for one in wrong.evidence if f"::{name}: " in one)
    assert WRONG[test] in piece


@pytest.mark.parametrize("framework", ["pytest", "unittest"])
def test_criterion_is_covered_in_red_only_by_a_test_that_reaches_the_component(
    gates: SandboxGates, framework: str
) -> None:
    idle = {
        "pytest": PYTEST.split("def test_ac_02", maxsplit=1)[0]
        + "def test_ac_02_it_refuses_text():\n"
        "    assert 1 == 2\n",
        "unittest": UNITTEST.split("    def test_ac_02", maxsplit=1)[0]
        + "    def test_ac_02_it_refuses_text(self):\n        self.fail('todo')\n",
    }[framework]
    verdict = judge(gates, "tests_fail", {"tests/test_adder.py": idle}, framework)
    assert not verdict.passed
    told = "\n".join(verdict.evidence)
    assert "AC-02 has no test" in told
    assert "fails without having used adder" in told
    assert verdict.facts["criteria"] == {"AC-01": 2 if framework == "pytest" else 1, "AC-02": 0}


def test_constant_that_is_compared_by_the_framework_reaches_the_component(
    gates: SandboxGates,
) -> None:
    text = UNITTEST.replace("NotANumber, add", "LIMIT, NotANumber, add") + (
        "\n    def test_limit(self):\n        self.assertEqual(LIMIT, 5)\n"
    )
    verdict = judge(gates, "tests_fail", {"tests/test_adder.py": text}, "unittest")
    assert verdict.passed, verdict.evidence


DEEP = {
    "pytest": (
        "from deep.er import adder\nimport deep.er.adder as again\n\n"
        "def test_it_adds():\n    assert adder.LIMIT == 3\n\n"
        "def test_it_adds_again():\n    assert again.add(1, 2) == 3\n"
    ),
    "unittest": (
        "import unittest\nfrom deep.er import adder\nimport deep.er.adder as again\n\n"
        "class AdderTest(unittest.TestCase):\n"
        "    def test_it_adds(self):\n        self.assertEqual(adder.LIMIT, 3)\n\n"
        "    def test_it_adds_again(self):\n        self.assertEqual(again.add(1, 2), 3)\n"
    ),
}


@pytest.mark.parametrize("framework", QUICKER)
def test_component_in_a_package_that_is_not_there_yet_can_be_imported(
    gates: SandboxGates, framework: str
) -> None:
    component = Component(
        component_id="adder", location="deep/er/adder.py", tests=("tests/unit/test_adder.py",)
    )
    files = {"tests/unit/test_adder.py": DEEP[framework].encode()}
    gate = Gate(kind="tests_fail", framework=framework)
    red = run_gate(gate, GateInput(files=files, component=component), gates)
    assert red.passed, red.evidence
    files["deep/er/adder.py"] = b"LIMIT = 3\n\ndef add(a, b):\n    return a + b\n"
    gate = Gate(kind="tests_pass", framework=framework)
    green = run_gate(gate, GateInput(files=files, component=component), gates)
    assert green.passed, green.evidence


def test_test_of_half_an_implementation_has_to_reach_it_too(gates: SandboxGates) -> None:
    half = "LIMIT = 4\n\nclass NotANumber(TypeError):\n    pass\n\ndef add(a, b):\n    return 0\n"
    text = PYTEST + (
        "\nfrom adder import LIMIT\n\n"
        "def test_limit():\n    assert LIMIT == 5\n\n"
        "def test_idle():\n    assert 1 == 2\n"
    )
    verdict = judge(gates, "tests_fail", {"tests/test_adder.py": text, "adder.py": half})
    assert not verdict.passed
    assert "1 of 5 tests does not fail for the right reason" in verdict.summary
    assert "test_idle: fails without having used adder" in verdict.evidence[0]


@pytest.mark.parametrize("framework", QUICKER)
def test_half_an_implementation_is_a_right_reason(gates: SandboxGates, framework: str) -> None:
    half = "class NotANumber(TypeError):\n    pass\n\ndef add(a, b):\n    raise KeyError(a)\n"
    files = {"tests/test_adder.py": TEXTS[framework], "adder.py": half}
    verdict = judge(gates, "tests_fail", files, framework)
    assert verdict.passed, verdict.evidence


def test_gate_runs_on_a_copy_and_leaves_nothing(gates: SandboxGates, tmp_path: Path) -> None:
    text = PYTEST + (
        "\ndef test_nothing_is_imported_for_a_debugger_that_nobody_could_type_at():\n"
        "    import sys\n"
        "    assert not {'pdb', 'asyncio'} & set(sys.modules)\n"
        "\ndef test_ac_01_meddles():\n"
        "    open('/app/adder.py', 'w').write('x')\n"
        "    open('/app/left.txt', 'w').write('x')\n"
    )
    files = {"tests/test_adder.py": text.encode(), "adder.py": CODE.encode()}
    before = dict(files)
    gate = Gate(kind="tests_pass")
    for _ in range(2):
        assert run_gate(gate, GateInput(files=files, component=COMPONENT), gates).passed
    assert files == before


def test_own_code_decides_a_script_gate(gates: SandboxGates) -> None:
    code = (
        "import sys\ntext = open(FILES[0]).read()\nprint('seen', text)\nsys.exit(text != 'good')\n"
    )
    gate = Gate(kind="script", code=code)
    assert run_gate(gate, GateInput(files={"a.txt": b"good"}), gates).passed
    verdict = run_gate(gate, GateInput(files={"a.txt": b"bad"}), gates)
    assert (verdict.passed, verdict.summary) == (False, "exit code 1")
    assert "seen bad" in verdict.evidence[0]


def test_script_gate_that_lost_a_write_says_which() -> None:
    gates = SandboxGates(ExecutionPolicy(file_bytes=1 << 10))
    code = (
        "try:\n    with open('large', 'wb') as file:\n        file.write(bytes(2000))\n"
        "except OSError:\n    pass\n"
    )
    verdict = run_gate(Gate(kind="script", code=code), GateInput(files={}), gates)
    assert not verdict.passed
    assert verdict.summary == "exit code 0, quota exceeded: file_bytes, not kept: large (EFBIG)"


def test_kit_is_made_once_and_is_whole(gates: SandboxGates, tmp_path: Path) -> None:
    kit = gates.kit()
    assert prepare_kit(kit.parent) == kit
    names = {path.name for path in kit.iterdir()}
    assert names == {
        "_pytest",
        "iniconfig",
        "packaging",
        "pluggy",
        "py.py",
        "pygments",
        "pytest",
        "modules",
    }
    assert not [path for path in kit.rglob("*") if path.is_symlink()]


def test_kit_is_imported_as_it_was_compiled(gates: SandboxGates) -> None:
    code = (
        "import json, os, sys\n"
        "seen = []\n"
        "def audit(event, given):\n"
        "    if event == 'compile':\n"
        "        seen.append(str(given[1]))\n"
        "sys.addaudithook(audit)\n"
        "sys.path.insert(0, '/kit')\n"
        "os.devnull = '/tmp/.null'\n"
        "import pytest\n"
        "pytest.main(['--capture=sys', '--basetemp=/tmp/pytest', 'test_one.py',\n"
        "    '-p', 'no:cacheprovider', '-p', 'no:faulthandler'])\n"
        "kit = [file for file in seen if file.startswith('/kit/')]\n"
        "json.dump([pytest.__file__, kit], open('/app/seen.json', 'w'))\n"
    )
    files = {"test_one.py": b"def test_one():\n    assert 1 == 2\n"}
    execution = gates.run(code, files=files, report="seen.json", kit=True, deadline_s=300)
    assert execution.report is not None, execution.result.stderr
    assert json.loads(execution.report) == ["/kit/pytest/__init__.py", []]


@pytest.mark.soak
@pytest.mark.skipif(not SOAKING, reason="as on a machine on which no gate ever ran")
def test_kit_that_was_not_compiled_is_compiled_by_the_next_one(
    gates: SandboxGates, tmp_path: Path
) -> None:
    kit = tmp_path / gates.kit().name
    shutil.copytree(gates.kit(), kit, ignore=shutil.ignore_patterns("modules"))
    own = SandboxGates(kit_directory=tmp_path)
    assert own.kit() == kit
    assert (kit / "modules").is_file()


def test_missing_pytest_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "iniconfig", None)  # type: ignore[arg-type]
    with pytest.raises(GateUnavailable, match=r"iniconfig is not installed.*\[tdflow\]"):
        SandboxGates(kit_directory=tmp_path).prepare(kit=True)


def test_kit_that_can_not_be_kept_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GateUnavailable, match="can't be kept"):
        prepare_kit(tmp_path / "file" / "kits")


class OwnSandbox:
    """A sandbox of another make: each gate in a directory and an interpreter of its own."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.runs = 0

    @property
    def places(self) -> GatePlaces:
        return GatePlaces()

    def prepare(self, *, kit: bool) -> None:
        pass

    def run(
        self,
        code: str,
        *,
        files: Mapping[str, bytes],
        report: str,
        deadline_s: float | None = None,
        kit: bool = False,
    ) -> GateExecution:
        self.runs += 1
        root = self.scratch / f"gate-{self.runs}"
        root.mkdir()
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        left = root / report
        return GateExecution(
            result=PhaseResult(
                success=done.returncode == 0, exit_code=done.returncode, stderr=done.stderr
            ),
            report=left.read_bytes() if left.exists() else None,
        )


@pytest.mark.parametrize("framework", ["pytest", "unittest"])
def test_sandbox_of_another_make_needs_no_fixed_paths(tmp_path: Path, framework: str) -> None:
    own = OwnSandbox(tmp_path)
    assert isinstance(own, GateSandbox)
    tests = {"tests/test_adder.py": TEXTS[framework]}
    idle = {"tests/test_adder.py": TEXTS[framework].replace("add(1, 2), 3", "1, 2")}
    if framework == "pytest":
        idle = {"tests/test_adder.py": PYTEST + "\ndef test_idle():\n    assert 1 == 2\n"}
    red = judge_in(own, "tests_fail", tests, framework)
    assert red.passed, red.evidence
    if framework == "pytest" and not SOAKING:
        return  # a run of it takes six times as long
    assert not judge_in(own, "tests_fail", idle, framework).passed
    half = {"adder.py": CODE.replace("return a + b", "return 0").replace("raise", "return")}
    again = judge_in(own, "tests_fail", {**tests, **half}, framework)
    assert again.passed, again.evidence
    green = judge_in(own, "tests_pass", {**tests, "adder.py": CODE}, framework)
    assert green.passed, green.evidence
