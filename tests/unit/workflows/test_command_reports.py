"""Reports of tests as the common runners write them, and as one who wants to deceive would."""

from __future__ import annotations

import pytest

from agentforge_sessions.workflows.gates.report_formats import (
    MAX_REPORT_BYTES,
    read_junit,
    read_tap,
)
from agentforge_sessions.workflows.gates.test_reports import Outcome, UnreadableReport, gathered

PASSED, SKIPPED, FAILED, ERROR = Outcome

PYTEST = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="1"
 tests="5" time="0.1"><testcase classname="tests.test_sums" name="test_adds" time="0.0" />
<testcase classname="tests.test_sums" name="test_fails"><failure message="assert 3 == 4">def test():
&gt;   assert 3 == 4</failure></testcase>
<testcase classname="tests.test_sums" name="test_skipped"><skipped type="pytest.skip" message="no"/>
</testcase>
<testcase classname="" name="tests.test_broken"><error message="collection failure">ImportError
</error></testcase>
<testcase classname="tests.test_sums" name="test_twice"><failure message="bad"/></testcase>
<testcase classname="tests.test_sums" name="test_twice"><error message="teardown"/></testcase>
</testsuite></testsuites>"""
JEST = b"""<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="jest tests" tests="2" failures="1" errors="0" time="1.2">
  <testsuite name="sums" errors="0" failures="1" skipped="0" tests="2">
    <testcase classname="sums adds" name="sums adds" time="0.002"></testcase>
    <testcase classname="sums subtracts" name="sums subtracts" time="0.001">
      <failure>Error: expect(received).toBe(expected)</failure></testcase>
  </testsuite></testsuites>"""
VITEST = b"""<?xml version="1.0" encoding="UTF-8" ?>
<testsuites name="vitest tests" tests="2" failures="1" errors="0" time="0.01">
  <testsuite name="src/sums.test.ts" hostname="host" tests="2" failures="1" skipped="0">
    <testcase classname="src/sums.test.ts" name="sums &gt; adds" time="0.001"></testcase>
    <testcase classname="src/sums.test.ts" name="sums &gt; subtracts" time="0.001">
      <failure message="expected 1 to be 2" type="AssertionError">AssertionError</failure>
    </testcase></testsuite></testsuites>"""
NODE = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites>
  <testcase name="/work/broken.test.js" time="0.03" classname="test"><failure type="testCodeFailure"
   message="test failed">[Error]</failure></testcase>
  <testsuite name="sums" time="0.001" tests="2" failures="0" skipped="1">
    <testcase name="adds" time="0.0005" classname="test"/>
    <testsuite name="inner" tests="1"><testcase name="deep" classname="test"/></testsuite>
    <testcase name="later" classname="test"><skipped type="todo" message="true"/></testcase>
  </testsuite>
  <testcase name="alone" time="0.0001" classname="test"/>
</testsuites>"""
GOTESTSUM = b"""<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="2" failures="1" errors="0" time="0.2">
  <testsuite tests="2" failures="1" time="0.1" name="example.com/sums">
    <properties><property name="go.version" value="go1.22"></property></properties>
    <testcase classname="example.com/sums" name="TestAdd" time="0.000"></testcase>
    <testcase classname="example.com/sums" name="TestSub" time="0.000">
      <failure message="Failed" type="">--- FAIL: TestSub</failure></testcase>
  </testsuite></testsuites>"""
NEXTEST = b"""<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="2" failures="1" errors="0" uuid="0" time="0.01">
  <testsuite name="sums" tests="2" disabled="0" errors="0" failures="1">
    <testcase name="tests::adds" classname="sums" time="0.003"></testcase>
    <testcase name="tests::subtracts" classname="sums" time="0.003">
      <failure message="assertion failed" type="test failure with exit code 101">thread</failure>
      <system-out>running 1 test <![CDATA[<failure>]]></system-out></testcase>
  </testsuite></testsuites>"""
SUREFIRE = b"""<?xml version="1.0" encoding="UTF-8"?>
<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" version="3.0" name="org.x.SumsTest"
  time="0.05" tests="3" errors="0" skipped="0" failures="0">
  <testcase name="adds" classname="org.x.SumsTest" time="0.01"/>
  <testcase name="flaky" classname="org.x.SumsTest"><flakyFailure message="once" type="x"/>
  </testcase>
  <testcase name="off" classname="org.x.SumsTest"><skipped/></testcase></testsuite>"""


@pytest.mark.parametrize(
    ("report", "cases"),
    [
        (
            PYTEST,
            {
                "pytest::tests.test_sums::test_adds": PASSED,
                "pytest::tests.test_sums::test_fails": FAILED,
                "pytest::tests.test_sums::test_skipped": SKIPPED,
                "pytest::tests.test_broken": ERROR,
                "pytest::tests.test_sums::test_twice": ERROR,
            },
        ),
        (JEST, {"sums::sums adds": PASSED, "sums::sums subtracts": FAILED}),
        (
            VITEST,
            {
                "src/sums.test.ts::sums > adds": PASSED,
                "src/sums.test.ts::sums > subtracts": FAILED,
            },
        ),
        (
            NODE,
            {
                "test::/work/broken.test.js": FAILED,
                "sums::test::adds": PASSED,
                "sums::inner::test::deep": PASSED,
                "sums::test::later": SKIPPED,
                "test::alone": PASSED,
            },
        ),
        (GOTESTSUM, {"example.com/sums::TestAdd": PASSED, "example.com/sums::TestSub": FAILED}),
        (NEXTEST, {"sums::tests::adds": PASSED, "sums::tests::subtracts": FAILED}),
        (
            SUREFIRE,
            {
                "org.x.SumsTest::adds": PASSED,
                "org.x.SumsTest::flaky": FAILED,
                "org.x.SumsTest::off": SKIPPED,
            },
        ),
    ],
    ids=["pytest", "jest", "vitest", "node", "gotestsum", "nextest", "surefire"],
)
def test_every_case_of_a_runner_is_read(report: bytes, cases: dict[str, Outcome]) -> None:
    found = gathered(read_junit(report))
    assert {name: case.outcome for name, case in found.cases.items()} == cases


def test_of_cases_that_share_a_name_the_worst_counts() -> None:
    found = gathered(read_junit(PYTEST))
    assert found.duplicates == {"pytest::tests.test_sums::test_twice": 2}
    assert "teardown" in found.cases["pytest::tests.test_sums::test_twice"].text


def test_a_fault_of_a_whole_suite_is_a_case() -> None:
    data = b'<testsuite name="all"><error message="could not start"/></testsuite>'
    (case,) = read_junit(data)
    assert (case.name, case.outcome, case.text) == ("all", ERROR, "could not start")


def nested(depth: int) -> bytes:
    return b"<testsuite>" * depth + b"</testsuite>" * depth


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no XML"),
        (b"<testsuite", "no XML"),
        (b"\xff\xfe\x00", "no XML"),
        (b"<html/>", "no report"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite name="&a;"/>', "document type"),
        (b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><testsuite/>', "document type"),
        (b'<testsuite name="&a;"/>', "no XML"),
        (nested(200), "deeper"),
        (b"<testsuite><testcase><testcase/></testcase></testsuite>", "within a case"),
        (b" " * (MAX_REPORT_BYTES + 1), "more than"),
        (b"<testsuite>" + b"<testcase/>" * 200_001 + b"</testsuite>", "cases"),
    ],
)
def test_what_is_no_report_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(UnreadableReport, match=problem):
        read_junit(data)


# --------------------------------------------------------------------------------------------- TAP

TAP = b"""TAP version 13
# Subtest: sums
    # Subtest: adds
    ok 1 - adds
      ---
      duration_ms: 0.4
      ...
    # Subtest: subtracts
    not ok 2 - subtracts
      ---
      error: 'expected 1'
      ...
    ok 3 - later # TODO
    1..3
not ok 1 - sums
ok 2 - alone
ok 3 no dash # SKIP not here
1..3
# tests 4
"""


def test_a_tap_report_with_subtests_is_read() -> None:
    found = gathered(read_tap(TAP))
    assert {name: case.outcome for name, case in found.cases.items()} == {
        "sums::adds": PASSED,
        "sums::subtracts": FAILED,
        "sums::later": SKIPPED,
        "sums": FAILED,
        "alone": PASSED,
        "no dash": SKIPPED,
    }
    assert "expected 1" in found.cases["sums::subtracts"].text


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no plan"),
        (b"ok 1 - a\n", "no plan"),
        (b"1..2\nok 1 - a\n", "1 of 2"),
        (b"1..1\nok 1 - a\nok 2 - b\n", "2 of 1"),
        (b"ok 1 - a\nBail out! no database\n", "given up"),
        (b"# Subtest: x\n    ok 1 - a\nok 1 - x\n1..1\n", "no plan in 'x'"),
        (b"1..1\n1..1\nok 1\n", "two plans"),
    ],
)
def test_a_tap_run_that_was_cut_short_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(UnreadableReport, match=problem):
        read_tap(data)
