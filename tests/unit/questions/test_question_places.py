"""The directory that all projects and programs of a person share."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.questions import InvalidConfig, load_config, shared_directory

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
        ("shared = 1", "questions.shared: expected true or false, got 1"),
        (
            'shared = true\ndirectory = "x"',
            "questions.shared: it names another place than questions.directory",
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
