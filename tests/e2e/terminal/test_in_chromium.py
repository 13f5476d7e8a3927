"""`agentforge questions --web` in a real browser."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY
from urllib.parse import urlsplit

import psutil
import pytest
from aiohttp import web

from agentforge_sessions.questions import QuestionSessions, UserAnswer
from tests.e2e.terminal.conftest import COMMAND, DEADLINE_S, FIRST, environment
from tests.support.chromium import browsing, find_chromium
from tests.support.page_address import another_address, code_of, exchange, key_of
from tests.support.profile_files import files_with

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
        stdin=subprocess.PIPE,
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
        assert await browser.evaluate("location.href") == url.partition("#")[0], "no key in it"
        assert await browser.evaluate("document.cookie") == ""
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
            UserAnswer(
                question_index=1,
                selected_options=("Types (recommended)", "Lint", "Tests [recommended]"),
                custom_text="docs",
            ),
        )
        assert browser.complaints == []
        async with asyncio.timeout(DEADLINE_S):
            while not await browser.evaluate("document.body.classList.contains('-closed')"):
                await browser.press("q")  # means something once the queue is there again
                await asyncio.sleep(0.1)
        hosts = {urlsplit(one).netloc for one in browser.requested if "://" in one}
        assert hosts == {urlsplit(url).netloc}, "nothing is loaded from elsewhere"


ATTACK = """
<!DOCTYPE html><body><script>
const target = "127.0.0.1:%d";
const tried = {cookie: document.cookie, kept: JSON.stringify({...sessionStorage})};
const socket = (name, ...rest) => new Promise(resolve => {
  const one = new WebSocket(...rest);
  one.onopen = () => resolve([name, "open"]);
  one.onerror = () => resolve([name, "refused"]);
});
const read = fetch(`http://${target}/`).then(() => ["read", "read"], () => ["read", "refused"]);
const framed = new Promise(resolve => {
  const frame = document.createElement("iframe");
  frame.src = `http://${target}/`;
  frame.onload = () => {
    let seen = "refused";
    try { seen = JSON.stringify({...frame.contentWindow.sessionStorage}); } catch {}
    resolve(["framed", seen]);
  };
  document.body.append(frame);
});
Promise.all([
  socket("bare", `ws://${target}/ws`),
  socket("protocol", `ws://${target}/ws`, ["agentforge.questions"]),
  socket("stored", `ws://${target}/ws`, ["agentforge.questions", "null"]),
  read, framed,
]).then(all => { window.tried = {...tried, ...Object.fromEntries(all)}; });
</script>
"""


async def test_a_page_of_another_port_of_this_machine_reaches_nothing(
    tmp_path: Path, questions: QuestionSessions, server: subprocess.Popen[str]
) -> None:
    """In the tab in which the questions are open, with all that the browser has kept."""
    assert CHROMIUM is not None
    assert server.stdout is not None
    url = urlsplit(json.loads(await asyncio.to_thread(server.stdout.readline))["url"])
    key = key_of(await asyncio.to_thread(another_address, server))
    requests: list[str] = []

    async def attack(request: web.Request) -> web.Response:
        requests.append(f"{request.raw_path} {request.raw_headers!r}")
        return web.Response(text=ATTACK % url.port, content_type="text/html")

    runner = web.AppRunner(other := web.Application(), access_log=None, shutdown_timeout=0.1)
    other.router.add_get("/{any:.*}", attack)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listening).start()
    try:
        async with browsing(CHROMIUM, tmp_path / "profile") as browser:
            await browser.open(url.geturl())
            await browser.until("document.body?.classList.contains('-first-byte')")
            await browser.evaluate(
                f"location.href = 'http://127.0.0.1:{listening.getsockname()[1]}/'"
            )
            await browser.until("window.tried?.read")
            assert await browser.evaluate("window.tried") == {
                "cookie": "",
                "kept": "{}",
                "bare": "refused",
                "protocol": "refused",
                "stored": "refused",
                "read": "refused",
                "framed": "refused",
            }
            assert requests
            assert key
            assert not any(key in one or "Cookie" in one for one in requests)
            await browser.evaluate("history.back()")  # the tab still has its key
            await browser.until("document.body?.classList.contains('-first-byte')")
    finally:
        await runner.cleanup()


async def test_a_page_without_the_key_shows_what_to_open(
    tmp_path: Path, questions: QuestionSessions, server: subprocess.Popen[str]
) -> None:
    assert CHROMIUM is not None
    assert server.stdout is not None
    url = json.loads(await asyncio.to_thread(server.stdout.readline))["url"]
    async with browsing(CHROMIUM, tmp_path / "profile") as browser:
        await browser.open(url.partition("#")[0])
        await browser.until("document.body?.classList.contains('-refused')")
        assert "not connected" in await browser.evaluate("document.body.innerText")
        assert "Press Enter" in await browser.evaluate("document.body.innerText")
        await browser.evaluate("location.hash = 'code=wrong'; location.reload()")
        await browser.until("document.body?.classList.contains('-refused')")
        assert await browser.evaluate("location.hash") == ""
        assert FIRST[:8].encode() not in browser.received
    assert psutil.Process(server.pid).children() == []


async def test_the_key_is_in_no_file_of_the_browser_and_survives_a_reload(
    tmp_path: Path, questions: QuestionSessions, server: subprocess.Popen[str]
) -> None:
    assert CHROMIUM is not None
    assert server.stdout is not None
    url = json.loads(await asyncio.to_thread(server.stdout.readline))["url"]
    profile = tmp_path / "profile"
    async with browsing(CHROMIUM, profile) as browser:
        await browser.open(url)
        await browser.until("document.body?.classList.contains('-first-byte')")
        await browser.evaluate("window.before = true; location.reload()")
        await browser.until("!window.before && document.body?.classList.contains('-first-byte')")
        assert await asyncio.to_thread(exchange, url) == (403, ANY), "it was used"
        another = await asyncio.to_thread(another_address, server)
        key = key_of(another)
        assert key not in await browser.evaluate("JSON.stringify({...sessionStorage})")
        await browser.call("Browser.close")
    assert files_with(profile, key) == []
    assert files_with(profile, code_of(url)), "the search finds what was in the address"


async def test_an_address_that_was_used_is_answered_by_another_one_in_the_same_tab(
    tmp_path: Path, questions: QuestionSessions, server: subprocess.Popen[str]
) -> None:
    assert CHROMIUM is not None
    assert server.stdout is not None
    url = json.loads(await asyncio.to_thread(server.stdout.readline))["url"]
    assert key_of(url)
    async with browsing(CHROMIUM, tmp_path / "profile") as browser:
        await browser.open(url)
        await browser.until("document.body?.classList.contains('-refused')")
        another = await asyncio.to_thread(another_address, server)
        await browser.evaluate(f"location.href = {another!r}")  # it differs in its fragment alone
        await browser.until("document.body?.classList.contains('-first-byte')")
        assert not await browser.evaluate("document.body.classList.contains('-refused')")


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
