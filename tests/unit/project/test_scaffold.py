"""What `init` writes, and what it leaves alone."""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from pathlib import Path

import pytest

from agentforge_sessions.base.files import WriteError
from agentforge_sessions.base.settings.beginnings.scaffold import (
    CHECKS,
    SPECIFICATION,
    WORKFLOW,
    Scaffold,
    ScaffoldAction,
    ScaffoldRefused,
    begin_project,
)
from agentforge_sessions.base.settings.beginnings.scaffold_content import with_ignored
from agentforge_sessions.base.settings.configuration import load_configuration
from agentforge_sessions.wiring.bootstrap import configured_jail
from agentforge_sessions.workflows import load_workflow
from agentforge_sessions.workflows.documents.specification_document import load_specification
from tests.support.filesystem import FaultyFileSystem, every_call_from
from tests.support.trusting import trusted

LINES = b"/.agentforge/sessions/\n/.agentforge/questions/\n"
CONFIG = ".agentforge/config.toml"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return root


def changes(done: Scaffold) -> dict[str, ScaffoldAction]:
    return {one.path: one.change for one in done.files}


def everything(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_what_is_written_can_be_used_as_it_is(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTFORGE_CONFIG", raising=False)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "uv.lock").write_text("")
    (root / "src").mkdir()
    done = begin_project(root)
    assert set(changes(done).values()) == {ScaffoldAction.WRITTEN}
    monkeypatch.chdir(root)
    trusted(root)
    configuration = load_configuration()
    assert configuration.project == done.detected.facts
    assert configuration.project.test == "uv run pytest -q"
    assert configuration.context.enabled
    assert configuration.run.workflow is not None
    assert load_workflow(configuration.run.workflow).name == "hello"
    assert load_specification(SPECIFICATION).components[0].component_id == "greeting"
    assert (root / ".gitignore").read_bytes() == LINES
    assert load_workflow(WORKFLOW).phases


def test_what_is_written_as_a_comment_can_be_used_too(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENTFORGE_CONFIG", raising=False)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    begin_project(root)
    monkeypatch.chdir(root)
    key = re.compile(r"# (\[|[a-z_]+ = )")
    lines = (root / CONFIG).read_text().splitlines()
    used = [line[2:] if key.match(line) and "…" not in line else line for line in lines]
    (root / CONFIG).write_text("\n".join(used))
    trusted(root)
    found = load_configuration()
    assert found.repository.use
    assert (found.repository.base, found.gate.report_path) == ("main", "reports/**/*.xml")
    assert found.gate.command == found.project.test == "pytest -q"
    assert found.jail.mounts == (".venv",)
    assert set(found.given) == {
        *("project", "sessions", "run", "context", "repository", "gate", "jail"),
    }
    policy = configured_jail(found, {"CI": "1"})
    assert policy is not None
    assert policy.mounts[0].source == root / ".venv"
    assert policy.environment == {"CI": "1"}


def test_an_empty_folder_without_a_repository_gets_no_gitignore(tmp_path: Path) -> None:
    root = tmp_path / "plain"
    root.mkdir()
    assert ".gitignore" not in changes(begin_project(root))
    assert not (root / ".gitignore").exists()
    tomllib.loads((root / CONFIG).read_text())


def test_a_second_run_changes_nothing(root: Path) -> None:
    begin_project(root)
    before = everything(root)
    again = begin_project(root)
    assert not again.changes_something
    assert set(changes(again).values()) == {ScaffoldAction.UNCHANGED}
    assert everything(root) == before


def test_what_a_person_changed_is_kept_without_force(root: Path) -> None:
    begin_project(root)
    (root / CONFIG).write_text("# mine\n")
    (root / CONFIG).chmod(0o640)
    again = begin_project(root)
    assert changes(again)[CONFIG] is ScaffoldAction.KEPT
    assert (root / CONFIG).read_text() == "# mine\n"
    forced = begin_project(root, force=True)
    assert changes(forced)[CONFIG] is ScaffoldAction.REPLACED
    assert "[project]" in (root / CONFIG).read_text()
    assert stat.S_IMODE((root / CONFIG).stat().st_mode) == 0o640


def test_a_dry_run_says_the_same_and_writes_nothing(root: Path) -> None:
    before = everything(root)
    planned = begin_project(root, dry_run=True)
    assert everything(root) == before
    assert not (root / ".agentforge").exists()
    assert begin_project(root) == planned


def test_files_of_a_person_are_readable_as_theirs_are(root: Path) -> None:
    (root / ".gitignore").write_bytes(b"dist/\n")
    (root / ".gitignore").chmod(0o664)
    begin_project(root)
    assert stat.S_IMODE((root / CONFIG).stat().st_mode) == 0o644
    assert stat.S_IMODE((root / ".gitignore").stat().st_mode) == 0o664


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", LINES),
        (b"dist/\n", b"dist/\n" + LINES),
        (b"dist/", b"dist/\n" + LINES),
        (b"a\r\nb", b"a\r\nb\r\n" + LINES.replace(b"\n", b"\r\n")),
        (b"\xff\xfe\n", b"\xff\xfe\n" + LINES),
        (b".agentforge/sessions/*\n", b".agentforge/sessions/*\n/.agentforge/questions/\n"),
    ],
)
def test_lines_are_added_in_the_files_own_way_and_once(before: bytes, after: bytes) -> None:
    assert with_ignored(before) == after
    assert with_ignored(after) == after


@pytest.mark.parametrize(
    "line", [".agentforge", "/.agentforge/", "**/.agentforge/", ".agentforge/*", ".agentforge/**"]
)
def test_a_line_that_covers_them_is_enough(line: str) -> None:
    content = f"{line}\n".encode()
    assert with_ignored(content) == content


@pytest.mark.parametrize("line", ["# .agentforge", "!.agentforge", "x.agentforge", ".agentforgex"])
def test_a_line_that_only_looks_like_it_is_not(line: str) -> None:
    assert with_ignored(f"{line}\n".encode()) == f"{line}\n".encode() + LINES


# ------------------------------------------------------------------------------------- attacks


def outside(tmp_path: Path) -> Path:
    victim = tmp_path / "outside"
    victim.mkdir()
    (victim / "file").write_text("precious\n")
    return victim


def test_a_gitignore_that_is_a_link_is_left_alone_and_said(root: Path, tmp_path: Path) -> None:
    victim = outside(tmp_path)
    (root / ".gitignore").symlink_to(victim / "file")
    (planned,) = (one for one in begin_project(root).files if one.path == ".gitignore")
    assert planned.change is ScaffoldAction.REFUSED
    assert planned.reason is not None
    assert "/.agentforge/sessions/" in planned.reason
    assert everything(victim) == {"file": b"precious\n"}


@pytest.mark.parametrize("place", [".agentforge", ".agentforge/specs", ".agentforge/workflows"])
def test_a_folder_that_is_a_link_is_refused_before_anything_is_written(
    root: Path, tmp_path: Path, place: str
) -> None:
    victim = outside(tmp_path)
    (root / place).parent.mkdir(exist_ok=True)
    (root / place).symlink_to(victim)
    with pytest.raises(ScaffoldRefused, match="symbolic link"):
        begin_project(root, force=True)
    assert everything(victim) == {"file": b"precious\n"}
    assert not (root / ".gitignore").exists()


@pytest.mark.parametrize("kind", ["link", "fifo", "folder"])
def test_another_thing_where_the_configuration_belongs_is_refused(
    root: Path, tmp_path: Path, kind: str
) -> None:
    victim = outside(tmp_path)
    (root / ".agentforge").mkdir()
    if kind == "link":
        (root / CONFIG).symlink_to(victim / "file")
    elif kind == "fifo":
        os.mkfifo(root / CONFIG)
    else:
        (root / CONFIG).mkdir()
    with pytest.raises(ScaffoldRefused, match="a link or another thing"):
        begin_project(root, force=True)
    assert everything(victim) == {"file": b"precious\n"}


def test_a_folder_that_is_not_there_or_none_is_refused(root: Path) -> None:
    with pytest.raises(ScaffoldRefused, match="there is no such folder"):
        begin_project(root / "nowhere")
    (root / "file").write_text("")
    with pytest.raises(ScaffoldRefused, match="it is no folder"):
        begin_project(root / "file")


def test_a_link_to_the_folder_itself_is_the_persons_own(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert begin_project(tmp_path / "link").folder == root
    assert (root / CONFIG).is_file()


def test_a_run_that_fails_anywhere_leaves_whole_files_and_is_finished_by_the_next(
    tmp_path: Path,
) -> None:
    reference = tmp_path / "reference"
    reference.mkdir()
    begin_project(reference)
    wanted = everything(reference)
    number = 0
    while True:
        root = tmp_path / str(number)
        root.mkdir()
        fs = FaultyFileSystem(plan=every_call_from(number, errno.ENOSPC))
        try:
            begin_project(root, fs=fs)
        except (WriteError, ScaffoldRefused, OSError):
            pass
        else:
            break
        left = everything(root)
        assert {name: wanted.get(name) for name in left if ".new-" not in name} == {
            name: data for name, data in left.items() if ".new-" not in name
        }
        begin_project(root)
        assert {n: d for n, d in everything(root).items() if ".new-" not in n} == wanted
        number += 1
    assert number > 20


@pytest.mark.parametrize(
    ("files", "place", "tests", "command", "report", "described"),
    [
        (
            {"package.json": '{"scripts": {"test": "node --test"}}'},
            *("greeting.js", "test/greeting.test.js"),
            *("env NODE_OPTIONS=--test-reporter=tap npm test", "tap", "a CommonJS module"),
        ),
        (
            {
                "package.json": '{"type": "module", "devDependencies": {"mocha": "1"}}',
                "src/x.js": "",
                "tests/x": "",
            },
            *("src/greeting.js", "tests/greeting.test.js"),
            *("npx --no -- mocha --reporter=tap", "tap", "an ES module, tested with mocha"),
        ),
        (
            {"package.json": '{"scripts": {"test": "vitest run"}}', "tsconfig.json": "{}"},
            *("greeting.ts", "test/greeting.test.ts"),
            "npm test -- --run --reporter=junit --outputFile=agentforge-report.xml",
            *("junit", "vitest"),
        ),
        (
            {"package.json": '{"scripts": {"test": "jest"}, "devDependencies": {"jest": "1"}}'},
            *("greeting.js", "test/greeting.test.js"),
            *("npm test -- --watchAll=false", "exit-code", "jest"),
        ),
        (
            {"package.json": '{"scripts": {"test": "jest"}, "dependencies": {"jest-junit": ""}}'},
            *("greeting.js", "test/greeting.test.js"),
            *("npm test -- --watchAll=false --reporters=jest-junit", "junit", "jest"),
        ),
        (
            {"package.json": '{"scripts": {"test": "tsc && c8 mocha --recursive out"}}'},
            *("greeting.js", "test/greeting.test.js"),
            *("npm test -- --reporter=tap", "tap", "mocha"),
        ),
        (
            {"package.json": '{"scripts": {"test": "vitest run && eslint ."}}'},
            *("greeting.js", "test/greeting.test.js"),
            "npx --no -- vitest --run --reporter=junit --outputFile=agentforge-report.xml",
            *("junit", "vitest"),
        ),
        (
            {"package.json": '{"scripts": {"test": "node --test --test-reporter=dot"}}'},
            *("greeting.js", "test/greeting.test.js", "npm test", "exit-code", "`npm test`"),
        ),
        (
            {"package.json": '{"scripts": {"test": "./check"}}', "yarn.lock": ""},
            *("greeting.js", "test/greeting.test.js", "yarn test", "exit-code", "`yarn test`"),
        ),
        (
            {"Cargo.toml": '[package]\nname = "my-app"\n', "src/main.rs": ""},
            *("src/greeting.rs", "tests/greeting.rs", "cargo test --offline", "exit-code"),
            "my_app::greeting",
        ),
        (
            {
                "Cargo.toml": '[workspace]\nmembers = ["crates/*"]\n',
                "crates/a/Cargo.toml": '[package]\nname = "a"\n[lib]\nname = "other"\n',
            },
            *("crates/a/src/greeting.rs", "crates/a/tests/greeting.rs", "cargo test --offline"),
            *("exit-code", "other::greeting"),
        ),
        (
            {"go.mod": "module example.org/x/y\n\ngo 1.22\n"},
            *("greeting/greeting.go", "greeting/greeting_test.go", "go test ./...", "exit-code"),
            "example.org/x/y/greeting",
        ),
    ],
    ids=[
        *("node", "mocha", "vitest", "jest", "jest-junit", "built", "linted", "reporter", "yarn"),
        *("rust", "workspace", "go"),
    ],
)
def test_another_language_begins_with_what_fits_it(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    place: str,
    tests: str,
    command: str,
    report: str,
    described: str,
) -> None:
    monkeypatch.delenv("AGENTFORGE_CONFIG", raising=False)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    begin_project(root)
    (component,) = load_specification(root / SPECIFICATION).components
    assert (component.location, component.tests) == (place, (tests,))
    assert not component.is_python
    assert described in (component.description or "")
    monkeypatch.chdir(root)
    trusted(root)
    found = load_configuration()
    assert (found.gate.command, found.gate.report) == (command, report)
    assert found.repository.use
    assert found.run.workflow is not None
    assert load_workflow(found.run.workflow).isolation == "jail"
    assert "hello" not in {path.name for path in (root / ".agentforge" / "workflows").iterdir()}


def test_a_project_of_no_known_language_is_checked_by_make_and_begins_without_python(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENTFORGE_CONFIG", raising=False)
    (root / "makefile").write_text("test:\n\tcc one.c\n")
    begin_project(root)
    written = everything(root)
    assert set(written) == {".git/HEAD", ".gitignore", "makefile", CHECKS, CONFIG}
    assert "plain code" in written[CONFIG].decode()
    assert not [line for line in written[CONFIG].decode().splitlines() if ".py" in line]
    monkeypatch.chdir(root)
    trusted(root)
    found = load_configuration()
    assert (found.gate.command, found.gate.report) == ("make test", "exit-code")
    assert found.project.language == "other"


def test_a_python_project_begins_where_its_layout_says(root: Path) -> None:
    (root / "pyproject.toml").write_text("")
    (root / "src" / "books").mkdir(parents=True)
    (root / "test").mkdir()
    begin_project(root)
    (component,) = load_specification(root / SPECIFICATION).components
    assert (component.location, component.tests) == ("src/greeting.py", ("test/test_greeting.py",))


def test_the_dependencies_that_are_there_are_shown_to_commands(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENTFORGE_CONFIG", raising=False)
    (root / "pyproject.toml").write_text("")
    (root / ".venv").mkdir()
    (root / ".venv" / "pyvenv.cfg").write_text("")
    begin_project(root)
    monkeypatch.chdir(root)
    trusted(root)
    assert load_configuration().jail.mounts == (".venv",)
    (root / "pyproject.toml").unlink()
    (root / "package.json").write_text("{}")
    (root / "node_modules").mkdir()
    begin_project(root, force=True)
    trusted(root)
    assert load_configuration().jail.mounts == ("node_modules",)


def test_a_name_that_is_none_is_not_written_into_a_specification(root: Path) -> None:
    (root / "Cargo.toml").write_text('[package]\nname = "a]\\n: {"\n')
    begin_project(root)
    (component,) = load_specification(root / SPECIFICATION).components
    assert "crate::greeting" in (component.description or "")


def test_without_a_repository_the_first_workflow_is_one_for_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n")
    done = begin_project(tmp_path)
    assert not done.in_repository
    assert load_workflow(tmp_path / WORKFLOW).isolation != "jail"
    assert not (tmp_path / CHECKS).exists()
