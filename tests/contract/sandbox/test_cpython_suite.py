"""CPython's own tests of files hold in the guest, but for those whose reason is listed.

They are the tests of the Python that runs this, of an earlier release than the guest's. A few
modules of them in `make test`, all of them in a soak, in the workspace and in `/tmp`.
"""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import prepare
from tests.support.cpython_suite import (
    MODULES,
    Entry,
    Expectations,
    Outcome,
    expectations,
    has_module,
    run_in_guest,
    suite_directory,
)
from tests.support.soak import SOAKING

# A module takes up to a minute of processor time; the first test of a machine compiles besides.
pytestmark = pytest.mark.timeout(3600)

QUICK = (
    "test_os", "test_posix", "test_fileio", "test_file", "test_tempfile", "test_shutil",
    "test_gzip", "test_filecmp", "test_genericpath", "test_sqlite3",
)  # fmt: skip


def _known() -> tuple[Path, Expectations]:
    suite, known = suite_directory(), expectations()
    if suite is None:
        pytest.skip("this Python was installed without its own tests (the package `test`)")
    if known is None:
        pytest.skip(f"no list of failures was made for the tests of {platform.python_version()}")
    return suite, known


@pytest.mark.parametrize("place", ["/app", "/tmp"] if SOAKING else ["/app"])
@pytest.mark.parametrize("module", MODULES if SOAKING else QUICK)
def test_nothing_fails_but_what_is_listed(module: str, place: str, tmp_path: Path) -> None:
    prepare()
    suite, known = _known()
    if not has_module(suite, module):
        pytest.skip(f"this Python was installed without {module}")
    outcomes = run_in_guest(module, suite, tmp_path / "w", place=place, tries=5, known=known)
    counts = known.counts(outcomes)
    print(module, place, counts)
    assert known.faults(outcomes) == []
    assert counts["passed"] >= known.least.get(module, 0)


# ---------------------------------------------------------------- the running itself

OWN_SUITE = {
    "__init__.py": "",
    "support/__init__.py": "",
    "support/os_helper.py": "",
    "test_own.py": """
import os, pathlib, unittest
class T(unittest.TestCase):
    def test_a_fails(self):
        for i in range(2):
            with self.subTest(i=i): self.assertEqual(i, 0)
    def test_b_ends_all(self): os._exit(3)
    @unittest.skip('no threads')
    def test_c_skipped(self): pass
    def test_d_links(self):
        pathlib.Path('f').write_text('x')
        os.symlink(os.path.abspath('f'), 's')
        self.assertEqual(os.readlink('s'), 'f')
    def test_e_timed(self):
        with open('tries', 'a') as file: file.write('.')
        self.assertEqual(os.path.getsize('tries'), 3)
class U(unittest.TestCase):
    @classmethod
    def setUpClass(cls): 1 / 0
    def test_never(self): pass
""",
}


def test_each_test_has_a_result_even_where_one_ends_the_interpreter(tmp_path: Path) -> None:
    prepare()
    for name, text in OWN_SUITE.items():
        path = tmp_path / "suite" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    known = Expectations({}, [], {}, exact=True, timed=["test_own.T.test_e_timed"])
    outcomes = run_in_guest(
        "test_own", tmp_path / "suite", tmp_path / "w", place="/app", tries=3, known=known
    )
    assert {test: outcome.what for test, outcome in outcomes.items()} == {
        "test_own.T.test_a_fails": "failed",
        "test_own.T.test_b_ends_all": "trapped",
        "test_own.T.test_c_skipped": "skipped",
        "test_own.T.test_d_links": "passed",
        "test_own.T.test_e_timed": "passed",
        "setUpClass (test.test_own.U)": "failed",
    }
    assert "(i=1)" in outcomes["test_own.T.test_a_fails"].detail
    assert outcomes["test_own.T.test_c_skipped"].detail == "no threads"


# ---------------------------------------------------------------- the judging itself

LISTED = Expectations(
    reasons={"version": "of another release", "modes": "no modes"},
    entries=[
        Entry("version", ["test_a.*.test_old"], []),
        Entry("modes", ["test_a.A.test_mode"], []),
    ],
    least={},
    exact=True,
    timed=[],
)
PASSED, FAILED = Outcome("passed", ""), Outcome("failed", "why")
SKIPPED, TRAPPED = Outcome("skipped", "no threads"), Outcome("trapped", "deadline")


def test_what_is_listed_may_fail_and_nothing_else() -> None:
    outcomes = {"test_a.A.test_old": FAILED, "test_a.A.test_mode": TRAPPED, "test_a.A.b": PASSED}
    assert LISTED.faults(outcomes) == []
    assert LISTED.counts(outcomes) == {"failed (version)": 1, "failed (modes)": 1, "passed": 1}
    for other in (FAILED, TRAPPED):
        (fault,) = LISTED.faults({"test_a.A.other": other, **outcomes})
        assert fault.startswith(f"test_a.A.other {other.what}:\n")


def test_what_is_listed_and_passes_is_a_fault() -> None:
    outcomes = {"test_a.A.test_old": PASSED, "test_a.B.test_old": SKIPPED}
    assert LISTED.faults(outcomes) == [
        "test_a.A.test_old passed, though it is listed: of another release"
    ]


def test_what_fails_for_its_release_may_pass_of_another() -> None:
    other = Expectations(LISTED.reasons, LISTED.entries, {}, exact=False, timed=[])
    assert other.faults({"test_a.A.test_old": PASSED}) == []
    assert len(other.faults({"test_a.A.test_mode": PASSED})) == 1


def test_the_list_names_a_reason_for_all_it_has() -> None:
    for release in ("3.11.7", "3.12.1", "3.13.0"):
        known = expectations(release)
        assert known is not None
        assert known.exact
        assert {entry.reason for entry in known.entries} <= set(known.reasons)
    exact, debian = expectations("3.11.7"), expectations("3.11.2")
    assert exact is not None
    assert debian is not None
    assert exact.reason("test_io.CMiscIOTest.test___all__") is None
    assert debian.reason("test_io.CMiscIOTest.test___all__") is not None
    later = expectations("3.11.99")
    assert later is not None
    assert (later.exact, later.least) == (False, {})
    assert expectations("3.99.0") is None
