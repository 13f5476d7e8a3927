"""Who may use the page: who has the key, from this machine, from the page itself."""

from __future__ import annotations

import asyncio
import logging
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

from agentforge_sessions.entrypoints.loopback import AddressRefused, PageKey
from agentforge_sessions.entrypoints.terminal.web import MAX_PAGES, LoopbackServer, serve
from tests.support.page_address import code_of

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
    """A served application, and a browser that keeps every cookie it is given."""

    http: aiohttp.ClientSession
    server: LoopbackServer
    key: PageKey

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        async with self.http.get(self.base + path, headers=headers) as answer:
            return answer.status, await answer.text()

    async def post(
        self, path: str, headers: dict[str, str] | None = None, **fields: str
    ) -> tuple[int, str]:
        headers = {"Origin": self.base} if headers is None else headers
        async with self.http.post(self.base + path, headers=headers, data=fields) as answer:
            return answer.status, await answer.text()

    def socket(self, *, key: str | None = KEY, path: str = "/ws", **headers: str):  # type: ignore[no-untyped-def]
        protocols = ["agentforge.questions"] if key is None else ["agentforge.questions", key]
        headers.setdefault("Origin", self.base)
        return self.http.ws_connect(self.base + path, headers=headers, protocols=protocols)


@asynccontextmanager
async def served(command: Sequence[str] = QUIET) -> AsyncIterator[Page]:
    listening = socket.create_server(("127.0.0.1", 0))
    key = PageKey(KEY)
    server = LoopbackServer(command, port=listening.getsockname()[1], key=key)
    runner = web.AppRunner(await server.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    jar = aiohttp.CookieJar(unsafe=True)  # also of numeric addresses
    try:
        async with aiohttp.ClientSession(cookie_jar=jar) as http:
            yield Page(http, server, key)
    finally:
        await runner.cleanup()


async def test_without_the_key_there_is_no_connection_and_nothing_of_a_session(
    anyio_backend: str, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    async with served([sys.executable, "-c", STUBBORN, str(started)]) as page:
        for key in (None, "wrong", "", KEY[:-1], f"{KEY}k", KEY.upper()):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await page.socket(key=key)
            assert refused.value.status == 403, key
        for path in (f"/ws?key={KEY}", f"/ws?token={KEY}"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await page.socket(key=None, path=path, Cookie=f"key={KEY}", Authorization=KEY)
            assert refused.value.status == 403, path
        for path in ("/", "/questions.js", "/static/js/textual.js", "/ws", "/download/x", "/x"):
            status, text = await page.get(path, Origin=page.base)
            assert status == (200 if path in {"/", "/questions.js"} or "static" in path else 403)
            assert KEY not in text
    assert not started.exists(), "no application was started for them"


async def test_a_key_that_is_no_text_is_a_wrong_key_and_no_fault(anyio_backend: str) -> None:
    async with served() as page:
        reader, writer = await asyncio.open_connection("127.0.0.1", page.server.port)
        host = b"127.0.0.1:%d" % page.server.port
        writer.write(
            b"GET /ws HTTP/1.1\r\nHost: %b\r\nOrigin: http://%b\r\nConnection: close\r\n"
            b"Sec-WebSocket-Protocol: agentforge.questions, \xff\xed\xa0\x80\r\n\r\n" % (host, host)
        )
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 403 ")


async def test_the_key_is_in_no_address_and_comes_for_a_code_that_ends_with_it(
    anyio_backend: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Browsers write addresses to their history, and send cookies to every port of a host."""
    caplog.set_level(logging.DEBUG)
    async with served() as page:
        url = page.key.address(page.server.port)
        assert KEY not in url
        assert url.startswith(f"{page.base}/#code=")
        for headers in ({}, {"Origin": "http://127.0.0.1:1"}):
            assert (await page.post("/key", headers, code=code_of(url)))[0] == 403
        assert await page.post("/key", code=code_of(url)) == (200, KEY)
        status, text = await page.post("/key", code=code_of(url))
        assert status == 403
        assert "Press Enter" in text
        for path in ("/", "/questions.js", "/key.js", "/static/js/textual.js"):
            async with page.http.get(page.base + path) as answer:
                assert KEY not in await answer.text()
                assert KEY not in repr(answer.raw_headers)
                assert "Set-Cookie" not in answer.headers
                assert answer.headers["Referrer-Policy"] == "no-referrer"
                assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
                assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        async with page.socket() as socket:
            assert socket.protocol == "agentforge.questions", "the key is not sent back"
            assert KEY not in repr(socket._response.raw_headers)
            assert "Set-Cookie" not in socket._response.headers
        assert len(page.http.cookie_jar) == 0
    told = capfd.readouterr()
    assert KEY not in told.out + told.err + caplog.text


async def test_a_page_that_has_the_key_makes_the_code_of_its_reload(anyio_backend: str) -> None:
    async with served() as page:
        own, code = {"Origin": page.base}, "c" * 32
        assert (await page.post("/code", code=code))[0] == 403
        shown = {**own, "X-Agentforge-Key": KEY}
        assert (await page.post("/code", shown, code="short"))[0] == 422
        assert (await page.post("/code", shown, code=code))[0] == 204
        assert await page.post("/key", code=code) == (200, KEY)
        assert (await page.post("/key", code=code))[0] == 403
        assert (await page.post("/key", code=code, more="x" * 2_000))[0] == 413


async def test_the_page_loads_nothing_from_elsewhere(anyio_backend: str) -> None:
    async with served() as page:
        text = "".join([(await page.get(path))[1] for path in ("/", "/questions.js", "/key.js")])
    assert "https:" not in text
    assert "http:" not in text


async def test_another_name_for_this_machine_is_refused(anyio_backend: str) -> None:
    """A site whose name was made to mean 127.0.0.1 does not get at the questions."""
    async with served() as page:
        for name in ("evil.example", "127.0.0.1.evil.example", "evil.example:80@127.0.0.1"):
            status, text = await page.get("/", Host=name)
            assert status == 403, name
            assert "names of this machine" in text
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await page.socket(Host=name, Origin=f"http://{name}")
            assert refused.value.status == 403, name
        port = page.server.port
        assert (await page.get("/", Host=f"localhost:{port + 1}"))[0] == 200, "as behind ssh -L"


async def test_another_page_can_not_connect_even_with_the_key(anyio_backend: str) -> None:
    async with served() as page:
        for origin in ("https://evil.example", "null", "", "http://127.0.0.1:1"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await page.socket(Origin=origin)
            assert refused.value.status == 403
        async with page.socket():
            pass


async def test_so_many_pages_and_no_more(anyio_backend: str) -> None:
    async with served() as page:
        opened = [await page.socket() for _ in range(MAX_PAGES)]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await page.socket()
        assert refused.value.status == 503
        for one in opened:
            await one.close()


async def test_an_application_that_takes_long_to_end_does_not_outlive_the_server(
    anyio_backend: str, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    async with served([sys.executable, "-c", STUBBORN, str(pid)]) as page, page.socket():
        while not pid.exists():
            await asyncio.sleep(0.01)
    with pytest.raises(ProcessLookupError):  # it has ended and was waited for
        os.kill(int(pid.read_text()), 0)


def test_a_port_that_is_taken_is_told(anyio_backend: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(AddressRefused, match=f"port {port}: Address already in use.*--port 0"):
            serve(QUIET, port=port, ready=lambda _: None)
