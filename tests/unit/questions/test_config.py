"""The configuration file: each key changes what it names, and a wrong one is reported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attrs import asdict

from agentforge_sessions.questions import (
    Config,
    InvalidConfig,
    QuestionsConfig,
    load_config,
    open_sessions,
    shared_directory,
)
from agentforge_sessions.questions.config import NotifyConfig
from tests.support.trusting import PERSON, trusted


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_no_file_is_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(environment=PERSON) == Config()
    Path(".agentforge").mkdir()
    trusted(Path(), "[questions]\nmax_sessions = 5\n")
    assert load_config(environment=PERSON).questions.max_sessions == 5


def test_only_the_bell_and_the_title_are_on_by_default() -> None:
    assert NotifyConfig() == NotifyConfig(bell=True, title=True, desktop=False, on_question=None)


@pytest.mark.parametrize(
    ("section", "key", "text", "value"),
    [
        ("questions", "max_sessions", "7", 7),
        ("questions", "retention_s", "60", 60),
        ("questions", "session_timeout_s", "1.5", 1.5),
        ("questions", "max_questions", "9", 9),
        ("questions", "min_options", "0", 0),
        ("questions", "max_options", "9", 9),
        ("questions", "max_text_chars", "9", 9),
        ("notify", "bell", "false", False),
        ("notify", "title", "false", False),
        ("notify", "desktop", "true", True),
        ("notify", "on_question", '"echo hi"', "echo hi"),
        ("notify", "events", '["phase.*"]', ("phase.*",)),
        ("notify", "on_event", '"echo hi"', "echo hi"),
    ],
)
def test_a_key_changes_what_it_names_and_nothing_else(
    file: Path, section: str, key: str, text: str, value: object
) -> None:
    file.write_text(f"[{section}]\n{key} = {text}\n")
    found, default = asdict(load_config(file)), asdict(Config())
    assert default[section].pop(key) != value
    assert found[section].pop(key) == value
    assert found == default


def test_every_key_has_its_test() -> None:
    tested = {
        mark.args[1][i][1]
        for mark in test_a_key_changes_what_it_names_and_nothing_else.pytestmark  # type: ignore[attr-defined]
        for i in range(len(mark.args[1]))
    }
    known = {*asdict(QuestionsConfig()), *asdict(NotifyConfig())}
    assert tested == known


def test_the_directory_is_the_files_or_the_environments(file: Path, tmp_path: Path) -> None:
    file.write_text(f'[questions]\ndirectory = "{tmp_path}/here"\n')
    config = load_config(file, environment={})
    assert open_sessions(config=config).base_dir == tmp_path / "here"
    assert open_sessions("there", config=config).base_dir == Path("there")
    config = load_config(file, environment={"AGENTFORGE_QUESTIONS": "/elsewhere"})
    assert open_sessions(config=config).base_dir == Path("/elsewhere")
    config = load_config(environment={"AGENTFORGE_CONFIG": str(file)})
    assert config.directory == tmp_path / "here"


def test_everything_wrong_is_told_at_once_with_the_nearest_name(file: Path) -> None:
    file.write_text(
        "[question]\n"
        "[questions]\nmax_session = 5\nmax_options = 1\nretention_s = -1\ndirectory = 3\n"
        '[notify]\nbell = "yes"\non_question = ""\nbeep = true\n'
    )
    with pytest.raises(InvalidConfig) as caught:
        load_config(file)
    assert caught.value.path == file
    assert str(caught.value).startswith(f"{file}: ")
    assert set(caught.value.faults) == {
        "line 1: question: there is no such key; did you mean 'questions'?",
        "line 3: questions.max_session: there is no such key; did you mean 'max_sessions'?",
        "line 5: questions.retention_s: expected a number of seconds, 0 or more, got -1",
        "line 6: questions.directory: expected text, found 3",
        "line 8: notify.bell: expected true or false, got 'yes'",
        "line 9: notify.on_question: expected a command, got ''",
        "line 10: notify.beep: there is no such key; there are bell, desktop, events, on_event, "
        "on_question, title",
    }


@pytest.mark.parametrize(
    "content", [b"[", b"\xff", b"questions = 3", b"a = " + b"[" * 5000, b'x = "\\ud800"']
)
def test_what_is_no_toml_is_told(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(InvalidConfig):
        load_config(file)


def test_a_named_file_must_be_there_and_be_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="there is no such file"):
        load_config(tmp_path / "missing.toml")
    with pytest.raises(InvalidConfig, match="regular file"):
        load_config(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InvalidConfig):
        load_config(tmp_path / "fifo")


def test_limits_are_checked_together() -> None:
    with pytest.raises(InvalidConfig) as caught:
        QuestionsConfig(max_sessions=0, retention_s=float("nan"), max_options=True)
    assert len(caught.value.faults) == 3
    with pytest.raises(InvalidConfig, match="less than min_options"):
        QuestionsConfig(min_options=6)


# ---------------------------------------------------- the directory that all programs share

HOME = Path("/home/ada")


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({}, "linux", "/home/ada/.local/share/auq/sessions"),
        ({"XDG_DATA_HOME": "/data"}, "linux", "/data/auq/sessions"),
        ({"XDG_DATA_HOME": ""}, "linux", "/home/ada/.local/share/auq/sessions"),
        ({"XDG_DATA_HOME": "/data"}, "freebsd14", "/data/auq/sessions"),
        (
            {"XDG_DATA_HOME": "/data"},
            "darwin",
            "/home/ada/Library/Application Support/auq/sessions",
        ),
        ({"APPDATA": "/app", "USERPROFILE": "/user"}, "win32", "/app/auq/sessions"),
        ({"USERPROFILE": "/user"}, "win32", "/user/auq/sessions"),
        ({"AUQ_SESSION_DIR": "/queue", "XDG_DATA_HOME": "/data"}, "linux", "/queue"),
        ({"AUQ_SESSION_DIR": "/queue"}, "darwin", "/queue"),
        ({"AUQ_SESSION_DIR": "~/queue"}, "linux", "/home/ada/queue"),
        ({"AUQ_SESSION_DIR": "~other/s"}, "linux", "/home/ada/other/s"),
        ({"AUQ_SESSION_DIR": "~"}, "linux", "/home/ada"),
        ({"AUQ_SESSION_DIR": "relative/s"}, "linux", "relative/s"),
        ({"AUQ_SESSION_DIR": ""}, "linux", "/home/ada/.local/share/auq/sessions"),
    ],
)
def test_the_shared_directory_is_where_the_other_program_looks(
    environment: dict[str, str], platform: str, expected: str
) -> None:
    assert shared_directory(environment, platform=platform, home=HOME) == Path(expected)


def test_the_configuration_chooses_the_shared_directory(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[questions]\nshared = true\n")
    queue = {"AUQ_SESSION_DIR": "/queue"}
    assert load_config(file, environment=queue).directory == Path("/queue")
    own = {**queue, "AGENTFORGE_QUESTIONS": "/own"}
    assert load_config(file, environment=own).directory == Path("/own")
    file.write_text("[questions]\nshared = false\n")
    assert load_config(file, environment=queue).directory is None


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("shared = 1", "line 2: questions.shared: expected true or false, found 1"),
        (
            'shared = true\ndirectory = "x"',
            "line 2: questions.shared: it names another place than questions.directory",
        ),
    ],
)
def test_a_shared_directory_that_is_not_clear_is_refused(
    tmp_path: Path, text: str, fault: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"[questions]\n{text}\n")
    with pytest.raises(InvalidConfig) as caught:
        load_config(file, environment={})
    assert caught.value.faults == (fault,)
