"""`agentforge questions --web` in a real browser."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.e2e.terminal.conftest import COMMAND, DEADLINE_S, environment
from tests.support.chromium import browsing, find_chromium
from tools.questions import QuestionSessions, UserAnswer

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        CHROMIUM is None, reason="neither chromium nor google-chrome is installed here"
    ),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`agentforge questions --web`, running."""
    process = subprocess.Popen(
        [*COMMAND, "--web", "--port", "0", "--json"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=DEADLINE_S)


async def test_a_person_answers_in_a_browser(
    tmp_path: Path, questions: QuestionSessions, server: subprocess.Popen[str]
) -> None:
    assert CHROMIUM is not None
    assert server.stdout is not None
    (which,) = (one.session_id for one in questions.list_sessions())
    url = json.loads(await asyncio.to_thread(server.stdout.readline))["url"]
    async with browsing(CHROMIUM, tmp_path / "profile") as browser:
        await browser.open(url)
        await browser.until("document.body?.classList.contains('-first-byte')")
        assert await browser.evaluate("location.search") == "", "the key left the address"
        await browser.until("document.activeElement?.tagName === 'TEXTAREA'")
        await browser.until_received(which[:8])  # a person looks first; here are only dots to see
        await browser.press("Enter", "3")
        if keep := os.environ.get("AGENTFORGE_PICTURES"):
            await asyncio.sleep(3)
            Path(keep, "terminal-web.png").write_bytes(await browser.picture())
        await browser.press("Enter", "2", "o", "d", "o", "c", "s", "Tab", "s")
        answers = await asyncio.to_thread(questions.wait_for_answers, which, DEADLINE_S)
        assert answers.answers == (
            UserAnswer(question_index=0, selected_option="Redis"),
            UserAnswer(question_index=1, selected_options=("Lint",), custom_text="docs"),
        )
        assert browser.complaints == []
        async with asyncio.timeout(DEADLINE_S):
            while not await browser.evaluate("document.body.classList.contains('-closed')"):
                await browser.press("q")  # means something once the queue is there again
                await asyncio.sleep(0.1)
        hosts = {urlsplit(one).netloc for one in browser.requested if "://" in one}
        assert hosts == {urlsplit(url).netloc}, "nothing is loaded from elsewhere"


async def test_the_server_ends_with_all_its_applications_at_ctrl_c(
    tmp_path: Path, questions: QuestionSessions, server: subprocess.Popen[str]
) -> None:
    assert CHROMIUM is not None
    assert server.stdout is not None
    url = json.loads(await asyncio.to_thread(server.stdout.readline))["url"]
    async with browsing(CHROMIUM, tmp_path / "profile") as browser:
        await browser.open(url)
        await browser.until("document.body?.classList.contains('-first-byte')")
        children = psutil.Process(server.pid).children()
        assert len(children) == 1
        server.send_signal(signal.SIGINT)
        code = await asyncio.to_thread(server.wait, DEADLINE_S)
        assert code == 0
        assert not any(one.is_running() for one in children)
        await browser.until("document.body.classList.contains('-closed')")
    assert server.stderr is not None
    assert server.stderr.read() == ""
