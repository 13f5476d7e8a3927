"""What docs/questions.md says is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from agentforge_sessions.questions import (
    Config,
    UserAnswer,
    format_user_response,
    load_config,
)
from agentforge_sessions.questions.files.store import DEFAULT_BASE_DIR

DOCUMENT = Path(__file__).parents[3] / "docs" / "questions.md"


@pytest.fixture(scope="module")
def text() -> str:
    return DOCUMENT.read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_documented_configuration_is_the_default_one(text: str, tmp_path: Path) -> None:
    (documented,) = blocks(text, "toml")
    path = tmp_path / "config.toml"
    path.write_text(documented)
    assert load_config(path, environment={}) == Config(directory=DEFAULT_BASE_DIR)
    path.write_text(documented.replace("# on_question", "on_question"))
    assert load_config(path, environment={}).notify.on_question is not None
    assert sum(map(len, tomllib.loads(documented).values())) == 11


def test_the_documented_text_is_what_is_written(text: str) -> None:
    from tests.support.questions import DATABASE, FEATURES

    section = text.split("## The text that a model reads", 1)[1].split("\n## ", 1)[0]
    (documented,) = blocks(section, "text")
    assert documented.strip("\n") == format_user_response(
        [
            UserAnswer(question_index=0, selected_option="SQLite"),
            UserAnswer(question_index=1, selected_options=["Auth"], custom_text="it's late"),
        ],
        [DATABASE, FEATURES],
    )
