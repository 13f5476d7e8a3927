"""The documents' site is built from what is here, and its picture of a run is true."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import prepare
from tests.support.documents import DOCS, ROOT, built_site, menu

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory.mktemp("project"))


def test_every_page_of_the_menu_is_built_with_its_source_and_the_version(site: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for page in menu():
        name = page.relative_to(DOCS)
        text = (site / name).with_suffix(".html").read_text(encoding="utf-8")
        assert f'href="../docs/{name.as_posix()}"' in text, name
        assert f"AgentForge Harness {project['version']}," in text


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//', text), page
        assert not re.search(r'<link[^>]+stylesheet[^>]+href="(?:https?:)?//', text), page


def test_the_picture_of_a_run_shows_what_the_commands_print() -> None:
    prepare()
    done = subprocess.run(
        [sys.executable, str(DOCS / "pictures" / "kill_and_resume.py"), "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr or "run it without --check, and look at the picture"
