"""What a lazy agent does to get past a gate without doing the work."""

from __future__ import annotations

import textwrap

import pytest

from agentforge_sessions.sandbox import prepare
from agentforge_sessions.wiring.gates.gate_sandbox import SandboxGates
from agentforge_sessions.workflows.documents.specification import Component, Criterion
from agentforge_sessions.workflows.gates.gates import run_gate
from agentforge_sessions.workflows.gates.verdict import GateInput, Verdict
from agentforge_sessions.workflows.workflow import Gate
from tests.support.soak import SOAKING

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

full = pytest.mark.skipif(not SOAKING, reason="as the case beside it, in another spelling")

COMPONENT = Component(
    component_id="adder",
    location="adder.py",
    tests=("tests/",),
    criteria=[Criterion(criterion_id="AC-01", text="It adds.")],
)
PYTEST = """\
from adder import add

def test_ac_01_it_adds():
    assert add(1, 2) == 3
"""
UNITTEST = """\
import unittest
from adder import add

class AdderTest(unittest.TestCase):
    def test_ac_01_it_adds(self):
        self.assertEqual(add(1, 2), 3)
"""
TESTS = {"pytest": PYTEST, "unittest": UNITTEST}
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return 0\n"


@pytest.fixture(scope="module")
def gates() -> SandboxGates:
    prepare()
    return SandboxGates()


def judge(
    gates: SandboxGates, kind: str, files: dict[str, str], framework: str = "pytest"
) -> Verdict:
    given = GateInput(
        files={path: text.encode() for path, text in files.items()}, component=COMPONENT
    )
    gate = Gate(kind=kind, framework=framework, covers_criteria=True)
    return run_gate(gate, given, gates)


def told(verdict: Verdict) -> str:
    return "\n".join([verdict.summary, *verdict.evidence])


@pytest.mark.parametrize(
    ("framework", "code", "words"),
    [
        pytest.param(
            "pytest",
            "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n",
            "_pytest.python.Function.runtest was replaced while the tests ran",
            marks=full,
        ),
        (
            "pytest",
            "from _pytest.runner import pytest_runtest_call as call\n"
            "call.__code__ = (lambda item: None).__code__\n",
            "_pytest.runner.pytest_runtest_call was replaced while the tests ran",
        ),
        (
            "unittest",
            "from unittest import TestCase\nTestCase.run = lambda self, to: to.addSuccess(self)\n",
            "unittest.case.TestCase.run was replaced while the tests ran",
        ),
        pytest.param(
            *("pytest", "def add(a, b):\n    raise KeyboardInterrupt\n"),
            "KeyboardInterrupt at adder",
            marks=full,
        ),
        ("unittest", "def add(a, b):\n    raise KeyboardInterrupt\n", "KeyboardInterrupt at adder"),
        (
            "pytest",
            "import pytest\ndef add(a, b):\n    pytest.exit('done', returncode=0)\n",
            "stopped by Exit at adder.py:3: done",
        ),
        pytest.param(
            *("pytest", "import sys\nsys.exit(0)\n", "stopped by SystemExit at adder.py:2"),
            marks=full,
        ),
        ("pytest", "import pytest\ndef add(a, b):\n    pytest.skip('later')\n", "skipped"),
        pytest.param(
            *("pytest", "import pytest\ndef add(a, b):\n    pytest.xfail('later')\n", "skipped"),
            marks=full,
        ),
        (
            "pytest",
            "import pytest\npytest.skip('later', allow_module_level=True)\n",
            "It skips itself, whole",
        ),
        ("unittest", "import unittest\nraise unittest.SkipTest('later')\n", "SkipTest"),
        ("unittest", "import os\nos._exit(0)\n", "ended the interpreter"),
    ],
    ids=[
        "pytest replaced",
        "pytest's code replaced",
        "unittest replaced",
        "interrupt",
        "interrupt, unittest",
        "pytest.exit",
        "sys.exit at import",
        "skip",
        "xfail",
        "skip at import",
        "skip at import, unittest",
        "os._exit at import",
    ],
)
def test_component_that_keeps_its_tests_from_failing_does_not_pass_green(
    gates: SandboxGates, framework: str, code: str, words: str
) -> None:
    if "def add" not in code:
        code += f"\n{WRONG}"
    files = {"tests/test_adder.py": TESTS[framework], "adder.py": code}
    verdict = judge(gates, "tests_pass", files, framework)
    assert not verdict.passed
    assert words in told(verdict)


def test_component_that_rewrites_the_tests_does_not_pass_green(gates: SandboxGates) -> None:
    code = (
        "with open('/app/tests/test_more.py', 'w') as file:\n"
        "    file.write('def test_ac_02_it_adds_more():\\n    pass\\n')\n"
        "def add(a, b):\n    return 3\n"
    )
    more = PYTEST.replace("ac_01_it_adds", "ac_02_it_adds_more").replace("== 3", "== 4")
    files = {"tests/test_adder.py": PYTEST, "tests/test_more.py": more, "adder.py": code}
    verdict = judge(gates, "tests_pass", files)
    assert not verdict.passed
    assert "tests/test_more.py was changed while the tests ran" in told(verdict)


def test_constant_that_is_missing_is_a_right_reason(gates: SandboxGates) -> None:
    uses = (
        "'x' * (MOST + 1)",
        "range(MOST)",
        "1 - MOST",
        "MOST > 1",
        "min(3, MOST)",
        "'%d' % MOST",
        "-MOST",
        "MOST == 3",
    )
    tests = [
        f"def test_ac_01_most_{number}():\n    assert ({use}) and False\n"
        for number, use in enumerate(uses)
    ]
    text = "\n".join(["from adder import MOST\n", *tests])
    verdict = judge(gates, "tests_fail", {"tests/test_adder.py": text})
    assert verdict.passed, verdict.evidence
    assert verdict.facts["failed"] == verdict.facts["collected"] == len(uses)


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        ("def pytest_pyfunc_call(pyfuncitem):\n    return DONE", "implements pytest_pyfunc_call"),
        pytest.param(
            "@pytest.hookimpl(wrapper=True)\n"
            "def pytest_runtest_makereport(item, call):\n"
            "    report = yield\n"
            "    report.outcome = 'passed' if DONE else report.outcome\n"
            "    return report",
            "implements pytest_runtest_makereport",
            marks=full,
        ),
        (
            "def pytest_collection_modifyitems(items):\n"
            "    for item in items if DONE else ():\n"
            "        item.add_marker(pytest.mark.xfail)",
            "skipped",
        ),
    ],
    ids=["call", "report", "xfail"],
)
def test_conftest_that_decides_how_tests_run_passes_no_gate(
    gates: SandboxGates, hook: str, words: str
) -> None:
    conftest = f"import os\nimport pytest\nDONE = os.path.exists('/app/adder.py') or None\n{hook}\n"
    tests = {"tests/test_adder.py": PYTEST, "tests/conftest.py": conftest}
    verdict = judge(gates, "tests_pass", {**tests, "adder.py": WRONG})
    assert not verdict.passed
    assert words in told(verdict)
    if "pyfunc_call" in words or (SOAKING and "implements" in words):
        # Told while the tests can still be changed.
        red = judge(gates, "tests_fail", tests)
        assert not red.passed
        assert f"tests/conftest.py {words}" in told(red)


@pytest.mark.parametrize("kind", ["tests_pass", pytest.param("tests_fail", marks=full)])
def test_tests_of_another_file_by_the_components_name_pass_no_gate(
    gates: SandboxGates, kind: str
) -> None:
    other = (
        "import os\n"
        "def add(a, b):\n"
        "    if not os.path.exists('/app/adder.py'):\n"
        "        raise NotImplementedError\n"
        "    return a + b\n"
    )
    files = {"tests/test_adder.py": PYTEST, "tests/adder.py": other}
    if kind == "tests_pass":
        files["adder.py"] = WRONG
    verdict = judge(gates, kind, files)
    assert not verdict.passed
    assert "The tests took adder from tests/adder.py, and not from adder.py" in told(verdict)


@pytest.mark.parametrize(
    ("kind", "framework"),
    [
        pytest.param("tests_fail", "pytest", marks=full),
        ("tests_fail", "unittest"),
        ("tests_pass", "unittest"),
        pytest.param("tests_pass", "pytest", marks=full),
    ],
)
def test_tests_that_never_import_the_component_pass_no_gate(
    gates: SandboxGates, kind: str, framework: str
) -> None:
    text = TESTS[framework].replace("from adder import add", "import os")
    text = text.replace("add(1, 2)", "3 * os.path.exists('/app/adder.py')")
    files = {"tests/test_adder.py": text}
    if kind == "tests_pass":
        files["adder.py"] = "nonsense(\n"
    verdict = judge(gates, kind, files, framework)
    assert not verdict.passed
    assert "No test imports adder" in told(verdict)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            "\ndef test_b():\n    raise KeyboardInterrupt\n\ndef test_c():\n    pass\n",
            "collected and not run: tests/test_more.py::test_c",
        ),
        (
            "\nimport pytest\npytest.skip('no', allow_module_level=True)\n",
            "It skips itself, whole",
        ),
    ],
    ids=["interrupt", "skip"],
)
def test_red_wants_every_test_run(gates: SandboxGates, more: str, words: str) -> None:
    files = {"tests/test_adder.py": PYTEST, "tests/test_more.py": PYTEST.replace("01", "02") + more}
    verdict = judge(gates, "tests_fail", files)
    assert not verdict.passed
    assert words in told(verdict)


def test_honest_tests_of_every_sort_pass_both_gates(gates: SandboxGates) -> None:
    tests = textwrap.dedent(
        """\
        import os, sys, unittest, warnings
        from unittest import mock
        import pytest
        sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
        import adder
        from adder import add

        def test_ac_01_it_adds(both):
            assert add(*both) == 3

        def test_tools(monkeypatch, tmp_path, capsys, caplog, recwarn):
            monkeypatch.setattr("os.getcwd", lambda: str(tmp_path))
            warnings.warn("seen")
            with mock.patch("adder.add", return_value=4):
                assert adder.add(1, 2) == 4
            assert add(1, 2) == 3

        def test_subtests(subtests):
            for number in range(3):
                with subtests.test(number=number):
                    assert add(number, 1) == number + 1

        class AdderTest(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.three = add(1, 2)

            def test_subtests(self):
                for number in range(3):
                    with self.subTest(number=number):
                        self.assertEqual(add(number, 1), number + 1)

            def test_three(self):
                self.assertEqual(self.three, 3)
        """
    )
    conftest = textwrap.dedent(
        """\
        import pytest

        def pytest_configure(config):
            config.addinivalue_line("markers", "slow: takes long")
            assert not config.getoption("usepdb")
            assert not config.getvalue("trace")

        def pytest_collection_modifyitems(items):
            items.reverse()

        @pytest.fixture
        def both():
            return 1, 2
        """
    )
    files = {"tests/test_adder.py": tests, "tests/conftest.py": conftest}
    red = judge(gates, "tests_fail", files)
    assert red.passed, red.evidence
    green = judge(gates, "tests_pass", {**files, "adder.py": RIGHT})
    assert green.passed, green.evidence


def test_unittest_classes_whose_set_up_needs_the_component_go_from_red_to_green(
    gates: SandboxGates,
) -> None:
    tests = textwrap.dedent(
        """\
        import unittest
        from adder import add

        class AdderTest(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                cls.three = add(1, 2)

            def test_ac_01_three(self):
                self.assertEqual(self.three, 3)

            def test_subtests(self):
                for number in range(2):
                    with self.subTest(number=number):
                        self.assertEqual(add(number, 1), number + 1)
        """
    )
    # The same name twice: each keeps its own tests.
    files = {"tests/a/test_adder.py": tests, "tests/b/test_adder.py": tests}
    red = judge(gates, "tests_fail", files, "unittest")
    assert red.passed, red.evidence
    assert len(red.facts["tests"]) == 4
    given = GateInput(
        files={path: text.encode() for path, text in {**files, "adder.py": RIGHT}.items()},
        component=COMPONENT,
        baseline=red.facts,
    )
    gate = Gate(kind="tests_pass", framework="unittest", tests_unchanged=True)
    green = run_gate(gate, given, gates)
    assert green.passed, green.evidence


def test_folder_in_place_of_the_report_is_no_report(gates: SandboxGates) -> None:
    done = gates.run("import os\nos.mkdir('report')", files={}, report="report")
    assert done.result.success, done.result
    assert done.report is None
