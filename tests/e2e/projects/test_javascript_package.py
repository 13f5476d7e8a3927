"""A feature of a JavaScript package of the index, developed in its own repository.

`safe-regex2` has a dependency in `node_modules`, and tests for Node's own runner.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.support.index_packages import IndexPackage
from tests.support.own_project import OwnProject, Steps, require_jail
from tests.support.soak import SOAKING

pytestmark = pytest.mark.timeout(600)

PACKAGE: Final = IndexPackage(
    "safe-regex2@5.1.2",
    "safe-regex2-5.1.2.tgz",
    "e102fe1f7a3389fc124862eed458fa49decab642ee208c6d24115f45a78619de",
)
DEPENDENCY: Final = IndexPackage(
    "ret@0.5.0",
    "ret-0.5.0.tgz",
    "4a990f0113ddcbc04d77b279730659ccfe5e5d700d014fc584bb09a9f50dff61",
)
OWN_TESTS: Final = ("node", "--test")
GATE: Final = ("--gate", "node --test --test-reporter=tap", "--report", "tap")
SPECIFICATION: Final = """\
schema_version: 1
metadata: {spec_id: star-height, title: Star height, version: "1.0.0", status: approved}
components:
  - component_id: star_height
    location: index.js
    other_files: [types/index.d.ts]
    tests: ["test/star-height*.test.js"]
    description: How deep repetitions are nested in a regular expression.
    entities:
      - name: safeRegex.starHeight
        kind: function
        methods:
          - name: starHeight
            signature: "(re: string | RegExp): number"
            raises: [SyntaxError]
    acceptance_criteria:
      - {id: AC-01, text: The star height of /(x+x+)+y/ is 2 and of /abc/ 0.}
      - {id: AC-02, text: What is no regular expression throws a SyntaxError.}
"""
TESTS: Final = """\
'use strict'

const safe = require('../')
const { test } = require('node:test')

test('AC-01: star height counts nested repetitions', t => {
  t.assert.strictEqual(safe.starHeight(/(x+x+)+y/), 2)
  t.assert.strictEqual(safe.starHeight('abc'), 0)
})

test('AC-02: what is no regular expression throws a SyntaxError', t => {
  t.assert.throws(() => safe.starHeight('*'), { name: 'SyntaxError' })
})
"""
FEATURE: Final = """\
/**
 * @param {string|RegExp} re - The regular expression
 * @returns {number} - How deep its repetitions are nested
 * @throws {SyntaxError} - It is none
 */
function starHeight (re) {
  return heightOf(parse(isRegExp(re) ? re.source : String(re)))
}

function heightOf (node) {
  const below = [...(node.options || node.value?.options || [])].map(stack => heightOf({ stack }))
  const inside = (node.stack || node.value?.stack || []).map(heightOf)
  const own = node.type === types.REPETITION ? 1 : 0
  const repeated = node.type === types.REPETITION ? [heightOf(node.value)] : []
  return own + Math.max(0, ...repeated, ...(own ? [] : below), ...(own ? [] : inside))
}

"""
EXPORTS: Final = "module.exports = safeRegex\n"


def steps(package: Path) -> Steps:
    code = (package / "index.js").read_text()
    types = (package / "types" / "index.d.ts").read_text()
    done = code.replace(EXPORTS, f"{FEATURE}{EXPORTS}") + "module.exports.starHeight = starHeight\n"
    declared = types.replace(
        "  export const safeRegex: SafeRegex2\n",
        "  export const safeRegex: SafeRegex2\n"
        "  export function starHeight (re: string | RegExp): number\n",
    )
    return {
        "red-1": {"test/star-height.test.js": TESTS},
        "green-1": {"index.js": done, "types/index.d.ts": declared},
        "refactor-1": {
            "index.js": done.replace(
                "function heightOf (", "/** Recursive. */\nfunction heightOf ("
            )
        },
    }


@pytest.fixture
def project(tmp_path: Path) -> OwnProject:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    require_jail()
    checkout = PACKAGE.extracted(tmp_path / "safe-regex2")
    (checkout / "node_modules").mkdir()
    DEPENDENCY.extracted(checkout / "node_modules" / "ret")
    return OwnProject.begun(
        checkout,
        configuration='[project]\nlanguage = "javascript"\n[jail]\nmounts = ["node_modules"]\n',
        ignored=["node_modules/"],
    )


@pytest.mark.parametrize("mode", ["answer", "edit"] if SOAKING else ["edit"])
def test_a_feature_comes_home_and_the_packages_tests_pass(project: OwnProject, mode: str) -> None:
    before = project.run([*OWN_TESTS, "test/regex.test.js"])
    assert "# pass 4" in before.stdout, before.stdout + before.stderr

    session_id = project.develop(mode, SPECIFICATION, steps(project.checkout), *GATE)

    assert project.staged() == []
    shown = project.agentforge("diff", session_id)
    assert {one["path"] for one in shown["files"]} == {
        "index.js",
        "types/index.d.ts",
        "test/star-height.test.js",
    }
    project.agentforge("apply", session_id)
    assert project.staged() == [
        "A  test/star-height.test.js",
        "M  index.js",
        "M  types/index.d.ts",
    ]
    after = project.run([*OWN_TESTS, "test/regex.test.js", "test/star-height.test.js"])
    assert after.returncode == 0, after.stdout
    assert "# pass 6" in after.stdout
