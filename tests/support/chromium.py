"""A headless Chromium, driven over its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import aiohttp
from attrs import define, field

DEADLINE_S: Final = 60.0


def find_chromium() -> str | None:
    """Return the browser's path; None if there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if (found := shutil.which(name)) is not None:
            return found
    return None


@define
class Browser:
    """One page of a browser."""

    _socket: aiohttp.ClientWebSocketResponse
    requested: list[str] = field(factory=list)
    """Every address the page asked for."""
    complaints: list[str] = field(factory=list)
    """The errors it told its console: exceptions, refusals by the policy, what was not found."""
    received: bytearray = field(factory=bytearray)
    """What came over its web sockets, one message after the other."""
    _numbers: itertools.count[int] = field(factory=lambda: itertools.count(1))
    _answers: dict[int, asyncio.Future[Any]] = field(factory=dict)

    async def listen(self) -> None:
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                self._answers.pop(said["id"]).set_result(said)
            elif said["method"] in {"Network.requestWillBeSent", "Network.webSocketCreated"}:
                params = said["params"]
                self.requested.append(params.get("url") or params["request"]["url"])
            elif said["method"] == "Network.webSocketFrameReceived":
                frame = said["params"]["response"]
                data = frame["payloadData"]
                binary = frame["opcode"] == 2
                self.received += base64.b64decode(data) if binary else data.encode()
            elif said["method"] == "Log.entryAdded":
                entry = said["params"]["entry"]
                if entry["level"] == "error":
                    self.complaints.append(f"{entry['text']} {entry.get('url', '')}")
            elif said["method"] == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(said["params"]["exceptionDetails"]))

    async def call(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        self._answers[number] = answer = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        said = await asyncio.wait_for(answer, DEADLINE_S)
        assert "error" not in said, said
        return said["result"]

    async def open(self, url: str) -> None:
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)

    async def evaluate(self, expression: str) -> Any:
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return result["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        async with asyncio.timeout(DEADLINE_S):
            while not await self.evaluate(expression):
                await asyncio.sleep(0.05)

    async def until_received(self, text: str) -> None:
        """Wait until a text has come over a web socket."""
        async with asyncio.timeout(DEADLINE_S):
            while text.encode() not in self.received:
                await asyncio.sleep(0.05)

    async def press(self, *keys: str) -> None:
        """Press keys: letters and digits as they are, others by name ("Enter")."""
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38}
        for key in keys:
            code = codes.get(key, ord(key.upper()) if len(key) == 1 else 0)
            what = {"key": key, "windowsVirtualKeyCode": code, "code": key}
            text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
            await self.call("Input.dispatchKeyEvent", type="keyDown", **what, **text)
            await self.call("Input.dispatchKeyEvent", type="keyUp", **what)

    async def picture(self) -> bytes:
        """Return what is seen, as PNG."""
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])


@asynccontextmanager
async def browsing(
    program: str, profile: Path, *, width: int = 900, height: int = 620
) -> AsyncIterator[Browser]:
    """Start a browser with a profile of its own, and end it."""
    profile.mkdir(parents=True, exist_ok=True)
    # Its socket lies there, and the path of a socket may have 107 characters.
    temporary = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
    process = subprocess.Popen(
        [
            program,
            "--headless=new",
            "--no-sandbox",  # tests may run as root, in containers
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            "about:blank",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(profile), "TMPDIR": temporary.name},
        start_new_session=True,
    )
    try:
        port = await _port_of(process, profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as http:
            url = await _page_of(http, port)
            async with http.ws_connect(url, max_msg_size=0) as socket:
                browser = Browser(socket)
                listening = asyncio.create_task(browser.listen())
                try:
                    yield browser
                finally:
                    listening.cancel()
                    with suppress(asyncio.CancelledError):
                        await listening
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        temporary.cleanup()


async def _page_of(http: aiohttp.ClientSession, port: int) -> str:
    """Return where its first page is driven; the page comes a moment after the port."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            async with http.get(f"http://127.0.0.1:{port}/json/list") as answer:
                for one in await answer.json():
                    if one["type"] == "page":
                        return str(one["webSocketDebuggerUrl"])
            await asyncio.sleep(0.05)


async def _port_of(process: subprocess.Popen[bytes], file: Path) -> int:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            assert process.poll() is None, f"the browser ended with {process.returncode}"
            with suppress(FileNotFoundError):
                if len(lines := file.read_text().splitlines()) > 1:  # else it is being written
                    return int(lines[0])
            await asyncio.sleep(0.05)
