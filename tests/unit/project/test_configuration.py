"""The project's configuration file: strict, found upwards, each fault with its line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attrs import asdict

from agentforge_sessions.base.settings.configuration import Configuration, load_configuration
from agentforge_sessions.base.settings.configuration_file import SECTIONS, InvalidConfiguration
from agentforge_sessions.questions import InvalidConfig, load_config
from tests.support.trusting import PERSON, trusted

WHOLE = """\
[project]
language = "python"
package_manager = "uv"
source = "src"
tests = ["tests", "more/tests"]
test = "uv run pytest -q"
[sessions]
directory = "elsewhere"
[run]
workflow = "flow.yaml"
agent = "claude -p"
agent_timeout_s = 60
max_output = 9000
agent_mode = "edit"
agent_network = true
agent_environment = ["API_KEY"]
isolation = "jail"
[context]
files = ["src/**/*.py"]
max_tokens = 3000
tree = false
guides = ["GUIDE.md"]
role = "You are careful."
rules = "docs/rules.md"
[briefing]
shows = ["metadata"]
[repository]
use = true
path = "below"
base = "main"
with_uncommitted = true
[gate]
command = "uv run pytest -q"
report = "tap"
report_path = "build/report.xml"
timeout_s = 600.5
[jail]
read = ["/opt/toolchain", "vendor"]
mounts = [".venv", "node_modules"]
network = true
environment = ["LANG"]
timeout_s = 5
memory_bytes = 1073741824
processes = 64
[agents]
create = false
token_budget = 5000
gate = true
gate_rounds = 7
[privacy]
transcripts = "references"
[store]
url = "postgresql://agents@db/agents"
direct = "postgresql://agents@primary/agents"
objects = "s3://bucket"
cache_bytes = 10000000000
[questions]
max_sessions = 5
[notify]
bell = false
[[webhooks]]
name = "team"
url = "http://hooks.example/agents"
events = ["phase.*"]
secret_env = "HOOK_SECRET"
timeout_s = 3
kept_s = 60
allow_http = true
[[webhooks]]
url_env = "HOOK_URL"
[[observers]]
plugin = "pager"
level = 3
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is the working directory."""
    monkeypatch.delenv("AGENTFORGE_CONFIG", raising=False)
    root = tmp_path / "project"
    (root / ".agentforge").mkdir(parents=True)
    monkeypatch.chdir(root)
    return root


def write(root: Path, text: str) -> Path:
    (root / "docs").mkdir(exist_ok=True)
    (root / "docs" / "rules.md").write_text("Be careful.\n")
    return trusted(root, text)


def faults_of(root: Path, text: str) -> list[str]:
    write(root, text)
    with pytest.raises(InvalidConfiguration) as caught:
        load_configuration()
    return list(caught.value.faults)


def test_without_a_file_everything_is_the_default(project: Path) -> None:
    assert load_configuration() == Configuration()


def test_every_key_is_read_and_differs_from_its_default(project: Path) -> None:
    write(project, WHOLE)
    found, default = asdict(load_configuration()), asdict(Configuration())
    for section in (
        "project",
        "run",
        "context",
        "briefing",
        "repository",
        "gate",
        "jail",
        "agents",
        "store",
    ):
        for key, value in found[section].items():
            assert value != default[section][key], (section, key)
    first, second = found["webhooks"]
    for key, value in first.items():
        assert value != second[key], key
    assert found["observers"] == (("pager", {"level": 3}),)
    assert found["sessions"] == Path("elsewhere")
    assert set(found["given"]) == set(SECTIONS)
    assert found["jail"]["read"] == (Path("/opt/toolchain"), Path("vendor"))
    assert load_config(environment=PERSON).questions.max_sessions == 5


def test_all_faults_are_told_at_once_in_the_order_of_the_file(project: Path) -> None:
    assert faults_of(
        project,
        "[contxt]\n"
        "[context]\n"
        'files = ["a", 3,\n  "../x"]\n'
        "max_token = 5\n"
        "max_tokens = 5\n"
        "\n"
        'text = """\nmax_tokens = 1\n"""\n'
        "[jail]\n"
        'network = "yes"\n'
        'environment = ["A=b"]\n'
        "[run]\n"
        'isolation = "V M"\n'
        "max_output = true\n",
    ) == [
        "line 1: contxt: there is no such key; did you mean 'context'?",
        "line 3: context.files[1]: expected text, found 3",
        "line 3: context.files[2]: '../x' leads out of the project; write it relative, without ..",
        "line 5: context.max_token: there is no such key; did you mean 'max_tokens'?",
        "line 6: context.max_tokens: expected 100 to 500,000, found 5",
        "line 8: context.text: there is no such key; there are enabled, files, guides, max_tokens, "
        "role, rules, tree",
        "line 12: jail.network: expected true or false, found 'yes'",
        "line 13: jail.environment[0]: 'A=b' is no name; values are not taken",
        "line 15: run.isolation: 'V M' is no name of an executor, as sandbox or jail",
        "line 16: run.max_output: expected a whole number, found true",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [("[run]\nagent = \n", "line 2: "), ("a = 1\na = 2\n", "line 2: "), ("[run", "")],
)
def test_what_is_no_toml_says_where(project: Path, text: str, line: str) -> None:
    (fault,) = faults_of(project, text)
    assert fault.startswith(f"{line}it is no TOML: ")


def test_bytes_that_are_no_text_say_where(project: Path) -> None:
    (project / ".agentforge" / "config.toml").write_bytes(b"# one\n\xff\n")
    with pytest.raises(InvalidConfiguration, match="line 2: it is no TOML"):
        load_configuration()


@pytest.mark.parametrize("text", ["run = 3\n", "run = [1]\n", '"run" = "x"\n'])
def test_a_section_that_is_no_table_is_a_fault(project: Path, text: str) -> None:
    (fault,) = faults_of(project, text)
    assert fault.startswith("line 1: run: expected a table [run], found ")


def test_a_link_a_fifo_and_a_huge_file_are_refused(project: Path, tmp_path: Path) -> None:
    file = project / ".agentforge" / "config.toml"
    outside = tmp_path / "outside.toml"
    outside.write_text("[run]\n")
    file.symlink_to(outside)
    with pytest.raises(InvalidConfiguration, match="symbolic link"):
        load_configuration()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InvalidConfiguration, match="not a regular file"):
        load_configuration()
    file.unlink()
    file.write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(InvalidConfiguration, match="more than the limit"):
        load_configuration()


def test_the_nearest_file_above_counts_and_its_paths_are_the_projects(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, WHOLE)
    deep = project / "src" / "package"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    found = load_configuration()
    assert found.path == project / ".agentforge" / "config.toml"
    assert found.sessions == project / "elsewhere"
    assert found.run.workflow == project / "flow.yaml"
    assert found.context.rules == project / "docs/rules.md"
    assert found.repository.path == project / "below"
    assert found.jail.read == (Path("/opt/toolchain"), project / "vendor")


def test_the_environment_names_another_file_which_must_be_there(
    project: Path, tmp_path: Path
) -> None:
    write(project, "[run]\nagent = 'one'\n")
    other = tmp_path / "other.toml"
    other.write_text("[run]\nagent = 'two'\n")
    named = {"AGENTFORGE_CONFIG": str(other)}
    assert load_configuration(environment=named).run.agent == "two"
    assert load_configuration(other, environment={}).run.agent == "two"
    with pytest.raises(InvalidConfiguration, match="there is no such file"):
        load_configuration(environment={"AGENTFORGE_CONFIG": str(tmp_path / "none.toml")})


def test_a_key_of_the_project_is_no_fault_of_the_questions(project: Path) -> None:
    write(project, "[run]\nagent = 3\n[questions]\nmax_sessions = 7\n")
    assert load_config(environment=PERSON).questions.max_sessions == 7
    write(project, "[rum]\n")
    with pytest.raises(InvalidConfig, match="did you mean 'run'"):
        load_config(environment=PERSON)
