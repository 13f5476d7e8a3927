"""Projects in other languages, begun by `init`: what it wrote is developed from as it stands.

The specification, the gate and the workflow are those of the scaffold; nothing but the agent is
named. They take a compiler or a runner of tests at each gate, so they are tried in a soak.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.support.own_project import OwnProject, Steps, require_jail
from tests.support.repositories import plain_git
from tests.support.soak import SOAKING

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not SOAKING, reason="compilers run at each gate; AGENTFORGE_SOAK=1"),
]

RUST: Final = {
    "Cargo.toml": '[package]\nname = "my-app"\nversion = "0.1.0"\nedition = "2021"\n',
    "src/lib.rs": "pub fn one() -> u32 {\n    1\n}\n",
    "tests/one.rs": "#[test]\nfn one_is_one() {\n    assert_eq!(my_app::one(), 1);\n}\n",
    ".gitignore": "target/\nCargo.lock\n",
}
RUST_TESTS: Final = """\
use my_app::greeting::{greet, NoName};

#[test]
fn ac_01_ada_is_greeted() {
    assert_eq!(greet("Ada").unwrap(), "Hello, Ada!");
}

#[test]
fn ac_02_blanks_are_left_out() {
    assert_eq!(greet(" Ada ").unwrap(), "Hello, Ada!");
}

#[test]
fn ac_03_a_blank_name_is_none() {
    assert!(matches!(greet(" "), Err(NoName)));
}
"""
RUST_CODE: Final = """\
//! Greets people by name.

/// The name is blank.
#[derive(Debug)]
pub struct NoName;

impl std::fmt::Display for NoName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the name is blank")
    }
}

impl std::error::Error for NoName {}

pub fn greet(name: &str) -> Result<String, NoName> {
    let name = name.trim();
    if name.is_empty() {
        return Err(NoName);
    }
    Ok(format!("Hello, {name}!"))
}
"""
RUST_STEPS: Final = {
    "red-1": {"tests/greeting.rs": RUST_TESTS},
    "green-1": {
        "src/greeting.rs": RUST_CODE,
        "src/lib.rs": f"pub mod greeting;\n\n{RUST['src/lib.rs']}",
    },
    "refactor-1": {"src/greeting.rs": RUST_CODE.replace("pub fn", "/// A greeting.\npub fn")},
}
SCRIPT: Final = {
    "package.json": '{"name": "x", "type": "module", "scripts": {"test": "node --test"}}\n',
    "one.js": "export const one = 1\n",
    "test/one.test.js": (
        "import assert from 'node:assert'\nimport test from 'node:test'\n"
        "import { one } from '../one.js'\ntest('one', () => assert.equal(one, 1))\n"
    ),
}
SCRIPT_TESTS: Final = """\
import assert from 'node:assert'
import test from 'node:test'

const load = async () => (await import('../greeting.js')).greet

test('AC-01: Ada is greeted', async () => {
  assert.equal((await load())('Ada'), 'Hello, Ada!')
})
test('AC-02: blanks are left out', async () => {
  assert.equal((await load())(' Ada '), 'Hello, Ada!')
})
test('AC-03: a blank name throws', async () => {
  const greet = await load()
  assert.throws(() => greet(' '), RangeError)
})
"""
SCRIPT_CODE: Final = """\
export function greet (name) {
  const plain = name.trim()
  if (!plain) throw new RangeError('the name is blank')
  return `Hello, ${plain}!`
}
"""
SCRIPT_STEPS: Final = {
    "red-1": {"test/greeting.test.js": SCRIPT_TESTS},
    "green-1": {"greeting.js": SCRIPT_CODE},
    "refactor-1": {"greeting.js": f"/** Greets people. */\n{SCRIPT_CODE}"},
}
KINDS: Final = {
    "rust": (
        "cargo",
        RUST,
        RUST_STEPS,
        ["A  src/greeting.rs", "A  tests/greeting.rs", "M  src/lib.rs"],
    ),
    "javascript": ("node", SCRIPT, SCRIPT_STEPS, ["A  greeting.js", "A  test/greeting.test.js"]),
}


def begun(folder: Path, files: Mapping[str, str]) -> OwnProject:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    plain_git(folder, "init", "-q", "-b", "main")
    project = OwnProject(folder, {})
    assert project.agentforge("init")["changed"]
    plain_git(folder, "add", "-A")
    plain_git(folder, "commit", "-q", "-m", "begin")
    return project


@pytest.mark.parametrize("mode", ["answer", "edit"])
@pytest.mark.parametrize("language", list(KINDS))
def test_what_init_wrote_is_developed_from_as_it_stands(
    tmp_path: Path, language: str, mode: str
) -> None:
    program, files, steps, staged = KINDS[language]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    require_jail()
    project = begun(tmp_path / "project", files)
    assert project.agentforge("run")["state"] == "completed"
    developed(project, mode, steps)
    assert project.staged() == staged


def developed(project: OwnProject, mode: str, steps: Steps) -> None:
    specification = (project.checkout / ".agentforge/specs/greeting.yaml").read_text()
    session_id = project.develop(mode, specification, steps)
    assert project.staged() == []
    project.agentforge("apply", session_id)
