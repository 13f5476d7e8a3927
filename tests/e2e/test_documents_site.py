"""The documents' site is built from what is here, and its picture of a run is true."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import prepare

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "mkdocs.yml"
_FENCE = re.compile(r" *(`{3,}|~{3,})(.*)")


def fenced_blocks(text: str) -> list[str]:
    """Return the first line of each fenced block of a page; one within a longer one is content."""
    blocks: list[list[str]] = []
    closes = ""
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        fence, info = found.groups() if found else ("", "")
        if closes and fence.startswith(closes) and not info.strip():
            closes = ""
        elif closes:
            blocks[-1].append(line.strip())
        elif fence and "`" not in info:
            blocks.append([])
            closes = fence
    assert not closes, "a fence is not closed"
    return [next(filter(None, block)) for block in blocks]


def code_of(page: str) -> str:
    """Return what stands in the blocks of code of a built page, as text."""
    blocks = re.findall(r"<pre.*?</pre>", page, re.DOTALL)
    return "\n".join(html.unescape(re.sub(r"<.*?>", "", block)) for block in blocks)


def test_every_page_of_the_documents_is_in_the_navigation() -> None:
    text = CONFIGURATION.read_text(encoding="utf-8")
    named = set(re.findall(r"([a-z0-9/-]+\.md)$", text, re.MULTILINE))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert named == there


def test_the_site_is_built_without_a_network_and_fetches_nothing(tmp_path: Path) -> None:
    """A link or an anchor that leads nowhere fails the build."""
    copy = tmp_path / "project"
    copy.mkdir()
    shutil.copytree(ROOT / "docs", copy / "docs")
    for name in ("tools", "agentforge_sessions"):
        (copy / name).symlink_to(ROOT / name)
    (copy / "mkdocs.yml").write_text(CONFIGURATION.read_text(encoding="utf-8"), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--strict"]
    without_network = ["unshare", "--net", "--map-root-user"]
    if subprocess.run([*without_network, "true"], capture_output=True, check=False).returncode:
        without_network = []
    done = subprocess.run(
        [*without_network, *command, "--config-file", str(copy / "mkdocs.yml")],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    api = (copy / "site" / "api.html").read_text(encoding="utf-8")
    assert 'id="agentforge_sessions.harness.SessionManager.extend_budget"' in api
    for source in (copy / "docs").rglob("*.md"):
        text = source.read_text(encoding="utf-8")
        page = (copy / "site" / source.relative_to(copy / "docs")).with_suffix(".html")
        code = code_of(page.read_text(encoding="utf-8"))
        assert [line for line in fenced_blocks(text) if line not in code] == [], page
    for page in (copy / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r'<(?:script|img|iframe)[^>]+src="(?:https?:)?//', text), page
        assert not re.search(r'<link[^>]+stylesheet[^>]+href="(?:https?:)?//', text), page


def test_the_picture_of_a_run_shows_what_the_commands_print() -> None:
    prepare()
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "pictures" / "kill_and_resume.py"), "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr or "run it without --check, and look at the picture"
