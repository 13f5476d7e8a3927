"""What the commands show an agent of the project, list before they ask it, and keep."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.cli.context import CliEnvironment
from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.entrypoints.cli.output.errors import ExitCode
from agentforge_sessions.harness import SessionStore
from agentforge_sessions.harness.store.sessions_place import sessions_directory
from agentforge_sessions.workflows.job import AgentWork
from tests.support.agents import GOOD, SPEC, FakeGates
from tests.support.repositories import commit_all, plain_git, write_files
from tests.support.trusting import trusted
from tests.unit.cli.conftest import Ended

Command = Callable[..., Ended]
CONFIG = """\
[project]
language = "python"
source = "src"
[context]
max_tokens = 3000
files = ["src/model.py"]
role = "You are a careful engineer."
rules = "rules.md"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a configuration, a specification and recorded answers."""
    for variable in ("AGENTFORGE_BASE", "AGENTFORGE_CONFIG", "AGENTFORGE_QUESTIONS"):
        monkeypatch.delenv(variable, raising=False)
    root = tmp_path / "project"
    for name, text in {
        ".agentforge/config.toml": CONFIG,
        "src/model.py": "class Model: ...\n",
        "src/other.py": "class Other: ...\n",
        "rules.md": "Never use magic.\n",
        "AGENTS.md": "Be brief.\n",
        ".env": "TOKEN=only-for-the-owner\n",
        "spec.yaml": SPEC,
        **{f"recorded/{phase}-1.md": text for phase, (text,) in GOOD.items()},
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    trusted(root)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def agentforge(capsys: pytest.CaptureFixture[str]) -> Command:
    def command(*words: str) -> Ended:
        code = run(words, CliEnvironment(gates=FakeGates(), monotonic=lambda: 0.0))
        out, err = capsys.readouterr()
        return Ended(code, out, err)

    return command


def test_what_is_sent_is_listed_first_and_is_in_every_prompt(
    project: Path, agentforge: Command
) -> None:
    done = agentforge(
        "run", "tdflow", "spec.yaml", "--agent", "recorded:recorded", "--context", ".*"
    )
    assert done.code == 0, done.err
    lines = done.err.splitlines()
    assert lines[0].startswith(f"Sent to the agent with each prompt, of {project} (at most ")
    listed = [tuple(line.split()[:2]) for line in lines[1:7]]
    assert listed[:4] == [
        ("about", "project"),
        ("rules", "rules"),
        ("guide", "AGENTS.md"),
        ("file", "src/model.py"),
    ]
    assert "  .env: looks like a secret" in lines
    store = SessionStore()
    (session_id,) = store.list_sessions()
    prompts = sorted((store.session_path(session_id).parent).rglob("*prompt*"))
    assert len(prompts) >= 3
    for prompt in prompts:
        text = json.loads(prompt.read_text())["prompt"]
        for words in ("# Role\n\nYou are a careful engineer.", "Never use magic.", "class Model:"):
            assert words in text
        assert "only-for-the-owner" not in text
    assert "Never use magic." in (AgentWork.of_session(store, session_id).context or "")


def test_a_dry_run_shows_it_with_its_tokens_and_begins_nothing(
    project: Path, agentforge: Command
) -> None:
    planned = agentforge("run", "tdflow", "spec.yaml", "--dry-run", "--json")
    assert planned.code == 0, planned.err
    document = planned.document
    assert document["phase"] == "red"
    assert document["prompt_tokens"] > document["context"]["tokens"] > 0
    assert document["context"]["tokens"] <= 3000
    assert "Never use magic." in document["prompt"]
    assert document["agent"] is None
    shown = agentforge(
        "run", "tdflow", "spec.yaml", "--dry-run", "--agent", "recorded:recorded"
    ).out
    assert "Nothing was sent, and no session was begun." in shown
    assert f"takes at most {document['prompt_tokens']:,} tokens" in shown
    assert SessionStore().list_sessions() == []


def test_options_add_files_and_beat_role_and_rules(
    project: Path, agentforge: Command, tmp_path: Path
) -> None:
    (tmp_path / "other.md").write_text("Use magic.\n")
    document = agentforge(
        *("run", "spec", "ledger", "--dry-run", "--json", "--context", "src/other.py"),
        *("--role", "You are quick.", "--rules", str(tmp_path / "other.md")),
    ).document
    prompt = document["prompt"]
    assert prompt.startswith("# Role\n\nYou are quick.")
    assert "class Other" in prompt
    assert "class Model" in prompt
    assert "\nUse magic." in prompt
    assert "Never" not in prompt


def test_the_specification_names_files_too(project: Path, agentforge: Command) -> None:
    (project / ".agentforge" / "config.toml").unlink()
    text = SPEC.replace(
        "    location: adder.py\n", "    location: adder.py\n    context: [src/*]\n"
    )
    assert text != SPEC
    (project / "spec.yaml").write_text(text)
    document = agentforge("run", "tdflow", "spec.yaml", "--dry-run", "--json").document
    assert [(one["kind"], one["name"]) for one in document["context"]["parts"]] == [
        ("file", "src/model.py"),
        ("file", "src/other.py"),
    ]
    (project / "spec.yaml").write_text(text.replace("src/*", "../x"))
    refused = agentforge("run", "tdflow", "spec.yaml", "--dry-run")
    assert refused.code == 7
    assert "'../x' leads out of the project" in refused.err


def test_without_any_word_of_it_nothing_of_the_project_is_sent(
    project: Path, agentforge: Command
) -> None:
    (project / ".agentforge" / "config.toml").unlink()
    planned = agentforge("run", "tdflow", "spec.yaml", "--dry-run")
    assert "Nothing of the project is sent." in planned.out
    assert (
        agentforge("run", "tdflow", "spec.yaml", "--dry-run", "--json").document["context"] is None
    )
    trusted(project, "[context]\nenabled = false\n")
    assert (
        "Nothing of the project is sent."
        in agentforge("run", "tdflow", "spec.yaml", "--dry-run").out
    )


@pytest.fixture
def repository(project: Path) -> Path:
    """The project as a repository, in which a file has changed since it was committed."""
    write_files(project, {".gitignore": ".agentforge/sessions\n", "lib.py": "UNASKED = 1\n"})
    plain_git(project, "init", "-q", "-b", "main")
    commit_all(project, "begin")
    (project / "src" / "model.py").write_text("class Changed: ...\n")
    return project


def test_of_a_repository_the_prompt_shows_what_the_session_begins_with(
    repository: Path, agentforge: Command
) -> None:
    planned = agentforge(
        "run", "tdflow", "spec.yaml", "--dry-run", "--json", "--repo", "."
    ).document
    assert f"{repository} at HEAD (" in planned["context"]["folder"]
    assert "class Model" in planned["prompt"]
    assert "class Changed" not in planned["prompt"]
    both = agentforge(
        "run", "tdflow", "spec.yaml", "--dry-run", "--repo", ".", "--with-uncommitted"
    )
    assert "with what is not committed" in both.out
    changed = agentforge(
        *("run", "tdflow", "spec.yaml", "--dry-run", "--json", "--repo", ".", "--with-uncommitted")
    ).document
    assert "class Changed" in changed["prompt"]
    assert SessionStore().list_sessions() == []
    write_files(repository, {"adder.py": "def add(): ...\n"})
    commit_all(repository, "more")
    there = agentforge("run", "tdflow", "spec.yaml", "--dry-run", "--json", "--repo", ".").document
    assert "def add(): ..." in there["prompt"], "the file that is to be written is there already"


def test_of_a_repository_prompts_show_what_the_job_is_about_and_the_context(
    repository: Path, agentforge: Command
) -> None:
    done = agentforge("run", "tdflow", "spec.yaml", "--agent", "recorded:recorded", "--repo", ".")
    assert done.code == 0, done.err
    assert f"of {repository} at HEAD (" in done.err
    store = SessionStore(sessions_directory(repository))
    (session_id,) = store.list_sessions()
    assert (store.workspace_path(session_id) / "lib.py").read_text() == "UNASKED = 1\n"
    prompts = sorted(store.session_path(session_id).parent.rglob("*prompt*"))
    texts = [json.loads(path.read_text())["prompt"] for path in prompts]
    assert all("class Model" in text for text in texts)
    assert not any("UNASKED" in text or "class Changed" in text for text in texts)
    assert "test_adder.py" in texts[-1].partition("# Files")[2]


def test_the_configured_gate_is_taken_and_said(project: Path, agentforge: Command) -> None:
    trusted(project, CONFIG + "[gate]\ncommand = 'no-such-program -q'\nreport = 'tap'\n")
    done = agentforge("run", "tdflow", "spec.yaml", "--agent", "recorded:recorded")
    assert "Gate, as .agentforge/config.toml says: no-such-program -q" in done.err
    assert done.code == ExitCode.SANDBOX, done.err
    assert SessionStore().list_sessions() == []
    sandbox = agentforge(
        "run", "tdflow", "spec.yaml", "--agent", "recorded:recorded", "--gate", "sandbox"
    )
    assert sandbox.code == 0, sandbox.err
    trusted(project, CONFIG + '[gate]\ncommand = "\'"\n')
    refused = agentforge("run", "tdflow", "spec.yaml", "--dry-run")
    assert refused.code == 2
    assert "[gate] in .agentforge/config.toml" in refused.err
    alone = agentforge(
        "run", "tdflow", "spec.yaml", "--dry-run", "--gate", "sandbox", "--report", "tap"
    )
    assert alone.code == 2


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("--context", "../x"), "no glob inside the project"),
        (("--context", "/etc/*"), "no glob inside the project"),
        (("--rules", "nowhere.md"), "nowhere.md can't be read"),
        (("--role", " "), "the role is empty"),
    ],
)
def test_what_can_not_be_used_is_refused_before_anything_is_begun(
    project: Path, agentforge: Command, words: tuple[str, ...], fault: str
) -> None:
    done = agentforge("run", "tdflow", "spec.yaml", "--agent", "recorded:recorded", *words)
    assert done.code == 2
    assert fault in done.err
    assert SessionStore().list_sessions() == []


def test_rules_that_do_not_fit_are_refused(project: Path, agentforge: Command) -> None:
    (project / "rules.md").write_text("Be careful.\n" * 2000)
    trusted(project)
    done = agentforge("run", "tdflow", "spec.yaml", "--dry-run")
    assert done.code == 2
    assert "the rules take more than the 3,000 tokens" in done.err
