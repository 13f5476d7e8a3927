"""Who may use the page: whoever has the key, from this machine, from the page itself."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from attrs import define

from tools.terminal.errors import AddressRefused
from tools.terminal.web import MAX_PAGES, LoopbackServer, serve

pytestmark = pytest.mark.anyio
KEY = "k" * 32
QUIET = [sys.executable, "-c", "import sys; print('__GANGLION__', flush=True); sys.stdin.read(5)"]
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(f"{sys.argv[1]}.part", "w") as file:
    file.write(str(os.getpid()))
os.rename(f"{sys.argv[1]}.part", sys.argv[1])
time.sleep(600)
"""


@define
class Page:
    """A served application, and a browser that keeps its cookies."""

    http: aiohttp.ClientSession
    server: LoopbackServer

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.http.get(self.base + path, headers=headers) as answer:
            return answer.status, await answer.text()

    def socket(self, **headers: str):  # type: ignore[no-untyped-def]
        return self.http.ws_connect(f"{self.base}/ws", headers=headers)


@asynccontextmanager
async def served(command: Sequence[str] = QUIET) -> AsyncIterator[Page]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = LoopbackServer(command, port=listening.getsockname()[1], key=KEY)
    runner = web.AppRunner(await server.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    jar = aiohttp.CookieJar(unsafe=True)  # also of numeric addresses
    try:
        async with aiohttp.ClientSession(cookie_jar=jar) as http:
            yield Page(http, server)
    finally:
        await runner.cleanup()


async def test_without_the_key_nothing_is_served(anyio_backend: str) -> None:
    async with served() as page:
        for path in ("/", "/?key=wrong", "/static/js/textual.js", "/ws", "/download/x"):
            status, text = await page.get(path, Origin=page.base)
            assert status == 403, path
            assert KEY not in text
            assert "--web` printed" in text


async def test_a_cookie_that_is_no_text_is_a_wrong_key_and_no_fault(anyio_backend: str) -> None:
    async with served() as page:
        reader, writer = await asyncio.open_connection("127.0.0.1", page.server.port)
        host = b"Host: 127.0.0.1:%d\r\n" % page.server.port
        cookie = b"Cookie: agentforge_questions_%d=\xff\xed\xa0\x80\r\n" % page.server.port
        writer.write(b"GET / HTTP/1.1\r\n" + host + cookie + b"Connection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 403 ")


async def test_the_key_opens_the_page_and_leaves_the_address(anyio_backend: str) -> None:
    async with served() as page:
        assert page.server.url == f"{page.base}/?key={KEY}"
        async with page.http.get(page.server.url) as answer:
            text = await answer.text()
            assert answer.status == 200
            assert KEY not in str(answer.url)
            assert KEY not in text
            policy = answer.headers["Content-Security-Policy"]
            (moved,) = answer.history
        assert "default-src 'none'" in policy
        assert "HttpOnly" in moved.headers["Set-Cookie"]
        assert "SameSite=Strict" in moved.headers["Set-Cookie"]
        assert (await page.get("/static/js/textual.js"))[0] == 200


async def test_the_page_loads_nothing_from_elsewhere(anyio_backend: str) -> None:
    async with served() as page:
        _, text = await page.get(f"/?key={KEY}")
    assert "https:" not in text
    assert "http:" not in text


async def test_another_name_for_this_machine_is_refused(anyio_backend: str) -> None:
    """A site whose name was made to mean 127.0.0.1 does not get at the questions."""
    async with served() as page:
        await page.get(f"/?key={KEY}")
        for name in ("evil.example", "127.0.0.1.evil.example", "evil.example:80@127.0.0.1"):
            status, text = await page.get(f"/?key={KEY}", Host=name)
            assert status == 403, name
            assert "names of this machine" in text
        port = page.server.port
        assert (await page.get("/", Host=f"localhost:{port + 1}"))[0] == 200, "as behind ssh -L"


async def test_another_page_can_not_connect_even_with_the_cookie(anyio_backend: str) -> None:
    async with served() as page:
        await page.get(f"/?key={KEY}")
        for origin in ("https://evil.example", "null", "", "http://127.0.0.1:1"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await page.socket(Origin=origin)
            assert refused.value.status == 403
        async with page.socket(Origin=page.base):
            pass


async def test_so_many_pages_and_no_more(anyio_backend: str) -> None:
    async with served() as page:
        await page.get(f"/?key={KEY}")
        opened = [await page.socket(Origin=page.base) for _ in range(MAX_PAGES)]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await page.socket(Origin=page.base)
        assert refused.value.status == 503
        for one in opened:
            await one.close()


async def test_an_application_that_takes_long_to_end_does_not_outlive_the_server(
    anyio_backend: str, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    async with served([sys.executable, "-c", STUBBORN, str(pid)]) as page:
        await page.get(f"/?key={KEY}")
        async with page.socket(Origin=page.base):
            while not pid.exists():
                await asyncio.sleep(0.01)
    with pytest.raises(ProcessLookupError):  # it has ended and was waited for
        os.kill(int(pid.read_text()), 0)


def test_a_port_that_is_taken_is_told(anyio_backend: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressRefused, match=f"port {port}: Address already in use.*--port 0"):
            serve(QUIET, port=port, key=KEY, ready=lambda _: None)
