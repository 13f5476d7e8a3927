"""The address that a server of pages prints, taken as a browser takes it."""

from __future__ import annotations

import http.client
import json
import subprocess
from typing import Final
from urllib.parse import urlencode, urlsplit

PATIENCE_S: Final = 60.0


def code_of(url: str) -> str:
    """Return the code that an address holds."""
    return urlsplit(url).fragment.removeprefix("code=")


def exchange(url: str) -> tuple[int, str]:
    """Exchange the code of an address as its page does; return the answer."""
    place = urlsplit(url).netloc
    connection = http.client.HTTPConnection(place, timeout=PATIENCE_S)
    try:
        body = urlencode({"code": code_of(url)})
        headers = {
            "Origin": f"http://{place}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        connection.request("POST", "/key", body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def key_of(url: str) -> str:
    """Return the key that the code of an address is exchanged for."""
    status, text = exchange(url)
    assert status == 200, text
    return text


def another_address(process: subprocess.Popen[str]) -> str:
    """Press Enter at a server that writes JSON; return the address that it writes."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return str(json.loads(process.stdout.readline())["url"])
